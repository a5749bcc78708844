"""A scikit-learn transformer of numbers and times that come round again."""

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
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabembed._checks import check_integer
from tabembed.estimators.known_periods import known_period
from tabembed.estimators.tables import check_names, check_table
from tabembed.functional.cyclic import calendar_period, calendar_turns, cycle_turns, harmonics
from tabembed.schema import MISSING_TIME
from tabembed.table.datetime import Datetime, nanoseconds
from tabembed.table.frame import Frame, read_frame


class CyclicTransformer(TransformerMixin, BaseEstimator):
    """Turn hours, weekdays, months, angles and times into sines and cosines, so that 23:59 is near 0:00.

    Nothing is learned but what the columns are. Integers and times are reduced by the period before
    anything is rounded, so 31 days and 1.7·10⁹ seconds are exact. Times are read from the clock on
    the wall: a column with a time zone in that zone (8:00 is 8:00 in summer and winter), one without
    as it is. Days start at midnight, weeks on Monday; a year has 365.2425 days from 1970-01-01 on, so
    that a date moves by at most a day from year to year.

    Args:
        period: ``"auto"`` gives times a day, a week and a year (dates a week and a year), and reads
            the period of a number from the column's name: ``hour``, ``minute``, ``second``,
            ``weekday``, ``day_of_week``, ``day``, ``day_of_year``, ``week``, ``month``, ``quarter``,
            ``angle``, ``degrees``, ``bearing``, ``radians`` and the like, never from its values; any
            other name is an error. A dict gives the period of some columns, and leaves the others to
            ``"auto"``; a number or ``timedelta`` is that of every column. For numbers a period is a
            number in the column's unit; for times it is ``"minute"``, ``"hour"``, ``"day"``, ``"week"``,
            ``"year"``, a ``timedelta``, or seconds. In a dict it may also be a sequence of these.
        n_harmonics: sines and cosines of how many multiples of every phase.

    Attributes:
        periods_: column → name of the cycle → its period, in seconds for times.
        n_features_in_: number of columns.
        feature_names_in_: their names, where they had any.

    Output is float32, a missing number or time is NaN; rows keep their order.

    Raises: ValueError when an argument breaks its rule, when a name does not tell the period, for
        infinite numbers and for times before 1678 or after 2261. TypeError for a column of anything
        but numbers and times.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"hour": [0, 6], "when": pd.to_datetime(["2024-03-04 12:00", None])})
    >>> cyclic = CyclicTransformer({"when": "day"}).set_output(transform="pandas")
    >>> cyclic.fit_transform(X).round(3).abs()
       hour_sin1  hour_cos1  when_day_sin1  when_day_cos1
    0        0.0        1.0            0.0            1.0
    1        1.0        0.0            NaN            NaN
    """

    def __init__(self, period: Any = "auto", *, n_harmonics: int = 1) -> None:
        self.period = period
        self.n_harmonics = n_harmonics

    def fit(self, X: Any, y: Any = None) -> CyclicTransformer:
        """Find the period of every column.

        Args:
            X: a table: pandas, polars, pyarrow, a dict of columns, or a 2-D array of numbers or times.
            y: ignored.
        """
        check_integer(n_harmonics=self.n_harmonics)
        frame = read_frame(check_table(self, X, reset=True, dtype="numeric"))
        given = _by_column(self.period, frame)
        columns = range(len(frame.names))
        self._columns = [_describe(frame.names[i], frame.column(i), given) for i in columns]
        self._n_harmonics = self.n_harmonics
        self.periods_ = {
            column.name: {
                label or column.name: length / 10**9 if column.is_time else length
                for label, length in zip(column.labels, column.periods, strict=True)
            }
            for column in self._columns
        }
        return self

    def transform(self, X: Any) -> Any:
        """Sines and cosines of every column.

        Args:
            X: a table with the columns of the fit; an array is taken by position.

        Shape:
            - output: ``(n_rows, len(get_feature_names_out()))`` float32
        """
        check_is_fitted(self)
        frame = read_frame(check_table(self, X, reset=False, dtype="numeric"))
        n_waves = 2 * self._n_harmonics
        out = np.empty((frame.n_rows, n_waves * sum(len(c.periods) for c in self._columns)), np.float32)
        start = 0
        for i, column in enumerate(self._columns):
            for phase in column.phases(frame.column(i)):
                waves = harmonics(phase, self._n_harmonics, torch.float32)
                out[:, start : start + n_waves] = waves.numpy()
                start += n_waves
        return out

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the output: ``hour_sin1``, ``hour_cos1``, ``hour_sin2``, …; ``when_day_sin1``, … for
        times and for columns of several periods; all different.

        Args:
            input_features: names of the columns of an array; otherwise those of the fit, or ``None``.
        """
        check_is_fitted(self)
        check_names(self, input_features)
        given = [column.name for column in self._columns] if input_features is None else input_features
        names: dict[str, None] = {}
        for name, column in zip(given, self._columns, strict=True):
            for label in column.labels:
                for k in range(1, self._n_harmonics + 1):
                    for wave in ("sin", "cos"):
                        full = "_".join(part for part in (str(name), label, f"{wave}{k}") if part)
                        while full in names:
                            full += "_"
                        names[full] = None
        return np.array(list(names), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags


@dataclass(frozen=True)
class _Column:
    """A column's cycles: periods in its unit, nanoseconds for times, and what they are called."""

    name: str
    is_time: bool
    has_zone: bool | None
    periods: tuple[Any, ...]
    labels: tuple[str, ...]

    def phases(self, array: pa.Array) -> list[Tensor]:
        """Turns of every cycle, NaN where missing."""
        if self.is_time:
            times = torch.from_numpy(_wall(array, self))
            missing = times == MISSING_TIME
            return [calendar_turns(times, p).masked_fill(missing, math.nan) for p in self.periods]
        missing = torch.from_numpy(np.array(array.is_null()))
        numbers = torch.from_numpy(_numbers(array, self.name))
        return [cycle_turns(numbers, p).masked_fill(missing, math.nan) for p in self.periods]


