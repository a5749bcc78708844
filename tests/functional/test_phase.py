from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch.testing import assert_close

from tabembed.functional.phase import angles, cos_sin, radians, turns, widened, without_autocast

DRAW = torch.Generator().manual_seed(0)
LARGE = torch.randint(-2 * 10**9, 2 * 10**9, (301,), generator=DRAW)
FREQUENCIES = torch.randn(7, generator=DRAW) * 16


def off(got: torch.Tensor, x: torch.Tensor, frequencies: torch.Tensor) -> float:
    """Largest distance to the exact phases, in turns, whole turns not counted."""
    worst = 0.0
    for row, number in zip(got.tolist(), x.tolist(), strict=True):
        for phase, frequency in zip(row, frequencies.tolist(), strict=True):
            error = Fraction(phase) - Fraction(number) * Fraction(frequency)
            worst = max(worst, abs(float(error - round(error))))
    return worst


@pytest.mark.parametrize("x", [LARGE, LARGE.double() + torch.rand(301, generator=DRAW, dtype=torch.float64)])
def test_wide_numbers_keep_every_digit_of_their_phase(x):
    got = turns(x[:, None], FREQUENCIES)
    assert got.dtype == torch.float32
    assert got.abs().max() <= 0.5
    assert off(got, x, FREQUENCIES) < 2**-24


@pytest.mark.parametrize("x", [LARGE, LARGE.double() * 1.0000001, 2**53 - 1 - torch.arange(9)])
def test_wide_frequencies_too(x):
    frequencies = FREQUENCIES.double() * 1.000000123
    got = turns(x[:, None], frequencies)
    assert got.dtype == torch.float64
    assert off(got, x, frequencies) < 2**-52 + float(x.abs().max()) * 16 * 3 * 2**-24 * 2**-52


def test_a_plain_product_would_not_do():
    naive = LARGE.double()[:, None] * FREQUENCIES.double()
    assert off(naive - naive.round(), LARGE, FREQUENCIES) > 2**-22


def test_float32_is_one_product():
    x = torch.randn(5, 1, generator=DRAW)
    assert torch.equal(turns(x, FREQUENCIES), x * FREQUENCIES)
    assert torch.equal(turns(x.bfloat16(), FREQUENCIES), x.bfloat16().float() * FREQUENCIES)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_are_those_of_the_product(dtype):
    x = torch.linspace(-3, 3, 5, dtype=torch.float64)[:, None].requires_grad_()
    frequencies = FREQUENCIES.to(dtype).requires_grad_()
    got = torch.autograd.grad(turns(x, frequencies).square().sum(), (x, frequencies))
    phases = turns(x, frequencies).detach().double()
    assert_close(got[0], 2 * phases @ frequencies.double()[:, None], rtol=1e-6, atol=1e-6)
    assert_close(got[1].double(), 2 * (phases * x).sum(0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [3, 70_001])  # the larger is written in place
@pytest.mark.parametrize("grad", [False, True])
def test_cos_sin_halves_and_amplitude(n, grad):
    angle = torch.linspace(-9, 9, n, dtype=torch.float64)[None].requires_grad_(grad)
    assert torch.equal(cos_sin(angle, "cos_sin"), torch.cat((angle.cos(), angle.sin()), -1))
    assert torch.equal(cos_sin(angle, "sin_cos", 0.5), torch.cat((angle.sin(), angle.cos()), -1) * 0.5)


def test_widened():
    assert widened(torch.tensor([3], dtype=torch.int8)).dtype == torch.float64
    assert widened(torch.tensor([3.0]).half()).dtype == torch.float32
    assert widened(torch.tensor([3.0]).double()).dtype == torch.float64


def test_radians():
    assert radians(torch.tensor(0.5)).item() == pytest.approx(math.pi)


@pytest.mark.parametrize("x", [LARGE, LARGE.double() / 7, torch.randn(301, generator=DRAW)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_angles_are_turns_in_radians(x, dtype):
    frequencies = FREQUENCIES.to(dtype)
    got, phases = angles(x[:, None], frequencies), radians(turns(x[:, None], frequencies))
    assert got.dtype == phases.dtype
    assert_close(got.cos(), phases.cos(), rtol=0, atol=1e-4 if x.dtype == torch.float32 else 0)


def test_phases_are_numbers_as_far_as_promised():
    wide = torch.tensor([[1e300], [-1e300]], dtype=torch.float64)
    for frequencies in (torch.ones(1), torch.ones(1, dtype=torch.float64)):
        assert turns(wide, frequencies).isfinite().all()
    assert angles(torch.tensor([[1e38]]), torch.tensor([0.1])).cos().isfinite().all()


def test_autocast_is_off_where_there_is_one():
    for kind in ("cpu", "meta"):
        with torch.autocast("cpu", torch.bfloat16), without_autocast(torch.device(kind)):
            product = torch.ones(2, 2) @ torch.ones(2, 2)
        assert product.dtype == (torch.float32 if kind == "cpu" else torch.bfloat16)
