from __future__ import annotations

import math
from fractions import Fraction

import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.functional.alibi import (
    key_channels,
    linear_bias,
    paper_slopes,
    penalty,
    steepest_of_paper,
)

NOW = 1_700_000_000 * 10**9


@pytest.mark.parametrize("n", [*range(1, 34), 63, 64, 65, 129])
def test_slopes_are_those_of_the_paper(n):
    assert_close(
        paper_slopes(n), torch.tensor(reference.alibi_slopes(n), dtype=torch.float64), rtol=1e-15, atol=0
    )


def test_the_steepest_slope_of_any_number_of_heads():
    for n in range(1, 130):
        assert steepest_of_paper(n) == pytest.approx(max(reference.alibi_slopes(n)), rel=1e-15)


def test_slopes_of_heads_that_are_no_power_of_two():
    twelve = [2.0**-h for h in range(1, 9)] + [0.707107, 0.353553, 0.176777, 0.088388]
    six = [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    assert_close(paper_slopes(12), torch.tensor(twelve, dtype=torch.float64), rtol=0, atol=5e-7)
    assert paper_slopes(6).tolist() == six


@pytest.mark.parametrize("mode", ["symmetric", "causal"])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_bias_matches_the_scalar_loop(mode, kind):
    queries, keys = torch.tensor([[3, NOW + 5]]), torch.tensor([[-7, 3, 4, NOW, NOW + 6]])
    if kind == "float":
        queries, keys = queries.double() / 8, keys.double() / 8
    slopes = torch.tensor([0.5, 0.0123], dtype=torch.float64)
    bias = linear_bias(queries, keys, slopes, 2.5, mode == "causal")
    expected = [
        [[reference.alibi_bias(a, b, s, 2.5, mode) for b in keys[0].tolist()] for a in queries[0].tolist()]
        for s in slopes.tolist()
    ]
    assert_close(bias, torch.tensor([expected], dtype=torch.float64), rtol=1e-15, atol=0)


def test_bias_of_any_leading_dimensions():
    queries, keys = torch.randn(3, 2, 4, dtype=torch.float64), torch.randn(3, 2, 5, dtype=torch.float64)
    slopes = paper_slopes(6)
    bias = linear_bias(queries, keys, slopes, 1.0, False)
    assert bias.shape == (3, 2, 6, 4, 5)
    assert_close(bias[1, 0, 2, 3, 4], penalty(queries[1, 0, 3], keys[1, 0, 4], slopes[2], 1.0, False))


def test_a_difference_of_int64_neither_wraps_nor_rounds():
    ends = torch.tensor([-(2**63)]), torch.tensor([2**63 - 1])
    assert linear_bias(*ends, torch.ones(1, dtype=torch.float64), 1.0, False).item() == -(2.0**64)
    nanosecond = linear_bias(torch.tensor([NOW + 1]), torch.tensor([NOW]), torch.ones(1), 1.0, False)
    assert nanosecond.item() == -1.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_channels_sum_to_the_bias_in_every_dtype(dtype):
    positions = torch.tensor([[NOW - 91_234_567, NOW - 3, NOW]])
    slopes, scale = torch.tensor([0.7, 1 / 3]), 72**-0.5
    channels = key_channels(positions, torch.tensor([[NOW]]), slopes, 1e6, scale, dtype)
    assert channels.dtype == dtype
    exact = [
        [float(Fraction(s) * (p - NOW) / 10**6 / Fraction(scale)) for p in positions[0].tolist()]
        for s in slopes.tolist()
    ]
    lost = 1e-12 if dtype == torch.float64 else 1e-6
    assert_close(channels.double().sum(-1), torch.tensor([exact], dtype=torch.float64), rtol=lost, atol=1e-7)


def test_channels_in_float32_are_whole_in_tf32():
    channels = key_channels(
        torch.tensor([[-91.23]]).double(), torch.zeros(1, 1).double(), torch.ones(1), 1.0, 0.1, torch.float32
    )
    assert channels.shape[-1] == 3
    assert torch.equal(channels, channels.bfloat16().float())


def test_a_channel_in_float16_does_not_overflow():
    channels = key_channels(
        torch.tensor([[-(10**9)]]), torch.tensor([[0]]), torch.ones(1), 1.0, 0.1, torch.float16
    )
    assert channels.isfinite().all()
    assert channels.double().sum() == -(2.0**15)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_gradients_of_channels_are_those_of_the_bias(dtype):
    positions = torch.tensor([[1.0, 2.5, 7.0]], dtype=torch.float64, requires_grad=True)
    slopes = torch.tensor([0.5, 0.25], requires_grad=True)
    channels = key_channels(positions, positions[:, -1:], slopes, 2.0, 0.5, dtype)
    # All parts are read by queries of ones, so their gradients are equal.
    channels.sum(-1).mul(torch.tensor([[[1.0, 2, 4], [8, 16, 32]]])).sum().backward()
    assert slopes.grad.tolist() == [-6 * 1 - 4.5 * 2, -6 * 8 - 4.5 * 16]
    assert positions.grad.tolist() == [[0.5 * 1 + 0.25 * 8, 0.5 * 2 + 0.25 * 16, 0.5 * 4 + 0.25 * 32]]


def test_gradients_of_the_bias():
    queries = torch.tensor([[2.0, 5.0]], dtype=torch.float64, requires_grad=True)
    keys = torch.tensor([[1.0, 2.5, 7.0]], dtype=torch.float64, requires_grad=True)
    slopes = torch.tensor([0.5, 0.25], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *x: linear_bias(*x, 2.0, False), (queries, keys, slopes))
    causal = linear_bias(queries, keys, slopes, 2.0, True)
    assert causal[0, 0, 0, 1] == -math.inf
    causal.masked_fill(causal == -math.inf, 0).sum().backward()
    assert all(x.grad.isfinite().all() for x in (queries, keys, slopes))
