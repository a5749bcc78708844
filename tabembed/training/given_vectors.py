"""Vectors that people bring along: a frame or a dict of them, read into one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tabembed.schema import FIRST_KNOWN, MISSING, PADDING, UNKNOWN
from tabembed.table.frame import read_frame, to_pandas
from tabembed.table.lookup import ids_of

KINDS = {"padding": PADDING, "missing": MISSING, "unknown": UNKNOWN, "known": None}
"""Kinds of rows of an embedding table, and the id of those that have one whatever their category."""


@dataclass(frozen=True, eq=False)
class GivenVectors:
    """Vectors and the ids that a fitted encoder gives to their categories.

    Args:
        ids: one id a vector; ``UNKNOWN`` where the encoder does not know the category.
        vectors: the vectors.
        category: True for the vector of a category, False for that of the missing or unknown row.

    Shape:
        - ids, category: ``(n_vectors,)``
        - vectors: ``(n_vectors, width)`` float64
    """

    ids: np.ndarray
    vectors: np.ndarray
    category: np.ndarray


def read_vectors(frame: Any, column: str, encoder: Any) -> GivenVectors:
    """Read the vectors that are given for a column.

    Args:
        frame: a frame with a ``category`` column, or one called like the column itself, and perhaps
            ``kind`` and ``count``, as ``embedding_table`` gives it; a pandas frame that is indexed by the
            categories; or a dict from category to vector. Without ``kind``, a missing category is the row of
            missing values.
        column: name of the column that they are for.
        encoder: a fitted ``TableEncoder``.

    Raises: TypeError for what is no such frame, or no numbers. ValueError for numbers that are not finite, an
        unknown kind, or a category that stands twice.

    >>> from tabembed import TableEncoder
    >>> encoder = TableEncoder().fit(pd.DataFrame({"city": ["Oslo", "Rome", "Rome"]}))
    >>> read_vectors({"Oslo": [0.0, 1.0], "Lima": [2.0, 1.0]}, "city", encoder).ids.tolist()
    [4, 2]
    """
    table = _as_pandas(frame, column)
    kinds = table.pop("kind") if "kind" in table else pd.Series("known", index=table.index)
    for kind in kinds.unique():
        if kind not in KINDS:
            raise ValueError(f"column {column!r}: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    table, kinds = table[(kinds != "padding").to_numpy()], kinds[kinds != "padding"]
    known = (kinds == "known").to_numpy()
    ids = kinds.map(KINDS).fillna(UNKNOWN).to_numpy(np.int64)
    categories = table.pop("category")
    ids[known] = ids_of(encoder, column, list(categories[known]))
    category = known & (ids != MISSING)
    _check_once(column, ids, category, categories)
    return GivenVectors(ids, _numbers(table, column), category)


def _as_pandas(frame: Any, column: str) -> pd.DataFrame:
    """A frame of its own, with ``category`` among its columns and without counts."""
    if isinstance(frame, Mapping):
        lengths = {np.shape(vector) for vector in frame.values()}
        if len(lengths) != 1 or len(next(iter(lengths))) != 1:
            raise ValueError(f"column {column!r}: vectors must be of one width, got shapes {sorted(lengths)}")
        table = pd.DataFrame(list(frame.values()))
        table.insert(0, "category", pd.Series(list(frame), dtype=object))
        return table
    if isinstance(frame, pd.DataFrame):
        table = frame.copy(deep=False)
        if "category" not in table and column in table:
            table = table.rename(columns={column: "category"})
        if "category" not in table:
            table.insert(0, "category", table.index.to_series(index=table.index).astype(object))
        table = table.reset_index(drop=True)
    elif hasattr(frame, "__arrow_c_stream__"):
        opened = read_frame(frame)
        names = {column: "category"} if "category" not in opened.names else {}
        table = to_pandas({names.get(name, name): opened.column(i) for i, name in enumerate(opened.names)})
    else:
        raise TypeError(
            f"column {column!r}: vectors must be a frame or a dict by category, got {type(frame).__name__}"
        )
    if "category" not in table:
        raise ValueError(f"column {column!r}: vectors must have a column 'category', got {list(table)}")
    return table.drop(columns="count", errors="ignore")


def _numbers(table: pd.DataFrame, column: str) -> np.ndarray:
    for name, kind in table.dtypes.items():
        if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind):
            raise TypeError(
                f"column {column!r}: vectors must be numbers, got {kind} in {name!r}; categories stand in "
                "the index or in a column named 'category'"
            )
    vectors = table.to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(vectors).all():
        bad = vectors[~np.isfinite(vectors)][0]
        raise ValueError(f"column {column!r}: vectors must be finite, got {bad}")
    return vectors


def _check_once(column: str, ids: np.ndarray, category: np.ndarray, categories: pd.Series) -> None:
    taken = ids[~category | (ids >= FIRST_KNOWN)]
    twice = np.flatnonzero(np.bincount(taken) > 1)
    if len(twice):
        rows = np.flatnonzero(ids == twice[0])
        name = {MISSING: "the missing row", UNKNOWN: "the unknown row"}.get(
            int(twice[0]), repr(categories.iloc[rows[0]])
        )
        raise ValueError(f"column {column!r}: every category must have one vector, got {name} more than once")