def _by_column(period: Any, frame: Frame) -> dict[str, Any]:
    """The periods that the argument gives, by the name of the column."""
    if isinstance(period, str) and period == "auto":
        return {}
    if isinstance(period, Real | timedelta) and not isinstance(period, bool):
        return dict.fromkeys(frame.names, period)
    if not isinstance(period, Mapping):
        kind = ValueError if isinstance(period, str) else TypeError
        raise kind(f"period must be 'auto', a number, a timedelta or a dict of columns, got {period!r}")
    given = {}
    for key, value in period.items():
        name = f"x{key}" if isinstance(key, int) and not frame.named else str(key)
        if name not in frame.names:
            raise ValueError(f"period must name columns of the table, {list(frame.names)}, got {key!r}")
        given[name] = value
    return given


def _describe(name: str, array: pa.Array, given: dict[str, Any]) -> _Column:
    """The cycles of a column, as they are given, or as its type and its name tell."""
    kind = _plain(array.type)
    several = given.get(name, ())
    several = several if isinstance(several, Sequence) and not isinstance(several, str) else (several,)
    is_time = Datetime.accepts(kind) or (pa.types.is_null(kind) and any(isinstance(p, str) for p in several))
    if not (is_time or _is_number(kind)):
        raise TypeError(f"column {name!r}: must hold numbers, dates or timestamps, got {kind}")
    if name in given and not several:
        raise ValueError(f"column {name!r}: period must name one cycle or more, got {given[name]!r}")
    zone = kind.tz is not None if pa.types.is_timestamp(kind) else None
    if is_time:
        several = several or (("week", "year") if pa.types.is_date(kind) else ("day", "week", "year"))
        periods = tuple(_named(name, p) for p in several)
        labels = tuple(
            p if isinstance(p, str) else f"{n / 10**9:.12g}s" for p, n in zip(several, periods, strict=True)
        )
        return _Column(name, True, zone, periods, labels)
    several = several or (_told(name),)
    for period in several:
        if isinstance(period, bool) or not isinstance(period, Real) or not 0 < float(period) < math.inf:
            rule = "period must be a positive number in the unit of the column"
            raise ValueError(f"column {name!r}: {rule}, got {period!r}")
    labels = tuple(f"{float(p):.12g}" for p in several) if len(several) > 1 else ("",)
    return _Column(name, False, None, tuple(several), labels)


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


def _wall(array: pa.Array, column: _Column) -> np.ndarray:
    """Nanoseconds since 1970-01-01 00:00 on the clock on the wall, −2⁶³ where missing."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) and array.null_count < len(array):
        zone = array.type.tz
        if column.has_zone is not None and column.has_zone != (zone is not None):
            ours, theirs = "a" if column.has_zone else "no", f"{zone!r}" if zone else "none"
            raise ValueError(
                f"column {column.name!r}: must have {ours} time zone as in the fit, got {theirs}"
            )
        array = array if zone is None else pc.local_timestamp(array)
    return np.array(nanoseconds(array, column.name))
