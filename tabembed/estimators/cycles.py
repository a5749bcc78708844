"""Which cycles a column of numbers or times has, and where its values stand in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from tabembed.estimators.known_periods import known_period
from tabembed.functional.cyclic import calendar_period, calendar_turns, cycle_turns
from tabembed.schema import MISSING_TIME
from tabembed.table.datetime import Datetime, nanoseconds
from tabembed.table.frame import Frame


@dataclass(frozen=True)
class Cycles:
    """The cycles of a column.

    Args:
        name: of the column.
        is_time: whether it holds dates or timestamps, else numbers.
        zone: the time zone whose clock its timestamps are read from, ``""`` without one; ``None`` where
            the fit could not know.
        periods: length of every cycle, in the column's unit, nanoseconds for times.
        labels: what the cycles are called; ``""`` for a number that has only one.
    """

    name: str
    is_time: bool
    zone: str | None
    periods: tuple[Any, ...]
    labels: tuple[str, ...]

    def phases(self, array: pa.Array) -> list[Tensor]:
        """Turns of every cycle, NaN where missing.

        Args:
            array: the column in new rows.

        Raises: ValueError for infinity, for integers beyond int64, and when there is a time zone that was
            not there in the fit, or none that was; TypeError for another kind than in the fit.
        """
        if self.is_time:
            times = torch.from_numpy(_wall(array, self))
            missing = times == MISSING_TIME
            return [calendar_turns(times, p).masked_fill(missing, math.nan) for p in self.periods]
        missing = torch.from_numpy(np.array(array.is_null()))
        numbers = torch.from_numpy(_numbers(array, self.name))
        return [cycle_turns(numbers, p).masked_fill(missing, math.nan) for p in self.periods]


def find_cycles(frame: Frame, period: Any) -> list[Cycles]:
    """The cycles of every column, as ``period`` gives them, or as the column's type and name tell.

    Args:
        frame: the table.
        period: as ``CyclicTransformer`` takes it.

    Raises: ValueError when ``period`` breaks its rule or a name does not tell the period, TypeError for a
        column of anything but numbers and times.

    >>> from tabembed.table.frame import read_frame
    >>> hour, tide = find_cycles(read_frame({"hour": [0, 6], "tide": [1.5, 2.0]}), {"tide": [12, 24]})
    >>> hour.periods, tide.periods, tide.phases(read_frame({"tide": [6]}).column(0))[1].item()
    ((24,), (12, 24), 0.25)
    """
    given = _by_column(period, frame)
    return [_describe(name, frame.column(i), given) for i, name in enumerate(frame.names)]


def _by_column(period: Any, frame: Frame) -> dict[str, Any]:
    """The periods that the argument gives, by the name of the column."""
    if isinstance(period, str) and period == "auto":
        return {}
    if isinstance(period, Real | str | timedelta) and not isinstance(period, bool):
        for_times = not isinstance(period, Real)
        fitting = [name for name, is_time in _times(frame).items() if is_time == for_times]
        if not fitting:
            rule = f"period must fit a column, and the table has no {'times' if for_times else 'numbers'}"
            raise ValueError(f"{rule}, got {period!r}")
        return dict.fromkeys(fitting, period)
    if not isinstance(period, Mapping):
        rule = "period must be 'auto', a number, a timedelta, the name of a period or a dict of columns"
        raise TypeError(f"{rule}, got {period!r}")
    given = {}
    for key, value in period.items():
        name = f"x{key}" if isinstance(key, int) and not frame.named else str(key)
        if name not in frame.names:
            raise ValueError(f"period must name columns of the table, {list(frame.names)}, got {key!r}")
        given[name] = value
    return given


def _times(frame: Frame) -> dict[str, bool]:
    """Whether a column holds dates or timestamps, by its name."""
    kinds = (_plain(frame.column(i).type) for i in range(len(frame.names)))
    return {name: Datetime.accepts(kind) for name, kind in zip(frame.names, kinds, strict=True)}


def _describe(name: str, array: pa.Array, given: dict[str, Any]) -> Cycles:
    """The cycles of a column, as they are given, or as its type and its name tell."""
    kind = _plain(array.type)
    several = given.get(name, ())
    several = several if isinstance(several, Sequence) and not isinstance(several, str) else (several,)
    is_time = Datetime.accepts(kind) or (
        pa.types.is_null(kind) and any(isinstance(p, str | timedelta) for p in several)
    )
    if not (is_time or _is_number(kind)):
        raise TypeError(f"column {name!r}: must hold numbers, dates or timestamps, got {kind}")
    if name in given and not several:
        raise ValueError(f"column {name!r}: period must name one cycle or more, got {given[name]!r}")
    known = pa.types.is_timestamp(kind) and array.null_count < len(array)
    zone = kind.tz or "" if known else None
    if is_time:
        several = several or (("week", "year") if pa.types.is_date(kind) else ("day", "week", "year"))
        periods = tuple(_named(name, p) for p in several)
        labels = tuple(
            p if isinstance(p, str) else f"{n / 10**9:.12g}s" for p, n in zip(several, periods, strict=True)
        )
        return Cycles(name, True, zone, periods, labels)
    several = several or (_told(name),)
    for period in several:
        if isinstance(period, bool) or not isinstance(period, Real) or not 0 < float(period) < math.inf:
            rule = "period must be a positive number in the unit of the column"
            raise ValueError(f"column {name!r}: {rule}, got {period!r}")
    labels = tuple(f"{float(p):.12g}" for p in several) if len(several) > 1 else ("",)
    return Cycles(name, False, None, tuple(several), labels)


def _told(name: str) -> float:
    period = known_period(name)
    if period is None:
        raise ValueError(
            f"column {name!r}: period must be given, the name does not tell it: "
            f"CyclicTransformer({{{name!r}: 24}}) if it holds hours"
        )
    return period


def _named(name: str, period: Any) -> int:
    try:
        return calendar_period(period)
    except (TypeError, ValueError) as error:
        raise type(error)(f"column {name!r}: {error}") from None


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)


def _numbers(array: pa.Array, name: str) -> np.ndarray:
    """int64, or float64 with NaN where missing; anything where an integer is missing."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not _is_number(array.type):
        raise TypeError(f"column {name!r}: must hold numbers as in the fit, got {array.type}")
    if pa.types.is_floating(array.type):
        numbers = array.to_numpy(zero_copy_only=False).astype(np.float64)
        if np.isinf(numbers).any():
            raise ValueError(f"column {name!r}: must be finite or missing, got infinity")
        return numbers
    try:
        return np.array(array.cast(pa.int64()).fill_null(0))
    except pa.ArrowInvalid:
        raise ValueError(f"column {name!r}: must fit into int64, got {pc.max(array)}") from None


def _wall(array: pa.Array, column: Cycles) -> np.ndarray:
    """Nanoseconds since 1970-01-01 00:00 on the clock on the wall, −2⁶³ where missing."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) and array.null_count < len(array):
        zone = array.type.tz or ""
        if column.zone is not None and bool(column.zone) != bool(zone):
            ours, theirs = "a" if column.zone else "no", f"{zone!r}" if zone else "none"
            raise ValueError(
                f"column {column.name!r}: must have {ours} time zone as in the fit, got {theirs}"
            )
        if zone:  # the clock of the fit, whatever zone the same instants come in
            try:
                array = pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, column.zone or zone)))
            except pa.ArrowInvalid:
                got = column.zone or zone
                raise ValueError(
                    f"column {column.name!r}: must have a known time zone, got {got!r}"
                ) from None
    return np.array(nanoseconds(array, column.name))
