"""The clock on a wall: what a time zone adds to UTC, and when that changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import torch
from torch import Tensor

from tabembed.functional.search import edges_passed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 10**9
_STEP = timedelta(days=7)
_BEFORE, _AFTER = timedelta(days=366), timedelta(days=30 * 366)
_FIRST, _LAST = datetime(1677, 1, 1, tzinfo=UTC), datetime(2263, 1, 1, tzinfo=UTC)


class Clock(NamedTuple):
    """A zone's clock: ``offsets[k]`` nanoseconds are added from ``changes[k − 1]`` on."""

    changes: tuple[int, ...]
    offsets: tuple[int, ...]


def clock_of(zone: str | None, earliest: int, latest: int) -> Clock:
    """The clock of a zone, from a year before an instant to 30 years after another.

    Outside of that range the nearest offset stays in force.

    Args:
        zone: name in the time zone database, or an offset such as ``"+02:00"``; ``None`` is a clock
            that shows what it is given.
        earliest: nanoseconds since 1970-01-01 UTC.
        latest: nanoseconds since 1970-01-01 UTC.

    Raises: ValueError for a zone that is not known.

    >>> clock = clock_of("Europe/Oslo", 1_700_000_000 * 10**9, 1_710_000_000 * 10**9)
    >>> [offset // 3600 // 10**9 for offset in clock.offsets[:4]]
    [1, 2, 1, 2]
    """
    if zone is None or zone == "UTC":
        return Clock((), (0,))
    there = _zone(zone)

    def offset(instant: datetime) -> timedelta:
        return instant.astimezone(there).utcoffset() or timedelta(0)

    now = max(_FIRST, _EPOCH + timedelta(microseconds=earliest // 1000) - _BEFORE)
    end = min(_LAST, _EPOCH + timedelta(microseconds=latest // 1000) + _AFTER)
    changes, offsets = [], [offset(now)]
    while now < end:
        later = now + _STEP
        if offset(later) != offsets[-1]:
            changes.append(_change(now, later, offset))
            offsets.append(offset(later))
        now = later
    return Clock(tuple(map(_nanoseconds, (c - _EPOCH for c in changes))), tuple(map(_nanoseconds, offsets)))


def on_the_wall(times: Tensor, clock: Clock) -> Tensor:
    """What a clock shows at some instants, as nanoseconds since 1970-01-01 00:00 on that clock.

    Args:
        times: int64 nanoseconds since 1970-01-01 UTC.
        clock: a zone's clock.

    Shape:
        - output: shape of ``times``, int64
    """
    if clock == ((), (0,)):
        return times
    changes = torch.tensor(clock.changes, dtype=torch.int64, device=times.device)
    offsets = torch.tensor(clock.offsets, dtype=torch.int64, device=times.device)
    return times + offsets[edges_passed(changes, times)]


def _zone(name: str) -> tzinfo:
    fixed = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if fixed:
        minutes = 60 * int(fixed[2]) + int(fixed[3])
        return timezone(timedelta(minutes=minutes if fixed[1] == "+" else -minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"time zone must be one of the time zone database, got {name!r}") from None


def _change(before: datetime, after: datetime, offset: Callable[[datetime], timedelta]) -> datetime:
    """The second from which the offset at ``before`` no longer holds."""
    old = offset(before)
    low, high = 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(before + timedelta(seconds=middle)) == old else (low, middle)
    return (before + timedelta(seconds=high)).replace(microsecond=0)


def _nanoseconds(difference: timedelta) -> int:
    return difference // timedelta(microseconds=1) * 1000
