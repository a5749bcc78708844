from __future__ import annotations

from fractions import Fraction

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tabembed.functional.exact_phase import as_positions, exact_turns, halves, in_turns

WHOLE = st.integers(-(2**63), 2**63 - 1)
REAL = st.floats(-(2.0**63), 2.0**63)
FREQUENCY = st.floats(1e-12, 6.0)  # radians per unit: up to about a turn


def one(number: float) -> torch.Tensor:
    return torch.tensor([number], dtype=torch.int64 if isinstance(number, int) else torch.float64)


def lost(position: float, frequency: float) -> float:
    """How far the turns are from the true ones, whole turns aside."""
    got = exact_turns(one(position), in_turns(one(float(frequency)))).item()
    off = Fraction(got) - Fraction(position) * Fraction(frequency) / reference.TURN
    return float(abs(off - round(off)))


@given(st.one_of(WHOLE, REAL), FREQUENCY)
def test_right_to_a_billionth_of_a_turn(position, frequency):
    assert lost(position, frequency) <= 1e-9


@pytest.mark.parametrize("position", [2**63 - 1, -(2**63), 1_700_000_000_123_456_789, 1.7e9 + 1e-7, 2.0**62])
def test_rounding_a_position_or_a_frequency_would_be_seen(position):
    assert lost(position, 0.3) <= 1e-9
    turns = in_turns(torch.tensor([0.3], dtype=torch.float64))
    once = (torch.tensor([position]).double() * turns.sum(0)).item() if abs(position) > 2**53 else 0.5
    off = Fraction(once) - Fraction(position) * Fraction(0.3) / reference.TURN
    assert abs(off - round(off)) > 1e-9


@given(st.floats(1e-100, 1e100), st.sampled_from([-1, 1]))
def test_frequencies_in_turns_have_79_bits(frequency, sign):
    parts = in_turns(torch.tensor([sign * frequency], dtype=torch.float64)).flatten().tolist()
    truth = sign * Fraction(frequency) / reference.TURN
    assert abs(sum(map(Fraction, parts)) - truth) <= abs(truth) / 2**79
    for upper in parts[:2]:  # 21 bits, so that the product with 32 is exact
        mantissa = abs(Fraction(upper).numerator)
        assert mantissa.bit_length() - (mantissa & -mantissa).bit_length() < 21


def test_zero_and_float32():
    assert in_turns(torch.zeros(2)).tolist() == [[0, 0]] * 3
    f = torch.tensor([0.1])
    assert in_turns(f).dtype == torch.float64
    assert torch.equal(in_turns(f), in_turns(f.double()))


def test_between_minus_half_and_half():
    turns = exact_turns(torch.arange(-500, 500), in_turns(torch.tensor([1.0, 3.0])))
    assert turns.shape == (1000, 2)
    assert turns.dtype == torch.float64
    assert turns.abs().max() <= 0.5


def test_any_shape_and_none():
    turns = in_turns(torch.tensor([1.0, 2.0, 3.0]))
    assert exact_turns(torch.zeros(2, 5, dtype=torch.int64), turns).shape == (2, 5, 3)
    assert exact_turns(torch.zeros(0), turns).shape == (0, 3)
    assert exact_turns(torch.zeros((), dtype=torch.float64), turns).shape == (3,)
    every = torch.arange(10.0, dtype=torch.float64)
    assert_close(exact_turns(every[::2], turns), exact_turns(every, turns)[::2], rtol=0, atol=0)


def test_derivatives():
    positions = torch.tensor([0.3, -7.1, 1e6], dtype=torch.float64, requires_grad=True)
    frequencies = torch.tensor([0.7, 1e-3], dtype=torch.float64, requires_grad=True)

    def sine(p, f):
        return (exact_turns(p, in_turns(f)) * 6.283185307179586).sin()

    small = positions.detach()[:2].requires_grad_()
    assert torch.autograd.gradcheck(sine, (small, frequencies))
    assert torch.autograd.gradgradcheck(sine, (small, frequencies))
    # Far away as near by: a turn's slope is the frequency, and the position.
    turns = exact_turns(positions, in_turns(frequencies))
    of_p, of_f = torch.autograd.grad(turns.sum(), (positions, frequencies))
    assert_close(of_p, (frequencies / float(reference.TURN)).sum().expand(3).detach())
    assert_close(of_f, (positions.sum() / float(reference.TURN)).expand(2).detach())


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (torch.int32, torch.int64),
        (torch.uint8, torch.int64),
        (torch.int64, torch.int64),
        (torch.float32, torch.float64),
        (torch.float64, torch.float64),
    ],
)
def test_positions_are_int64_or_float64(given, kind):
    assert as_positions(torch.tensor([3], dtype=given)).dtype == kind


def test_parts_of_small_numbers_do_not_cancel():
    ends = [2**63 - 1, -(2**63), -1, 0, -5, 2**31, 2**31 - 1, -(2**31) - 1]
    high, low = halves(torch.tensor(ends))
    assert [Fraction(a) + Fraction(b) for a, b in zip(high.tolist(), low.tolist(), strict=True)] == ends
    assert high[2:5].tolist() == [0, 0, 0]
