from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tabembed import Categorical, TableEncoder
from tabembed.training.given_vectors import read_vectors

TABLE = pd.DataFrame({"city": ["Rome", "Oslo", "Rome", None, "Lima"], "zip": [1, 2, 2, 3, 3]})
VECTORS = pd.DataFrame({"category": ["Lima", "Bonn", "Rome"], "a": [1.0, 2.0, 3.0], "b": [4, 5, 6]})
INDEXED = VECTORS.set_index("category")


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder({"zip": Categorical()}).fit(TABLE)


@pytest.mark.parametrize(
    "frame",
    [
        VECTORS,
        INDEXED,
        INDEXED.rename_axis(None),
        VECTORS.assign(count=7, kind="known"),
        VECTORS.astype({"category": "category"}),
        pl.from_pandas(VECTORS),
        pa.Table.from_pandas(VECTORS),
        {"Lima": [1.0, 4.0], "Bonn": np.array([2, 5]), "Rome": (3, 6)},
        VECTORS.rename(columns={"category": "city"}),
        pl.from_pandas(VECTORS.rename(columns={"category": "city"})),
    ],
    ids=[
        "column",
        "index",
        "bare index",
        "table",
        "category",
        "polars",
        "arrow",
        "dict",
        "own name",
        "own, polars",
    ],
)
def test_every_form_gives_the_same(encoder, frame):
    before = frame.copy() if isinstance(frame, pd.DataFrame) else None
    given = read_vectors(frame, "city", encoder)
    assert given.ids.tolist() == [4, 2, 3]
    assert given.vectors.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert given.category.all()
    if before is not None:
        pd.testing.assert_frame_equal(frame, before)


def test_rows_that_are_no_categories(encoder):
    kinds = ["known", "unknown", "missing", "padding"]
    frame = pd.DataFrame({"category": ["Rome", None, None, None], "kind": kinds, "e0": [1, 2, 3, 4]})
    given = read_vectors(frame, "city", encoder)
    assert given.ids.tolist() == [3, 2, 1]
    assert given.category.tolist() == [True, False, False]
    assert given.vectors.ravel().tolist() == [1, 2, 3]
    without = read_vectors({"Rome": [1.0], None: [3.0]}, "city", encoder)
    assert (without.ids.tolist(), without.category.tolist()) == ([3, 1], [True, False])


def test_numbers_as_categories(encoder):
    frame = pd.DataFrame({"e0": [0.5, 1.5]}, index=[3, 9])
    assert read_vectors(frame, "zip", encoder).ids.tolist() == [4, 2]
    assert read_vectors({1.0: [0.5]}, "zip", encoder).ids.tolist() == [5]


TWICE = pd.DataFrame({"category": ["Rome", "Oslo", "Rome"], "e0": 1.0})


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (TWICE, ValueError, "every category must have one vector, got 'Rome' more than once"),
        (
            {None: [1.0], float("nan"): [2.0]},
            ValueError,
            "every category must have one vector, got the missing row more than once",
        ),
        (
            TWICE.assign(kind="unknown"),
            ValueError,
            "every category must have one vector, got the unknown row more than once",
        ),
        (TWICE.assign(kind="new"), ValueError, "kind must be one of padding, missing, unknown, known, got"),
        ({"Rome": [1.0], "Oslo": [1.0, 2.0]}, ValueError, r"vectors must be of one width, got shapes"),
        ({"Rome": 1.0}, ValueError, r"vectors must be of one width, got shapes \[\(\)\]"),
        ({}, ValueError, r"vectors must be of one width, got shapes \[\]"),
        (pl.DataFrame({"name": ["a"], "e0": [1]}), ValueError, "vectors must have a column 'category', got"),
        ([[1.0]], TypeError, "vectors must be a frame or a dict by category, got list"),
        (VECTORS.assign(b="x"), TypeError, "vectors must be numbers, got str in 'b'; .* named 'category'"),
        (VECTORS.assign(b=True), TypeError, "vectors must be numbers, got bool in 'b'"),
        (VECTORS.assign(b=[1.0, np.nan, 2.0]), ValueError, "vectors must be finite, got nan"),
        (VECTORS.assign(b=[1.0, np.inf, 2.0]), ValueError, "vectors must be finite, got inf"),
        ({7: [1.0]}, TypeError, "must hold text as in the fit, got numbers"),
    ],
)  # fmt: skip
def test_what_is_no_frame_of_vectors(encoder, frame, error, message):
    with pytest.raises(error, match=f"column 'city': {message}"):
        read_vectors(frame, "city", encoder)
