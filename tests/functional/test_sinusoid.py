from __future__ import annotations

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tabembed.functional.phase import cos_sin
from tabembed.functional.sinusoid import ladder, sinusoid

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
