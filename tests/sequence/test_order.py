"""Keys, codes and the one sort, against pandas and Python's own sort."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from tabembed.functional.position import since
from tabembed.sequence.order import Entities, join, read_entities, seconds, sorted_order, starts_of
from tabembed.table.frame import read_frame


def entities_of(column):
    return read_entities(read_frame({"who": column}).column(0), "who")


COLUMNS = {
    "text": ["b", "a", None, "é", "b", ""],
    "string[pyarrow]": pd.array(["b", "a", None, "é", "b", ""], dtype="string"),
    "category": pd.Categorical(["b", "a", None, "é", "b", ""], categories=["z", "é", "b", "", "a"]),
    "polars category": pl.Series(["b", "a", None, "é", "b", ""], dtype=pl.Categorical),
    "whole": [30, -1, None, 2**60 + 1, 30, 7],
    "Int64": pd.array([30, -1, None, 2**60 + 1, 30, 7], dtype="Int64"),
    "category of numbers": pd.Categorical([30, -1, None, 8, 30, 7]),
    "unsigned": np.array([2**64 - 1, 3, 2**64 - 1, 0], np.uint64),
    "floats": [0.5, -0.5, None, 3.0, 0.5, np.nan],
    "booleans": [True, False, None, True],
    "dates": [dt.date(2024, 1, 2), dt.date(2024, 1, 1), None, dt.date(2024, 1, 2)],
    "instants": pd.date_range("2024-01-02", periods=3, tz="Europe/Oslo")[[1, 0, 1, 2]],
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_keys_are_sorted_and_every_row_has_its_own(column):
    found = entities_of(column)
    values = [None if pd.isna(v) else v for v in list(column)]
    keys = sorted({v for v in values if v is not None})
    assert found.codes.dtype == np.int32
    assert found.codes.tolist() == [-1 if v is None else keys.index(v) for v in values]
    told = found.keys.to_pylist()
    if isinstance(keys[0], dt.date):
        told, keys = [pd.Timestamp(k) for k in told], [pd.Timestamp(k) for k in keys]
    assert told == keys


def test_whole_floats_are_whole_numbers():
    found = entities_of([2.0, np.nan, -0.0, 0.0])
    assert found.keys.type == pa.int64()
    assert (found.keys.to_pylist(), found.codes.tolist()) == ([0, 2], [1, -1, 0, 0])


def test_a_dictionary_that_holds_a_value_twice_or_never_uses_it():
    array = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1, 4]), ["b", "a", "b", "unused", None])
    found = read_entities(array, "who")
    assert (found.keys.to_pylist(), found.codes.tolist()) == (["a", "b"], [1, 1, -1, 0, -1])


def test_no_keys():
    for array in (pa.nulls(2), pa.array([None, None], pa.string()), pa.array([], pa.int64())):
        found = read_entities(array, "who", "numbers")
        assert (len(found.keys), found.codes.tolist()) == (0, [-1] * len(array))


def test_lists_are_no_keys():
    with pytest.raises(TypeError, match="column 'who': must hold text, numbers, booleans or times, got list"):
        entities_of([["a"], ["b"]])


def test_keys_of_another_family():
    with pytest.raises(TypeError, match="column 'who': must hold text as in the fit, got numbers"):
        read_entities(pa.array([1]), "who", "text")


@pytest.mark.parametrize(
    ("a", "b", "keys"),
    [
        (["b", None, "a"], ["c", "b", None], ["a", "b", "c"]),
        ([3, 1], [1.5, 3.0], [1, 1.5, 3]),
        ([], [3, 1], [1, 3]),
        ([3, 1], [None], [1, 3]),
    ],
)
def test_joined_parts_are_the_whole(a, b, keys):
    found = join(entities_of(a), entities_of(b), "who")
    assert found.keys.to_pylist() == keys
    assert found.codes.tolist() == [-1 if v is None else keys.index(v) for v in [*a, *b]]
    assert found.codes.dtype == np.int32


def test_parts_of_two_families_or_of_no_common_number():
    with pytest.raises(TypeError, match="column 'who': must hold values of one type, got numbers and text"):
        join(entities_of([1]), entities_of(["a"]), "who")
    with pytest.raises(ValueError, match="column 'who': its parts must fit one type of number"):
        join(entities_of([2**60 + 1]), entities_of([0.5]), "who")


@pytest.mark.parametrize("n_entities", [1, 2, 300, 70_000, 200_000])
@pytest.mark.parametrize("times", ["random", "sorted", "equal", "falling"])
def test_the_order_is_that_of_pythons_sort(n_entities, times):
    rng = np.random.default_rng(0)
    n = 1001
    codes = rng.integers(0, n_entities, n).astype(np.int32)
    codes[0] = n_entities - 1  # both halves of a code are used
    when = {
        "random": rng.integers(-5, 5, n) * 10**18,
        "sorted": np.sort(rng.integers(-(10**18), 10**18, n)),
        "equal": np.zeros(n, np.int64),
        "falling": -np.arange(n),
    }[times]
    expected = sorted(range(n), key=lambda i: (codes[i], when[i]))
    assert sorted_order(codes, when).tolist() == expected


def test_the_order_of_nothing():
    assert sorted_order(np.zeros(0, np.int32), np.zeros(0, np.int64)).tolist() == []
    assert starts_of(np.zeros(0, np.int32)).tolist() == [0]


def test_runs():
    assert starts_of(np.array([4, 4, 7, 1, 1, 1])).tolist() == [0, 2, 3, 6]


def test_seconds_are_those_of_positions():
    rng = np.random.default_rng(0)
    a, b = np.sort(rng.integers(-(2**63), 2**63 - 1, (2, 999)), axis=0)
    expected = since(torch.from_numpy(b), torch.from_numpy(a)) / 1e9
    assert seconds(b, a).tolist() == expected.tolist()


def test_seconds_over_the_whole_range_of_nanoseconds():
    low, high = np.array([-(2**63) + 1, -1, 5]), np.array([2**63 - 1, 10**9, 5])
    assert seconds(high, low).tolist() == [(2**64 - 2) / 1e9, 1.000000001, 0.0]


def test_entities_are_frozen():
    with pytest.raises(AttributeError):
        Entities(pa.array([1]), np.zeros(1, np.int32)).keys = None
