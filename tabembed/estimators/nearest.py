"""Which vectors of a table lie closest to one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tabembed._checks import check_choice, check_integer

METRICS = {"cosine": "similarity", "euclidean": "distance"}
"""Metrics, and what they call how close two vectors are."""
BESIDE = ("category", "count", "kind")
"""Columns of an embedding table that are not entries of its vectors."""


def nearest_rows(table: pd.DataFrame, row: int, *, k: int = 10, metric: str = "cosine") -> pd.DataFrame:
    """The rows of an embedding table that lie closest to one of its rows.

    Padding is no row, nor is that of missing values where the fit had none.

    Args:
        table: what ``embedding_table`` gives.
        row: number of the row that is asked about.
        k: most rows to give.
        metric: ``"cosine"``, the largest similarity first, which is 0 to a vector of zeros; ``"euclidean"``,
            the smallest distance first.

    Returns: frame with ``category``, ``similarity`` or ``distance``, ``count`` and ``kind``; equally close
        ones in the order of the table.

    Raises: ValueError when ``k`` or ``metric`` breaks its rule.

    >>> table = pd.DataFrame({"category": [None, None, None, "a", "b"], "count": 1, "kind": "known"})
    >>> nearest_rows(table.assign(e0=[0, 9, 9, 1, 2], e1=[0, 0, 0, 1, 2]), 3, k=1)
      category  similarity  count   kind
    0        b         1.0      1  known
    """
    check_choice(METRICS, metric=metric)
    check_integer(k=k)
    vectors, taught = vectors_of(table), is_taught(table)
    if metric == "cosine":
        norms = np.linalg.norm(vectors, axis=1)
        unit = vectors / np.where(norms > 0, norms, 1)[:, None]
        close = unit @ unit[row]
        far = -close
    else:
        far = close = np.linalg.norm(vectors - vectors[row], axis=1)
    order = np.argsort(far, kind="stable")
    order = order[(order != row) & taught[order]][:k]
    found: Any = table.loc[order, list(BESIDE)].reset_index(drop=True)
    found.insert(1, METRICS[metric], close[order])
    return found


def vectors_of(table: pd.DataFrame) -> np.ndarray:
    """The vectors of an embedding table, ``(n_rows, width)`` float64."""
    return table.drop(columns=list(BESIDE)).to_numpy(np.float64)


def is_taught(table: pd.DataFrame) -> np.ndarray:
    """False for padding, and for the missing row where the fit had none missing: the unknown one again."""
    never = (table["kind"] == "missing") & (table["count"] == 0)
    return ((table["kind"] != "padding") & ~never).to_numpy()
