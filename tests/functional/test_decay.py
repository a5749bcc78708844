from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

from tabembed.functional.decay import decay

DAYS = [0.0, 3.5, 7.0, 14.0]
WEIGHTS = torch.tensor([1, 0.5**0.5, 0.5, 0.25], dtype=torch.float64)
NS = 10**9


@pytest.mark.parametrize(
    ("elapsed", "half_life"),
    [
        (DAYS, 7),
        (np.array(DAYS), np.float32(7)),
        (torch.tensor(DAYS, dtype=torch.float64), torch.tensor(7)),
        ([86_400 * d for d in DAYS], 604_800),
        (torch.tensor([int(86_400 * d) for d in DAYS]) * NS, 604_800 * NS),
        ([timedelta(days=d) for d in DAYS], timedelta(weeks=1)),
        (np.array([0, 84, 168, 336], "timedelta64[h]"), np.timedelta64(7, "D")),
        (pd.Series(pd.to_timedelta(DAYS, unit="D")), pd.Timedelta(days=7)),
        (pd.to_timedelta(DAYS, unit="D"), timedelta(days=7)),
    ],
    ids=["list", "array", "tensor", "seconds", "int64 ns", "timedelta", "timedelta64", "series", "index"],
)
def test_halves_with_every_half_life_in_every_unit(elapsed, half_life):
    assert_close(decay(elapsed, half_life), WEIGHTS, rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    ("elapsed", "half_life"),
    [(7, 7), (timedelta(days=7), timedelta(days=7)), (np.timedelta64(1, "s"), timedelta(seconds=1))],
)
def test_one_number_or_timedelta(elapsed, half_life):
    got = decay(elapsed, half_life)
    assert got.shape == ()
    assert got.item() == 0.5


@pytest.mark.parametrize("half_life", [7.0, math.log(2)])
def test_the_future_has_weight_one_and_no_gradient(half_life):
    elapsed = torch.tensor([-1000.0, -1e30, -math.inf, 0.0, 3.5], requires_grad=True)
    life = torch.tensor(half_life, requires_grad=True)
    weight = decay(elapsed, life)
    assert weight[:4].tolist() == [1.0] * 4
    weight.sum().backward()
    assert elapsed.grad[:3].tolist() == [0.0] * 3
    assert elapsed.grad[4] < 0 < life.grad < math.inf


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nothing_is_left_of_the_far_past_and_gradients_are_finite(dtype):
    elapsed = torch.tensor([1e4, 1e30, torch.finfo(dtype).max, math.inf], dtype=dtype, requires_grad=True)
    life = torch.full((), 1e-20, dtype=dtype, requires_grad=True)
    weight = decay(elapsed, life)
    assert weight.tolist() == [0.0] * 4
    weight.sum().backward()
    assert elapsed.grad.tolist() == [0.0] * 4
    assert life.grad.item() == 0.0


def test_gradients_are_right():
    elapsed = torch.tensor([0.5, 3.0, 12.0], dtype=torch.float64, requires_grad=True)
    life = torch.tensor([[2.0], [5.0]], dtype=torch.float64, requires_grad=True)
    assert decay(elapsed, life).shape == (2, 3)
    assert torch.autograd.gradcheck(decay, (elapsed, life))
    assert torch.autograd.gradgradcheck(decay, (elapsed, life))


def test_missing_stays_missing():
    assert decay(torch.tensor([math.nan, 1.0]), 1).isnan().tolist() == [True, False]
    assert decay(np.array(["NaT", 1], "timedelta64[s]"), timedelta(seconds=1)).isnan().tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_float_keeps_its_dtype(dtype):
    got = decay(torch.tensor([3.0, 9.0], dtype=dtype), torch.tensor(3.0, dtype=torch.float64))
    assert got.dtype == dtype
    assert got.tolist() == [0.5, 0.125]
    assert decay(torch.tensor([3.0], dtype=dtype), torch.tensor([3])).dtype == dtype


def test_unsigned_elapsed_and_no_elapsed():
    assert decay(torch.tensor([2], dtype=torch.uint8), 1).tolist() == [0.25]
    assert decay(torch.zeros(0), 1).shape == (0,)
    assert decay(torch.zeros(0), torch.zeros(0)).shape == (0,)


@pytest.mark.parametrize("half_life", [0, -1.0, math.nan, torch.tensor([1.0, 0.0]), timedelta(0)])
def test_a_half_life_is_positive(half_life):
    elapsed = timedelta(1) if isinstance(half_life, timedelta) else 1.0
    with pytest.raises(ValueError, match="^half_life must be finite and positive, got "):
        decay(elapsed, half_life)


def test_numbers_and_timedeltas_do_not_mix():
    message = "^elapsed and half_life must both be numbers or both be timedeltas$"
    with pytest.raises(TypeError, match=message):
        decay(timedelta(1), 1)
    with pytest.raises(TypeError, match=message):
        decay(1, timedelta(1))


@pytest.mark.parametrize("elapsed", ["a week", True, [timedelta(1), 1], None])
def test_other_kinds_are_refused(elapsed):
    with pytest.raises(TypeError, match="^elapsed must be numbers or timedeltas, got "):
        decay(elapsed, 1)
    with pytest.raises(TypeError, match="^half_life must be numbers or timedeltas, got "):
        decay(1, elapsed)
    with pytest.raises(TypeError, match="^elapsed must be floats or integers, got torch.bool"):
        decay(torch.tensor(True), 1)


def test_compiles_exports_and_vmaps():
    x = torch.tensor([[-1.0, 2.0], [4.0, 1e9]])
    compiled = torch.compile(decay, fullgraph=True, backend="aot_eager")
    assert_close(compiled(x, 2.0), decay(x, 2.0), rtol=0, atol=0)
    assert_close(torch.func.vmap(lambda row: decay(row, 2.0))(x), decay(x, 2.0), rtol=0, atol=0)
