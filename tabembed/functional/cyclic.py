"""Where numbers stand in a cycle: reduced before they are rounded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from numbers import Integral, Real
from types import MappingProxyType

import torch
from torch import Tensor

_SECOND = 10**9
_DAY = 86_400 * _SECOND
CALENDAR: Mapping[str, int] = MappingProxyType(
    {
        "minute": 60 * _SECOND,
        "hour": 3600 * _SECOND,
        "day": _DAY,
        "week": 7 * _DAY,
        "year": 31_556_952 * _SECOND,  # 365.2425 days, the mean year of the Gregorian calendar
    }
)
"""Cycles of the calendar by name, in nanoseconds."""
MONDAY = 3 * _DAY
"""What is added to nanoseconds since 1970-01-01, a Thursday, so that weeks start on Monday."""


def cycle_turns(x: Tensor, period: float) -> Tensor:
    """Where numbers stand in a cycle, in turns.

    Integers are reduced by an integer period in integers. Otherwise the remainder is that of
    float64 division, which is exact for the float64 numbers that it is given.

    Args:
        x: numbers of any shape.
        period: length of the cycle in the unit of ``x``, positive.

    Shape:
        - output: shape of ``x``, float64 in [−½, ½]; NaN for NaN and ±inf

    >>> cycle_turns(torch.tensor([1_700_000_060, -15]), 60).tolist()
    [0.3333333333333333, -0.25]
    """
    whole = float(period).is_integer() and period < 2**63
    if x.is_floating_point():
        rest = torch.fmod(x.double(), float(period))
    elif whole:
        rest = torch.remainder(x.long(), int(period)).double()
    else:  # two halves, each of which float64 holds
        x = x.long()
        high, low = (x >> 32).double() * 2.0**32, (x & (2**32 - 1)).double()
        rest = torch.fmod(high, float(period)) + torch.fmod(low, float(period))
    turned = rest / float(period)
    return turned - turned.detach().round()


def calendar_period(period: str | float | timedelta) -> int:
    """A cycle of the calendar in nanoseconds.

    Args:
        period: a name in ``CALENDAR``, a ``timedelta``, or seconds.

    Raises: ValueError for another name, or less than a nanosecond. TypeError for another kind.

    >>> calendar_period("day"), calendar_period(timedelta(hours=12)), calendar_period(0.5)
    (86400000000000, 43200000000000, 500000000)
    """
    if isinstance(period, str) and period in CALENDAR:
        return CALENDAR[period]
    rule = f"period must be one of {', '.join(CALENDAR)}, a timedelta, or seconds"
    if isinstance(period, timedelta):
        length = period // timedelta(microseconds=1) * 1000
    elif isinstance(period, Real) and not isinstance(period, bool) and math.isfinite(period):
        seconds = int(period) if isinstance(period, Integral) else float(period)
        length = round(Fraction(seconds) * _SECOND)
    else:
        kind = ValueError if isinstance(period, str | float) else TypeError
        raise kind(f"{rule}, got {period!r}")
    if not 0 < length < 2**62:
        raise ValueError(f"{rule}, from a nanosecond to 146 years, got {period!r}")
    return length


def calendar_turns(nanoseconds: Tensor, period: int) -> Tensor:
    """Where instants stand in a cycle of the calendar, in turns.

    Args:
        nanoseconds: int64 nanoseconds since 1970-01-01 00:00, of UTC or of a clock on a wall.
        period: length of the cycle in nanoseconds. Days start at midnight, weeks on Monday, all
            other cycles at 1970-01-01 00:00.

    Shape:
        - output: shape of ``nanoseconds``, float64 in [−½, ½]

    >>> calendar_turns(torch.tensor([0]), CALENDAR["week"]).tolist() == [3 / 7]
    True
    """
    shift = MONDAY if period == CALENDAR["week"] else 0
    return cycle_turns(torch.remainder(nanoseconds, period) + shift, period)


def harmonics(turned: Tensor, n_harmonics: int, dtype: torch.dtype) -> Tensor:
    """Sines and cosines of a phase and its multiples, pair by pair.

    Args:
        turned: phases in turns, ``(*)`` float64.
        n_harmonics: the multiples are 1, 2, …, ``n_harmonics``.
        dtype: dtype of the output; sines are computed in it, in float32 at least.

    Shape:
        - output: ``(*, 2 · n_harmonics)``: ``[sin, cos]`` of the phase, of twice the phase, …

    >>> harmonics(torch.tensor([0.25]).double(), 2, torch.float32).round(decimals=3).tolist()
    [[1.0, -0.0, -0.0, -1.0]]
    """
    multiples = torch.arange(1, n_harmonics + 1, device=turned.device, dtype=torch.float64)
    phase = turned.unsqueeze(-1) * multiples
    angle = (2 * math.pi * (phase - phase.detach().round())).to(torch.promote_types(dtype, torch.float32))
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2).to(dtype)
