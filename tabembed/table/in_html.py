"""What a fit has found in the columns, beneath scikit-learn's picture of an estimator in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_MOST = 60
"""Most columns that are listed."""
_SHARES = ("missing", "unknown", "missing fit", "unseen", "unseen fit", "out of range")


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


def html_table(columns: pd.DataFrame, most: int | None = _MOST) -> str:
    """A table in HTML, its text escaped and its shares in per cent.

    Args:
        columns: one row a column of a table; ``missing`` and ``unknown`` are shares.
        most: most rows that are shown, the others being counted; ``None`` for all.

    >>> import pandas as pd
    >>> html_table(pd.DataFrame({"column": ["<b>"], "missing": [0.125]}))
    '<table><thead><tr><th>column</th><th>missing</th></tr></thead><tbody><tr><td>&lt;b&gt;</td><td>12.5%...'
    """
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    rows = [
        "".join(f"<td>{escape(cell)}</td>" for cell in row)
        for row in shown_cells(columns.head(most or len(columns))).itertuples(index=False)
    ]
    if len(columns) > len(rows):
        rows.append(f'<td colspan="{columns.shape[1]}">and {len(columns) - len(rows):,} more columns</td>')
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def shown_cells(columns: pd.DataFrame) -> pd.DataFrame:
    """The same as text: shares in per cent, other numbers to three digits, ``-`` for nothing.

    Args:
        columns: as for ``html_table``.

    >>> import pandas as pd
    >>> shown_cells(pd.DataFrame({"missing": [0.125, None], "distance": [0.04321, 1.0]})).to_numpy().tolist()
    [['12.5%', '0.0432'], ['-', '1']]
    """
    import pandas as pd

    return pd.DataFrame(
        {name: [_cell(str(name), cell) for cell in columns[name]] for name in columns}, dtype=object
    )


def _cell(name: str, cell: Any) -> str:
    import pandas as pd

    if pd.isna(cell):
        return "-"
    if name in _SHARES and not isinstance(cell, str):
        return f"{cell:.1%}"
    if isinstance(cell, float):
        return f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
