"""A column of instants: int64 nanoseconds UTC all the way."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tabembed.schema import MISSING_TIME, DatetimeColumn


@dataclass(frozen=True)
class DatetimeState:
    """Range of the times seen so far, and the zones they came in (None for no zone)."""

    n_values: int
    n_missing: int
    minimum: int
    maximum: int
    zones: frozenset[str | None]


@dataclass(frozen=True)
class Datetime:
    """Spec of a column of dates or times, in any unit and zone.

    >>> Datetime()
    Datetime()
    """

    kind: ClassVar[str] = "datetime"

    @staticmethod
    def accepts(kind: pa.DataType) -> bool:
        """Dates and timestamps; a time of day is no instant."""
        return pa.types.is_timestamp(kind) or pa.types.is_date(kind)

    def with_defaults(self, encoder: Any) -> Datetime:
        """There is nothing to take from the encoder."""
        return self

    def partial(self, name: str, array: pa.Array) -> DatetimeState:
        """Range and zone of one column."""
        times = nanoseconds(array, name)
        known = times[times != MISSING_TIME]
        n, zones = len(known), frozenset({_zone(array.type)} if len(known) else ())
        low, high = (int(known.min()), int(known.max())) if n else (2**63 - 1, MISSING_TIME)
        return DatetimeState(n, len(times) - n, low, high, zones)

    def merge(self, name: str, a: DatetimeState, b: DatetimeState) -> DatetimeState:
        """Range over the rows of both."""
        zones = a.zones | b.zones
        if None in zones and len(zones) > 1:
            raise ValueError(f"column {name!r}: must have a time zone everywhere or nowhere, got both")
        return DatetimeState(
            a.n_values + b.n_values,
            a.n_missing + b.n_missing,
            min(a.minimum, b.minimum),
            max(a.maximum, b.maximum),
            zones,
        )

    def finalize(self, name: str, state: DatetimeState, n_rows: int) -> TimeEncoder:
        """Keep the range; several zones are given back as UTC."""
        low, high = (state.minimum, state.maximum) if state.n_values else (0, 0)
        zone = next(iter(state.zones)) if len(state.zones) == 1 else ("UTC" if state.zones else None)
        return TimeEncoder(DatetimeColumn(name, state.n_values, state.n_missing, low, high, zone))


@dataclass(frozen=True)
class TimeEncoder:
    """A fitted column of instants."""

    column: DatetimeColumn

    lane: ClassVar[str] = "times"
    kind: ClassVar[str] = "datetime"

    def encode(self, array: pa.Array) -> np.ndarray:
        """Nanoseconds since 1970-01-01 UTC, −2⁶³ where missing."""
        name = self.column.name
        times, zone = nanoseconds(array, name), _zone(array.type)
        if (
            (zone is None) != (self.column.timezone is None)
            and self.column.n_values
            and array.null_count < len(array)
        ):
            ours, theirs = (f"time zone {z!r}" if z else "no time zone" for z in (self.column.timezone, zone))
            fix = f"tz_localize({self.column.timezone!r})"
            raise ValueError(
                f"column {name!r}: must have {ours} as in the fit, got {theirs}: use {fix} first"
            )
        return times

    def decode(self, times: np.ndarray) -> pa.Array:
        """Instants in the zone of the fit, null where missing."""
        array = pa.array(times, mask=times == MISSING_TIME)
        return array.cast(pa.timestamp("ns", self.column.timezone))

    def to_artifact(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON that ``from_artifact`` turns back into this column; there are no arrays."""
        return asdict(self.column), {}

    @classmethod
    def from_artifact(cls, name: str, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> TimeEncoder:
        """Rebuild what ``to_artifact`` gave."""
        return cls(DatetimeColumn(name, **{key: value for key, value in config.items() if key != "name"}))


def nanoseconds(array: pa.Array, name: str) -> np.ndarray:
    """A column of times as int64 nanoseconds UTC, −2⁶³ where missing."""
    if pa.types.is_dictionary(array.type):
        return nanoseconds(array.dictionary_decode(), name)
    if array.null_count == len(array):
        return np.full(len(array), MISSING_TIME, np.int64)
    if not Datetime.accepts(array.type):
        raise TypeError(f"column {name!r}: must hold dates or times, got {array.type}: parse it first")
    try:
        array = array.cast(pa.timestamp("ns", _zone(array.type)))
    except pa.ArrowInvalid as error:
        raise ValueError(f"column {name!r}: must lie in the years 1678 to 2261 ({error})") from None
    whole = array.cast(pa.int64())
    return (whole.fill_null(MISSING_TIME) if whole.null_count else whole).to_numpy()


def _zone(kind: pa.DataType) -> str | None:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return kind.tz if pa.types.is_timestamp(kind) else None
