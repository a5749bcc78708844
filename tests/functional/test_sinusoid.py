from __future__ import annotations

import math
from fractions import Fraction

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tabembed.functional.exact_phase import in_turns
from tabembed.functional.phase import cos_sin
from tabembed.functional.sinusoid import add_waves, falling, ladder, sinusoid, sinusoidal_rows

SETTINGS = st.fixed_dictionaries(
    {
        "order": st.sampled_from(["cos_sin", "sin_cos"]),
        "freq_shift": st.sampled_from([0.0, 0.5, 1.0]),
        "scale": st.sampled_from([1.0, 0.001, 1000.0]),
        "max_period": st.sampled_from([1.0, 300.0, 10_000.0]),
    }
)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=4), st.integers(4, 13), SETTINGS, st.booleans())
def test_equals_the_scalar_loop(times, dim, settings, exact):
    ours = sinusoid(
        torch.tensor(times, dtype=torch.float64), dim, exact=exact, dtype=torch.float64, **settings
    )
    loop = torch.tensor([reference.timestep(t, dim, **settings) for t in times], dtype=torch.float64)
    assert_close(ours, loop, rtol=0, atol=1e-11)


def phase_error(times: torch.Tensor, dim: int, exact: bool) -> float:
    loop = [reference.timestep(t, dim, "cos_sin", 0.0, 1.0, 10_000.0) for t in times.tolist()]
    cosine, sine = torch.tensor(loop, dtype=torch.float64).chunk(2, -1)
    c, s = sinusoid(times, dim, exact=exact).double().chunk(2, -1)
    return torch.atan2(s * cosine - c * sine, c * cosine + s * sine).abs().max().item()


LARGE = torch.tensor([2 * 10**9, 1_999_999_999, 1_700_000_060, 123_456_789, -1_999_999_993, 937])


def test_exact_phases_are_right_to_a_millionth_up_to_two_billion():
    assert phase_error(LARGE, 64, exact=True) <= 1e-6
    assert phase_error(LARGE.double() + 0.123, 64, exact=True) <= 1e-6
    assert phase_error(LARGE, 64, exact=False) > 1  # what is lost without


def test_exact_keeps_the_digits_of_float32_times_too():
    times = torch.tensor([123_456.78, 99_999.99])
    assert phase_error(times, 64, exact=True) <= 1e-6
    assert phase_error(times, 64, exact=False) > 1e-4


def test_the_ladder_ends_where_the_shift_says():
    assert_close(ladder(5, freq_shift=1, max_period=16.0), torch.tensor([1, 1 / 2, 1 / 4, 1 / 8, 1 / 16]))
    assert_close(ladder(4, freq_shift=0, max_period=16.0), torch.tensor([1, 1 / 2, 1 / 4, 1 / 8]))
    assert ladder(3, dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize("order", ["cos_sin", "sin_cos"])
def test_many_numbers_give_the_same_as_few(order):
    angle = torch.linspace(-900, 900, 2**16).view(-1, 64)
    few = torch.cat([cos_sin(row, order) for row in angle.split(16)])
    assert torch.equal(cos_sin(angle, order), few)
    with_gradient = cos_sin(angle.requires_grad_(), order)
    assert with_gradient.requires_grad
    assert torch.equal(with_gradient.detach(), few)


def test_gradient_of_the_time():
    times = torch.tensor([0.3, -2.0], dtype=torch.float64, requires_grad=True)
    for exact in (False, True):
        of_times = lambda t, exact=exact: sinusoid(t, 7, scale=2.0, exact=exact, dtype=torch.float64)  # noqa: E731
        assert torch.autograd.gradcheck(of_times, times)
        assert torch.autograd.gradgradcheck(of_times, times)


# Waves added to rows


def loop(positions, frequencies, phases, scale, order, dim):
    """The waves of some positions, one number at a time."""
    rows = []
    for p in positions:
        angles = [
            reference.radians(Fraction(p) * Fraction(f)) + math.tau * phase
            for f, phase in zip(frequencies, phases, strict=True)
        ]
        sine, cosine = [math.sin(a) for a in angles], [math.cos(a) for a in angles]
        pairs = [wave for pair in zip(sine, cosine, strict=True) for wave in pair]
        row = {"sin": sine, "sin_cos": sine + cosine, "cos_sin": cosine + sine, "interleaved": pairs}[order]
        rows.append([scale * wave for wave in row[:dim]])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("positions", [[0, 5, 2**62 + 1, -(2**63)], [0.25, -1e6, 1_700_000_000.123, 2.0**40]])
@pytest.mark.parametrize(
    ("order", "dim"), [("interleaved", 6), ("interleaved", 5), ("sin_cos", 6), ("cos_sin", 6), ("sin", 3)]
)
def test_waves_equal_the_scalar_loop(order, dim, positions):
    frequencies, phases, scale = [1.0, 0.3, 1e-9], [0.0, 0.125, -0.7], 1.5
    given = (
        in_turns(torch.tensor(frequencies, dtype=torch.float64)),
        torch.tensor(phases, dtype=torch.float64),
        torch.tensor(scale),
    )
    places = torch.tensor([positions], dtype=torch.int64 if positions[0] == 0 else torch.float64)
    x = torch.randn(1, 2, 4, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = x + loop(positions, frequencies, phases, scale, order, dim)
    for dtype, lost in ((torch.float64, 1e-7), (torch.float32, 1e-6), (torch.bfloat16, 2e-2)):
        got = add_waves(x.to(dtype), places, *given, order)
        assert got.dtype == dtype
        assert_close(got.double(), expected, rtol=0, atol=lost)


def test_rows_of_the_table_from_any_offset():
    whole = sinusoidal_rows(12, 5, dtype=torch.float64)
    expected = [reference.sinusoidal(p, 5) for p in range(12)]
    assert_close(whole, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.equal(sinusoidal_rows(4, 5, offset=7, dtype=torch.float64), whole[7:11])
    far = sinusoidal_rows(2, 3, offset=2**62, base=50.0)
    assert far.dtype == torch.float32
    expected = [reference.sinusoidal(2**62 + i, 3, 50.0) for i in range(2)]
    assert_close(far, torch.tensor(expected), rtol=0, atol=1e-6)
    assert sinusoidal_rows(0, 5).shape == (0, 5)
    assert sinusoidal_rows(1, 2, device="meta").is_meta


def test_frequencies_of_pairs():
    assert falling(6, 1000.0) == pytest.approx([1.0, 0.1, 0.01])
    assert falling(5) == reference.ladder(3, 5)
