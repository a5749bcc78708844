"""What a fitted encoder made of a table, as a frame to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabembed.schema import MISSING, UNKNOWN, CategoricalColumn
from tabembed.table.encoder import TableEncoder

if TYPE_CHECKING:
    import pandas as pd


def describe(encoder: TableEncoder) -> pd.DataFrame:
    """One row a column: kind, known values, and the shares that are missing and rare.

    Args:
        encoder: a fitted encoder.

    >>> import pandas as pd
    >>> from tabembed import TableEncoder
    >>> describe(TableEncoder().fit(pd.DataFrame({"city": ["Oslo", "Rome", None, "Rome"]})))
      column         kind  n_known  missing  rare
    0   city  categorical        2     0.25   0.0
    """
    import pandas as pd

    rows = []
    for column in encoder.schema_.columns:
        kind = encoder.kinds_[column.name]
        if isinstance(column, CategoricalColumn):
            total = max(sum(column.counts), 1)
            known, missing, rare = (
                column.n_known,
                column.counts[MISSING] / total,
                column.counts[UNKNOWN] / total,
            )
        else:
            known, rare = None, None
            missing = column.n_missing / max(column.n_missing + column.n_values, 1)
        rows.append({"column": column.name, "kind": kind, "n_known": known, "missing": missing, "rare": rare})
    frame = pd.DataFrame(rows, columns=["column", "kind", "n_known", "missing", "rare"])
    return frame.astype({"n_known": "Int64", "missing": float, "rare": float})
