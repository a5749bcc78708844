from __future__ import annotations

import math
from fractions import Fraction

import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.functional.cyclic import CALENDAR, calendar_turns, cycle_turns, harmonics

FAR = 2**63 - 1
WHOLE = [
    0,
    1,
    -1,
    30,
    31,
    62,
    1_700_000_000,
    1_700_000_060,
    -1_700_000_001,
    2**53 + 1,
    2**62 + 12_345,
    FAR,
    -FAR,
]
FLOATS = [0.0, -0.0, 0.1, -7.3, 1.7e9 + 0.25, -1.7e18, 2.0**53 + 2, 1e300, 5e-324]


def exact(x, period):
    """Turns in [-1/2, 1/2] by fractions."""
    turned = Fraction(x) / Fraction(period)
    return float(turned - round(turned))


def same_turns(got, x, period):
    """Half a turn may be given as -1/2 or as 1/2."""
    away = (got - torch.tensor([exact(one, period) for one in x], dtype=torch.float64)).abs()
    assert torch.minimum(away, 1 - away).max() <= 2.3e-16


@pytest.mark.parametrize("period", [1, 7, 31, 60, 86_400, CALENDAR["year"], 2**53 + 1, FAR])
def test_integers_by_a_whole_period(period):
    same_turns(cycle_turns(torch.tensor(WHOLE), period), WHOLE, period)
    same_turns(cycle_turns(torch.tensor(WHOLE), float(period)), WHOLE, float(period))


@pytest.mark.parametrize("period", [0.1, 2 * math.pi, 365.2425, 1e-3, 1e19, 1e300])
def test_integers_by_any_period(period):
    same_turns(cycle_turns(torch.tensor(WHOLE), period), WHOLE, period)


@pytest.mark.parametrize("period", [1, 7, 0.1, 2 * math.pi, 365.2425, 1e19])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_floats_by_any_period(period, dtype):
    x = torch.tensor(FLOATS, dtype=torch.float64).to(dtype)
    x = x[x.isfinite()]
    same_turns(cycle_turns(x, period), x.double().tolist(), period)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
def test_narrow_integers(dtype):
    x = torch.tensor([0, 1, 100, 127], dtype=dtype)
    same_turns(cycle_turns(x, 1000), x.tolist(), 1000)
    same_turns(cycle_turns(x, 0.3), x.tolist(), 0.3)


def test_what_is_no_number_stays_none():
    assert cycle_turns(torch.tensor([math.nan, math.inf, -math.inf]), 7).isnan().all()


def test_gradient_is_one_over_the_period():
    x = torch.tensor([3.5, -100.0, 1e6], dtype=torch.float64, requires_grad=True)
    cycle_turns(x, 7).sum().backward()
    assert_close(x.grad, torch.full((3,), 1 / 7, dtype=torch.float64))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_harmonics_match_the_scalar_loop(n):
    x = [0, 3, -5, 1_700_000_003]
    got = harmonics(cycle_turns(torch.tensor(x), 24), n, torch.float64)
    expected = torch.tensor([reference.cyclic(one, 24, n) for one in x], dtype=torch.float64)
    assert_close(got, expected, rtol=0, atol=4e-15)
    assert_close(
        harmonics(cycle_turns(torch.tensor(x), 24), n, torch.float32), expected.float(), rtol=0, atol=2e-7
    )
    assert_close(
        harmonics(cycle_turns(torch.tensor(x), 24), n, torch.bfloat16).double(), expected, rtol=0, atol=4e-3
    )


def test_the_calendar_starts_at_midnight_on_monday():
    monday = 1_709_510_400 * 10**9  # 2024-03-04 00:00
    hour = 3600 * 10**9
    week = calendar_turns(torch.tensor([monday, monday + 84 * hour, monday + 167 * hour]), CALENDAR["week"])
    assert_close(week.abs(), torch.tensor([0, 0.5, 1 / 168], dtype=torch.float64), rtol=0, atol=1e-15)
    day = calendar_turns(torch.tensor([monday, monday + 6 * hour, monday - 6 * hour]), CALENDAR["day"])
    assert day.tolist() == [0.0, 0.25, -0.25]


@pytest.mark.parametrize("name", CALENDAR)
def test_the_ends_of_time_do_not_wrap(name):
    period, shift = CALENDAR[name], 3 * CALENDAR["day"] if name == "week" else 0
    same_turns(calendar_turns(torch.tensor([FAR, -FAR]), period), [FAR + shift, shift - FAR], period)


def test_the_year_has_365_days_and_a_bit():
    assert Fraction(CALENDAR["year"], CALENDAR["day"]) == Fraction("365.2425")
