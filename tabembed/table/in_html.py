"""What a fit has found in the columns, beneath scikit-learn's picture of an estimator in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_MOST = 60
"""Most columns that are listed."""
_SHARES = ("missing", "unknown")


class ColumnsInHtml:
    """Shows a table of the columns once there is a fit; before that scikit-learn's own picture alone."""

    def _columns_shown(self) -> pd.DataFrame | None:
        """One row a column: what is to be shown of it; ``None`` before a fit."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        picture: str = super()._repr_html_inner()  # type: ignore[misc]
        columns = self._columns_shown()
        return picture if columns is None else picture + html_table(columns)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in shown:  # not where scikit-learn is set to show text
            shown["text/html"] = self._repr_html_inner()
        return shown


def fitted_columns(encoder: Any) -> pd.DataFrame:
    """Kind, known values, and the shares of missing and unknown cells of the columns of a fitted encoder.

    Args:
        encoder: a fitted ``TableEncoder``.
    """
    from tabembed.table.report import describe

    return describe(encoder).rename(columns={"n_known": "known values", "rare": "unknown"})


def html_table(columns: pd.DataFrame) -> str:
    """A table in HTML, its text escaped and its shares in per cent.

    Args:
        columns: one row a column of a table; ``missing`` and ``unknown`` are shares.

    >>> import pandas as pd
    >>> html_table(pd.DataFrame({"column": ["<b>"], "missing": [0.125]}))
    '<table><thead><tr><th>column</th><th>missing</th></tr></thead><tbody><tr><td>&lt;b&gt;</td><td>12.5%...'
    """
    names = [str(name) for name in columns]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = [
        "".join(f"<td>{escape(_cell(name, cell))}</td>" for name, cell in zip(names, row, strict=True))
        for row in columns.head(_MOST).itertuples(index=False)
    ]
    if len(columns) > _MOST:
        rows.append(f'<td colspan="{columns.shape[1]}">and {len(columns) - _MOST:,} more columns</td>')
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(name: str, cell: Any) -> str:
    import pandas as pd

    if pd.isna(cell):
        return "-"
    if name in _SHARES:
        return f"{cell:.1%}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
