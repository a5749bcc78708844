"""Every error of the table side: its kind, and a text that names the column or argument and what it got."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy.sparse import csr_matrix

from tabembed import Categorical, CategoricalList, Continuous, Datetime, TableBatch, TableEncoder

NAIVE = np.array(["2024-01-01"], "datetime64[ns]")
AWARE = pd.DatetimeIndex(NAIVE, tz="UTC")


def fit(values, spec=None, **settings):
    return TableEncoder(columns=None if spec is None else {"x": spec}, **settings).fit({"x": values})


def merge(a, b, spec=None):
    encoder = TableEncoder(columns=None if spec is None else {"x": spec})
    return encoder.merge_states(encoder.partial({"x": a}), encoder.partial({"x": b}))


def decode(ids):
    zero = torch.zeros(1, 0)
    batch = TableBatch(torch.tensor([[ids]]), zero, zero.bool(), zero.long())
    return fit(["a"]).inverse_transform(batch)


CASES = {
    # tables
    "path": (
        lambda: TableEncoder().fit("t.csv"),
        TypeError,
        "table must be a dataframe, an Arrow table or a 2-D array, got str",
    ),
    "number": (
        lambda: TableEncoder().fit(3),
        TypeError,
        "table must be a dataframe, an Arrow table or a 2-D array, got int",
    ),
    "lazy": (
        lambda: TableEncoder().fit(pl.DataFrame({"x": [1]}).lazy()),
        TypeError,
        "got a polars LazyFrame: call .collect() first",
    ),
    "sparse": (
        lambda: TableEncoder().fit(csr_matrix(np.eye(2))),
        TypeError,
        "table must be dense, got a sparse matrix",
    ),
    "complex": (lambda: TableEncoder().fit(np.array([[1j]])), ValueError, "Complex data not supported"),
    "1-D": (lambda: TableEncoder().fit(np.ones(3)), ValueError, "Expected 2D array, got 1D array instead"),
    "unequal": (
        lambda: TableEncoder().fit({"a": [1], "b": [1, 2]}),
        ValueError,
        "columns must have equally many rows, got {'a': 1, 'b': 2}",
    ),
    "no rows": (lambda: fit([]), ValueError, "got 0 rows"),
    "no columns": (lambda: TableEncoder().fit(pd.DataFrame(index=[0])), ValueError, "0 feature(s)"),
    "all dropped": (lambda: fit([1], "drop"), ValueError, "0 feature(s)"),
    "twice": (
        lambda: TableEncoder().fit(pd.DataFrame([[1, 2]], columns=["x", "x"])),
        ValueError,
        "column 'x': must be there once, got it 2 times",
    ),
    "absent": (
        lambda: fit([1]).transform({"y": [1]}),
        ValueError,
        "column 'x': must be in the table, which has ['y']",
    ),
    "width": (
        lambda: fit([1]).transform(np.ones((1, 2))),
        ValueError,
        "X has 2 features, but TableEncoder is expecting 1 features as input",
    ),
    # specs
    "spec of no column": (
        lambda: TableEncoder({"y": Datetime()}).fit({"x": [1]}),
        ValueError,
        "column 'y': has a spec, but the table has only ['x']",
    ),
    "no spec": (lambda: fit([1], "keep"), TypeError, "column 'x': its spec must be one of"),
    "columns": (
        lambda: TableEncoder(columns=3).fit({"x": [1]}),
        TypeError,
        "columns must be a dict of specs or a list of names, got 3",
    ),
    "scaler": (lambda: fit([1], scaler="max"), ValueError, "scaler must be"),
    "scaler of a spec": (lambda: fit([1], Continuous(scaler="max")), ValueError, "scaler must be"),
    "share": (
        lambda: fit(["a"], min_frequency=1.5),
        ValueError,
        "min_frequency must lie between 0 and 1 as a share of rows, got 1.5",
    ),
    "count": (
        lambda: fit(["a"], min_frequency=0),
        ValueError,
        "min_frequency must be at least 1 as a number of rows, got 0",
    ),
    "count, kind": (
        lambda: fit(["a"], min_frequency="2"),
        TypeError,
        "min_frequency must be None or a number, got '2'",
    ),
    "most": (lambda: fit(["a"], max_categories=0), ValueError, "max_categories must be at least 1, got 0"),
    "most, kind": (
        lambda: fit(["a"], max_categories=True),
        TypeError,
        "max_categories must be None or an int, got True",
    ),
    "separator": (lambda: CategoricalList(separator=""), ValueError, "separator must not be empty, got ''"),
    # columns
    "mix": (
        lambda: fit(pd.Series(["a", 1], dtype=object)),
        TypeError,
        "column 'x': must hold values of one type that Arrow knows, got a mix",
    ),
    "zones beside none": (
        lambda: fit([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1)]),
        TypeError,
        "column 'x': must hold values of one type that Arrow knows, got a mix (times with a zone and ",
    ),
    "surrogate": (
        lambda: fit(["a", "b\ud800"]),
        ValueError,
        "column 'x': must be text that UTF-8 can hold, got a lone surrogate (",
    ),
    "a number as a name": (
        lambda: TableEncoder(columns=[0]).fit(pd.DataFrame({0: [1.0]})),
        TypeError,
        "columns must name a column by text, got 0: a table's names are taken as text, so write '0'",
    ),
    "mix of booleans": (
        lambda: fit(pd.Series([True, 1.5], dtype=object)),
        TypeError,
        "column 'x': must hold values of one type",
    ),
    "date and time": (
        lambda: fit([dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)]),
        TypeError,
        "column 'x': must hold values of one type",
    ),
    "struct": (lambda: fit(pa.array([{"a": 1}])), TypeError, "column 'x': must be of a kind in"),
    "binary": (lambda: fit(pa.array([b"a"])), TypeError, "column 'x': must be of a kind in"),
    "struct as category": (
        lambda: fit(pa.array([{"a": 1}]), Categorical()),
        TypeError,
        "column 'x': must hold text, numbers, booleans or times, got struct<a: int64>",
    ),
    "list as category": (
        lambda: fit([["a"]], Categorical()),
        TypeError,
        "column 'x': must hold text, numbers, booleans or times, got",
    ),
    "text as number": (
        lambda: fit(["1"], Continuous()),
        TypeError,
        "column 'x': must hold numbers, got text",
    ),
    "text as time": (
        lambda: fit(["2024"], Datetime()),
        TypeError,
        "column 'x': must hold dates or times, got",
    ),
    "text as list": (lambda: fit(["a"], CategoricalList()), TypeError, "column 'x': must have a separator"),
    "number as list": (
        lambda: fit([1], CategoricalList()),
        TypeError,
        "column 'x': must hold lists, or text with a separator, got numbers",
    ),
    "far time": (
        lambda: fit(pa.array([dt.datetime(9999, 1, 1)])),
        ValueError,
        "column 'x': must lie in the years 1678 to 2261",
    ),
    "far time as category": (
        lambda: fit(pa.array([dt.datetime(9999, 1, 1)]), Categorical()),
        ValueError,
        "column 'x': must ",
    ),
    # another family than in the fit
    "numbers, then text": (
        lambda: fit([1]).transform({"x": ["1"]}),
        TypeError,
        "column 'x': must hold numbers, got text",
    ),
    "text, then numbers": (
        lambda: fit(["1"]).transform({"x": [1]}),
        TypeError,
        "column 'x': must hold text as in the fit, got numbers",
    ),
    "booleans, then numbers": (
        lambda: fit([True]).transform({"x": [1]}),
        TypeError,
        "column 'x': must hold booleans as in the fit, got numbers",
    ),
    "no zone, then a zone": (
        lambda: fit(NAIVE).transform({"x": AWARE}),
        ValueError,
        "column 'x': must have no time zone as in the fit, got",
    ),
    "a zone, then none": (
        lambda: fit(AWARE).transform({"x": NAIVE}),
        ValueError,
        "column 'x': must have time zone 'UTC' as in the fit, got no time zone",
    ),
    "lists, then text": (
        lambda: fit([["a"]]).transform({"x": ["a"]}),
        TypeError,
        "column 'x': must have a separator",
    ),
    "lists, then numbers": (
        lambda: fit([["a"]]).transform({"x": [[1]]}),
        TypeError,
        "column 'x': must hold text as in the fit, got numbers",
    ),
    # parts of a fit
    "parts of two kinds": (
        lambda: merge(["a"], [1]),
        TypeError,
        "column 'x': must be of one kind in every part, got",
    ),
    "parts of two families": (
        lambda: merge(["a"], [True]),
        TypeError,
        "column 'x': must hold values of one type, got",
    ),
    "parts of two zones": (
        lambda: merge(NAIVE, AWARE),
        ValueError,
        "column 'x': must have a time zone everywhere or nowhere, got both",
    ),
    "parts of two signs": (
        lambda: merge(np.array([-1]), np.array([2**64 - 1], np.uint64), Categorical()),
        ValueError,
        "column 'x': its parts must fit one type of number",
    ),
    # and back
    "id too large": (lambda: decode(9), ValueError, "column 'x': ids must lie in 0..3, got 9..9"),
    "id negative": (lambda: decode(-1), ValueError, "column 'x': ids must lie in 0..3, got -1..-1"),
}


@pytest.mark.parametrize(("call", "kind", "text"), CASES.values(), ids=CASES)
def test_text(call, kind, text):
    with pytest.raises(kind, match=re.escape(text)) as caught:
        call()
    assert caught.type is kind
