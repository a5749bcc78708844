from __future__ import annotations

import math

import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.functional.decay import decay


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_matches_the_loop(dtype):
    elapsed = torch.tensor([[-3, 0, 1], [7, 40, 3000]]).to(dtype)
    expected = [[reference.decay(e, 2.5) for e in row] for row in elapsed.tolist()]
    assert_close(decay(elapsed, 2.5).double(), torch.tensor(expected).double(), rtol=1e-6, atol=0)


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
@pytest.mark.parametrize("half_life", [1e-20, 1e-60])
def test_nothing_is_left_of_the_far_past_and_gradients_are_finite(dtype, half_life):
    elapsed = torch.tensor(
        [0.0, 1e4, 1e30, torch.finfo(dtype).max, math.inf], dtype=dtype, requires_grad=True
    )
    life = torch.full((), half_life, dtype=torch.float64, requires_grad=True)
    weight = decay(elapsed, life)
    assert weight.tolist() == [1.0] + [0.0] * 4
    weight.sum().backward()
    assert elapsed.grad[1:].tolist() == [0.0] * 4
    assert life.grad.item() == 0.0


def test_gradients_are_right():
    elapsed = torch.tensor([0.5, 3.0, 12.0], dtype=torch.float64, requires_grad=True)
    life = torch.tensor([[2.0], [5.0]], dtype=torch.float64, requires_grad=True)
    assert decay(elapsed, life).shape == (2, 3)
    assert torch.autograd.gradcheck(decay, (elapsed, life))
    assert torch.autograd.gradgradcheck(decay, (elapsed, life))


def test_missing_stays_missing():
    assert decay(torch.tensor([math.nan, 1.0]), 1).isnan().tolist() == [True, False]


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
