from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch.testing import assert_close

import tabembed
from tabembed.nn.elapsed import decay

DAYS = [0.0, 3.5, 7.0, 14.0]
WEIGHTS = torch.tensor([1, 0.5**0.5, 0.5, 0.25], dtype=torch.float64)
NS = 10**9
WEEK = timedelta(weeks=1)


def test_stands_at_the_front_door():
    assert tabembed.decay is decay


@pytest.mark.parametrize(
    ("elapsed", "half_life"),
    [
        (DAYS, 7),
        (np.array(DAYS), np.float32(7)),
        (np.array(DAYS[::-1], ">f8")[::-1], 7),
        (torch.tensor(DAYS, dtype=torch.float64), torch.tensor(7)),
        ([86_400 * d for d in DAYS], 604_800),
        (torch.tensor([int(86_400 * d) for d in DAYS]) * NS, 604_800 * NS),
        ([timedelta(days=d) for d in DAYS], WEEK),
        ([timedelta(0), np.timedelta64(84, "h"), pd.Timedelta(days=7), timedelta(14)], WEEK),
        (np.array([0, 84, 168, 336], "timedelta64[h]"), np.timedelta64(7, "D")),
        (pd.Series(pd.to_timedelta(DAYS, unit="D")), pd.Timedelta(days=7)),
        (pd.to_timedelta(DAYS, unit="D"), WEEK),
        (pl.Series([timedelta(days=d) for d in DAYS]), WEEK),
    ],
    ids=[
        "list",
        "array",
        "strides and bytes",
        "tensor",
        "seconds",
        "int64 ns",
        "timedelta",
        "mixed",
        "timedelta64",
        "series",
        "index",
        "polars",
    ],
)
def test_halves_with_every_half_life_in_every_unit(elapsed, half_life):
    assert_close(decay(elapsed, half_life), WEIGHTS, rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    ("elapsed", "half_life"),
    [(7, 7), (WEEK, WEEK), (np.timedelta64(1, "s"), timedelta(seconds=1)), (10**18, 1e18)],
)
def test_one_number_or_timedelta(elapsed, half_life):
    got = decay(elapsed, half_life)
    assert got.shape == ()
    assert got.item() == 0.5


@pytest.mark.parametrize("kind", ["timedelta64[ns]", "object"])
@pytest.mark.parametrize(
    "life", [pd.Timedelta(500, "ns"), np.timedelta64(500, "ns")], ids=["pandas", "numpy"]
)
def test_nanoseconds_are_not_cut(kind, life):
    elapsed = pd.Series([pd.Timedelta(250, "ns"), pd.Timedelta(500, "ns"), pd.Timedelta(1000, "ns")]).astype(
        kind
    )
    assert_close(decay(elapsed, life), WEIGHTS[1:], rtol=1e-14, atol=0)
    assert_close(decay(list(elapsed), life), WEIGHTS[1:], rtol=1e-14, atol=0)


def test_thousands_of_years_are_not_cut():
    life = timedelta.max / 2
    assert_close(decay([timedelta(0), life / 2, life, timedelta.max], life), WEIGHTS, rtol=1e-14, atol=0)
    long = np.array([0, 10**12, 2 * 10**12], "timedelta64[s]")
    assert_close(decay(long, pd.Timedelta(long[2])), WEIGHTS[[0, 1, 2]], rtol=1e-14, atol=0)
    assert_close(decay(list(long), long[2]), WEIGHTS[:3], rtol=1e-14, atol=0)


@pytest.mark.parametrize("missing", [pd.NaT, np.timedelta64("NaT"), math.nan], ids=str)
def test_missing_stays_missing(missing):
    for elapsed in ([timedelta(0), missing], np.array([missing, timedelta(0)], object)[::-1]):
        assert decay(elapsed, WEEK).isnan().tolist() == [False, True]


def test_missing_alone_and_in_columns():
    assert decay(pd.NaT, WEEK).isnan()
    assert decay(np.timedelta64("NaT"), WEEK).isnan()
    assert decay(math.nan, 7).isnan()
    assert decay([1.0, math.nan], 1).isnan().tolist() == [False, True]
    for column in (
        np.array([1, "NaT"], "timedelta64[s]"),
        pd.Series([timedelta(1), pd.NaT]),
        pd.Series([timedelta(1), pd.NaT], dtype=object),
        pl.Series([timedelta(1), None]),
    ):
        assert decay(column, WEEK).isnan().tolist() == [False, True]


@pytest.mark.parametrize(
    "half_life", [0, -1.0, math.nan, math.inf, torch.tensor([1.0, 0.0]), timedelta(0), pd.NaT], ids=str
)
def test_a_half_life_is_positive(half_life):
    elapsed = WEEK if half_life is pd.NaT or isinstance(half_life, timedelta) else 1.0
    with pytest.raises(ValueError, match="^half_life must be finite and positive, got "):
        decay(elapsed, half_life)


def test_numbers_and_timedeltas_do_not_mix():
    message = "^elapsed and half_life must both be numbers or both be timedeltas$"
    for elapsed, half_life in ((WEEK, 1), (1, WEEK), (torch.ones(2), WEEK), (pd.NaT, 1.0)):
        with pytest.raises(TypeError, match=message):
            decay(elapsed, half_life)


@pytest.mark.parametrize(
    "elapsed",
    ["a week", True, [WEEK, 1], [WEEK, "week"], None, np.array(["2020-01-01"], "datetime64[s]"), [1j]],
    ids=str,
)
def test_other_kinds_are_refused(elapsed):
    with pytest.raises(TypeError, match="^elapsed must be numbers or timedeltas, got "):
        decay(elapsed, 1)
    with pytest.raises(TypeError, match="^half_life must be numbers or timedeltas, got "):
        decay(1, elapsed)


def test_tensors_and_integers_of_other_kinds_are_refused():
    with pytest.raises(TypeError, match="^elapsed must be floats or integers, got torch.bool"):
        decay(torch.tensor(True), 1)
    with pytest.raises(TypeError, match="^elapsed must be floats or integers up to int64, got torch.uint64"):
        decay(np.array([1], "uint64"), 1)
    with pytest.raises(ValueError, match="^half_life must fit into int64, got "):
        decay(1, 2**63)


def test_dtypes():
    assert decay(np.array([3.0], "float32"), 3).dtype == torch.float32
    assert decay([3], 3.0).dtype == decay(3.0, 3).dtype == decay(WEEK, WEEK).dtype == torch.float64
    assert decay(torch.tensor([3.0], dtype=torch.bfloat16), 3).dtype == torch.bfloat16


def test_compiles_and_vmaps():
    x = torch.tensor([[-1.0, 2.0], [4.0, 1e9]])
    compiled = torch.compile(decay, fullgraph=True, backend="aot_eager")
    assert_close(compiled(x, 2.0), decay(x, 2.0), rtol=0, atol=0)
    assert_close(torch.func.vmap(lambda row: decay(row, 2.0))(x), decay(x, 2.0), rtol=0, atol=0)


def test_shapes_that_do_not_fit_are_named():
    message = r"^half_life must have a shape that broadcasts with that of elapsed, \(3,\), got \(2,\)$"
    with pytest.raises(ValueError, match=message):
        decay(torch.ones(3), torch.ones(2))
    with pytest.raises(ValueError, match=r"with that of elapsed, \(2, 3\), got \(4, 1, 3, 1\)$"):
        decay(torch.ones(2, 3), torch.ones(4, 1, 3, 1))
    assert decay(torch.ones(2, 1), torch.ones(3)).shape == (2, 3)
