"""Ids of single values, asked of a fitted encoder by the name of their column."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabembed.table.encoder import TableEncoder
from tabembed.table.frame import read_frame


def column_with_ids(encoder: TableEncoder | None, column: str) -> Any:
    """The fitted column of a name, which has a vocabulary.

    Args:
        encoder: a fitted encoder; ``None`` has no columns.
        column: its name.

    Raises: ValueError when there is no such column, or it has no categories.
    """
    fitted = {} if encoder is None else encoder.columns_
    named = {name: one for name, one in fitted.items() if hasattr(one, "vocabulary")}
    if column not in named:
        raise ValueError(f"column {column!r}: has no embedding table, only {list(named)} have one")
    return named[column]


def ids_of(encoder: TableEncoder, column: str, values: Any) -> np.ndarray:
    """Ids of values as they stand in the cells of a column, or inside the lists of one.

    Args:
        encoder: a fitted encoder.
        column: name of a categorical column or a column of lists.
        values: a list, a series or an array of them.

    Raises: ValueError when there is no such column. TypeError for values of another type than in the fit.

    >>> import pandas as pd
    >>> encoder = TableEncoder().fit(pd.DataFrame({"city": ["Oslo", "Rome", "Rome"]}))
    >>> ids_of(encoder, "city", ["Rome", "Oslo", None, "Lima"]).tolist()
    [3, 4, 1, 2]
    """
    fitted = column_with_ids(encoder, column)
    return fitted.vocabulary.encode(read_frame({column: values}).column(0))
