"""A scikit-learn transformer of numbers and times that come round again."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tabembed._checks import check_integer
from tabembed.estimators.cycles import find_cycles
from tabembed.estimators.tables import check_names, check_table
from tabembed.functional.cyclic import harmonics
from tabembed.table.frame import read_frame


class CyclicTransformer(TransformerMixin, BaseEstimator):
    """Turn hours, weekdays, months, angles and times into sines and cosines, so that 23:59 is near 0:00.

    Nothing is learned but what the columns are. Integers and times are reduced by the period before
    anything is rounded, so 31 days and 1.7·10⁹ seconds are exact. Times are read from the clock on
    the wall: a column with a time zone in the zone of the fit (8:00 is 8:00 in summer and winter), one
    without as it is. Days start at midnight, weeks on Monday; a year has 365.2425 days from 1970-01-01 on, so
    that a date moves by at most a day from year to year.

    Args:
        period: ``"auto"`` gives times a day, a week and a year (dates a week and a year), and reads
            the period of a number from the column's name: ``hour``, ``minute``, ``second``,
            ``weekday``, ``day_of_week``, ``day``, ``day_of_year``, ``week``, ``month``, ``quarter``,
            ``angle``, ``degrees``, ``bearing``, ``radians`` and the like, never from its values; any
            other name is an error. A dict gives the period of some columns, and leaves the others to
            ``"auto"``; a number is that of every column of numbers, a ``timedelta`` or a name of every
            column of times, and the others are left to ``"auto"``. For numbers a period is a
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
        self._columns = find_cycles(frame, self.period)
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
