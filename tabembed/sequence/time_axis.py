"""The clock of a table: a column of instants or of numbers as int64 nanoseconds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tabembed._checks import check_choice
from tabembed.schema import MISSING_TIME, DatetimeColumn
from tabembed.table.canonical import family
from tabembed.table.datetime import Datetime, DatetimeState, TimeEncoder

UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "D": 86_400 * 10**9,
}
"""Nanoseconds of every unit that a numeric clock may count."""


@dataclass(frozen=True)
class ClockState:
    """What some rows say of a clock.

    Args:
        kind: ``"times"`` or ``"numbers"``; ``None`` as long as every row is missing.
        range: their number, range and zones.
    """

    kind: str | None
    range: DatetimeState


@dataclass(frozen=True)
class Clock:
    """How a column is to be read as a clock.

    Args:
        unit: what a number counts, one of ``"ns"``, ``"us"``, ``"ms"``, ``"s"``, ``"m"``, ``"h"``, ``"D"``.
            Dates and times know their unit themselves.

    Raises: ValueError for another unit.

    >>> axis = Clock("m").fit("when", pa.array([0, 2, None]))
    >>> axis.encode(pa.array([1.5])).tolist()
    [90000000000]
    """

    unit: str = "s"

    def __post_init__(self) -> None:
        check_choice(UNITS, unit=self.unit)

    def fit(self, name: str, array: pa.Array) -> TimeAxis:
        """The clock of one column."""
        return self.finalize(name, self.partial(name, array))

    def partial(self, name: str, array: pa.Array) -> ClockState:
        """Kind, range and zone of one column."""
        kind = _kind(array, name)
        if kind == "numbers":  # instants without a zone, from here on
            times = _from_numbers(array, name, self.unit)
            array = pa.array(times, mask=times == MISSING_TIME).cast(pa.timestamp("ns"))
        return ClockState(kind, Datetime().partial(name, array))

    def merge(self, name: str, a: ClockState, b: ClockState) -> ClockState:
        """What the rows of both say."""
        if a.kind and b.kind and a.kind != b.kind:
            raise TypeError(f"column {name!r}: must hold one kind in every part, got {a.kind} and {b.kind}")
        return ClockState(a.kind or b.kind, Datetime().merge(name, a.range, b.range))

    def finalize(self, name: str, state: ClockState) -> TimeAxis:
        """Keep the kind, the range and the zone."""
        return TimeAxis(state.kind, self.unit, Datetime().finalize(name, state.range, 0).column)


@dataclass(frozen=True)
class TimeAxis:
    """A fitted clock.

    Args:
        kind: ``"times"`` or ``"numbers"``.
        unit: what a number counts.
        column: name, range and zone of the column.
    """

    kind: str | None
    unit: str
    column: DatetimeColumn

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    def encode(self, array: pa.Array) -> np.ndarray:
        """Nanoseconds since 1970-01-01 UTC (of numbers: since 0), −2⁶³ where missing.

        Raises:
            TypeError: when it holds neither times nor numbers, or not what the fit held.
            ValueError: when instants do not fit int64 nanoseconds, or the zone is not like the fit's.
        """
        kind = _kind(array, self.name)
        if kind is not None and self.kind is not None and kind != self.kind:
            raise TypeError(f"column {self.name!r}: must hold {self.kind} as in the fit, got {array.type}")
        if kind == "numbers":
            return _from_numbers(array, self.name, self.unit)
        return TimeEncoder(self.column).encode(array)

    def decode(self, times: np.ndarray) -> pa.Array:
        """Instants in the zone of the fit, or numbers: whole ones where all of them are."""
        if self.kind != "numbers":
            return TimeEncoder(self.column).decode(times)
        missing, factor = times == MISSING_TIME, UNITS[self.unit]
        whole, rest = np.divmod(times, factor)
        if not rest[~missing].any():
            return pa.array(whole, mask=missing)
        return pa.array(whole + rest / factor, mask=missing)

    def instant(self, value: Any) -> int:
        """One moment on this clock, as nanoseconds.

        Raises: TypeError or ValueError, as ``encode``; ValueError for None, NaN and NaT.
        """
        if isinstance(value, str):
            fix = "a number" if self.kind == "numbers" else f"pd.Timestamp({str(value)!r})"
            raise TypeError(f"column {self.name!r}: must be comparable with it, got text: use {fix}")
        if isinstance(value, np.datetime64):
            value = _in_nanoseconds(value, self.name)
        try:
            array = pa.array([value], from_pandas=True)
            if getattr(value, "nanosecond", 0) > 0:  # pandas' nanoseconds are lost unless they are asked for
                array = pa.array([value], pa.timestamp("ns", array.type.tz), from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            raise TypeError(f"column {self.name!r}: must be comparable with it ({error})") from None
        if array.null_count:
            raise ValueError(f"column {self.name!r}: must be comparable with it, got no moment")
        return int(self.encode(array)[0])

    def to_json(self) -> dict[str, Any]:
        """Plain values that ``from_json`` turns back into this clock."""
        return asdict(self)

    @classmethod
    def from_json(cls, config: dict[str, Any]) -> TimeAxis:
        """Rebuild what ``to_json`` gave.

        Raises: ValueError for a kind or unit that there is not.
        """
        check_choice(("times", "numbers", None), kind=config["kind"])
        return cls(config["kind"], Clock(config["unit"]).unit, DatetimeColumn(**config["column"]))


def _kind(array: pa.Array, name: str) -> str | None:
    """What a column counts time with, None where every row is missing."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if array.null_count == len(array):
        return None
    if Datetime.accepts(kind):
        return "times"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "numbers"
    decimals = "decimals: cast it to int or float first"
    got = decimals if pa.types.is_decimal(kind) else f"{family(kind)}: parse it first"
    raise TypeError(f"column {name!r}: must hold dates, times or numbers, got {got}")


def _in_nanoseconds(value: np.datetime64, name: str) -> np.datetime64 | None:
    """A moment in the unit of the clock; numpy would let one that does not fit wrap around."""
    if np.isnat(value):
        return None
    if np.datetime_data(value.dtype)[0] not in ("ns", "ps", "fs", "as"):
        year = 1970 + int(value.astype("datetime64[Y]").astype(np.int64))
        if not 1678 <= year <= 2261:
            raise ValueError(f"column {name!r}: must lie in the years 1678 to 2261, got {value}")
    return value.astype("datetime64[ns]")


def _from_numbers(array: pa.Array, name: str, unit: str) -> np.ndarray:
    """Whole units are multiplied as integers, so that only fractions are ever rounded."""
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    factor, missing = UNITS[unit], None
    if array.null_count:
        missing = array.is_null().to_numpy(zero_copy_only=False)
        array = array.fill_null(0)
    numbers = array.to_numpy(zero_copy_only=False)
    limit = 2**63 // factor
    low, high = (numbers.min().item(), numbers.max().item()) if len(numbers) else (0, 0)
    if not (-limit < low and high < limit):
        raise ValueError(
            f"column {name!r}: must fit int64 nanoseconds, so lie within ±{limit:,} {unit}, "
            f"got {low:,} to {high:,}"
        )
    if numbers.dtype.kind == "f":
        numbers = numbers.astype(np.float64)
        whole = np.floor(numbers)
        times = whole.astype(np.int64) * factor + np.rint((numbers - whole) * factor).astype(np.int64)
    else:
        times = numbers.astype(np.int64) * factor
    if missing is not None:
        times[missing] = MISSING_TIME
    return times
