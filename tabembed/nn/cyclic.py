"""Cyclic embedding of numbers and of instants: a sine and a cosine of where they stand in a cycle."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tabembed._checks import check_bool, check_columns, check_integer, check_scale
from tabembed.functional.clock import clock_of, on_the_wall
from tabembed.functional.cyclic import calendar_period, calendar_turns, cycle_turns, harmonics
from tabembed.functional.position import position as place_between
from tabembed.nn.number_input import as_numbers
from tabembed.nn.precision import WideModule
from tabembed.nn.time_columns import TimeColumns
from tabembed.schema import DatetimeColumn


class CyclicEmbedding(WideModule):
    """Turn a number into ``[sin(2πx/p), cos(2πx/p)]``, so that the end of a cycle meets its start.

    Nothing is learned. Integers are reduced by an integer period before anything is rounded: 31 days
    and 1.7·10⁹ seconds are as exact as 0.

    Args:
        period: length of the cycle in the unit of ``x``: 24 for hours, 7 for weekdays, 12 for months
            from 1 to 12, 360 for degrees.
        n_harmonics: sine and cosine of how many multiples of the phase.

    Shape:
        - x: ``(*)`` integers or floats, negative ones too, or a number; NaN and ±inf give NaN
        - output: ``(*, 2 · n_harmonics)``, in the module's dtype:
          ``[sin(2πx/p), cos(2πx/p), sin(4πx/p), cos(4πx/p), …]``

    Raises: ValueError when the period is not from 1e-30 to 1e30. TypeError for an ``x`` that is no number.

    >>> CyclicEmbedding(24)(torch.tensor([0, 6, 30])).round(decimals=3)
    tensor([[0., 1.],
            [1., -0.],
            [1., -0.]])
    """

    def __init__(self, period: float, *, n_harmonics: int = 1) -> None:
        check_scale(period=period)
        check_integer(n_harmonics=n_harmonics)
        super().__init__()
        self.period, self.n_harmonics = period, n_harmonics

    @classmethod
    def from_columns(
        cls,
        columns: Sequence[DatetimeColumn],
        *,
        periods: str | float | Sequence[str | float] = ("day", "week", "year"),
        n_harmonics: int = 1,
        position: bool = True,
        seed: int | None = None,
    ) -> TimeColumns:
        """One for datetime columns of a schema: where every instant stands in some cycles.

        Cycles are those of the clock on the wall: a column that came with a time zone is read in that
        zone (8:00 is 8:00 in summer and winter), one without a zone as it is. So a column in UTC whose
        rows live by another clock should be converted to that zone before the fit. Days start at
        midnight, weeks on Monday; a year has 365.2425 days. Changes of the clock are known from a year
        before the earliest instant of the fit to 30 years after the latest.

        Args:
            columns: datetime columns of a schema.
            periods: one or several of ``"minute"``, ``"hour"``, ``"day"``, ``"week"``, ``"year"``, or of
                numbers of seconds.
            n_harmonics: sine and cosine of how many multiples of every phase.
            position: end with the instant's place between the earliest (−1) and the latest (1) of the
                fit, without which years are all alike.
            seed: seed of the rows of missing times.

        Shape:
            - times: ``(*, n_columns)`` int64 nanoseconds since 1970-01-01 UTC, −2⁶³ where missing
            - output: ``(*, n_columns, 2 · n_harmonics · n_periods + position)``

        Raises: ValueError for an unknown period or time zone. TypeError for columns that are no instants.

        >>> column = DatetimeColumn("departure", 9, 0, 0, 10**18, "Europe/Oslo")
        >>> CyclicEmbedding.from_columns([column])(torch.tensor([[0]])).shape
        torch.Size([1, 1, 7])
        """
        check_columns(columns, DatetimeColumn)
        check_integer(n_harmonics=n_harmonics)
        check_bool(position=position)
        given = periods if isinstance(periods, Sequence) and not isinstance(periods, str) else (periods,)
        lengths = tuple(map(calendar_period, given))
        check_integer(n_periods=len(lengths))
        width = 2 * n_harmonics * len(lengths) + bool(position)
        modules = [_Calendar(column, lengths, n_harmonics, position) for column in columns]
        return TimeColumns(modules, width, seed=seed)

    def forward(self, x: Tensor | float) -> Tensor:
        """Sines and cosines."""
        x = as_numbers(x, "x", self._follows_dtype.device)
        return harmonics(cycle_turns(x, self.period), self.n_harmonics, self.dtype)

    def extra_repr(self) -> str:
        """Period and harmonics."""
        return f"period={self.period:g}, n_harmonics={self.n_harmonics}"


class _Calendar(WideModule):
    """Cycles and the place in the fit of one datetime column: ``(*)`` nanoseconds to ``(*, d)``."""

    def __init__(
        self, column: DatetimeColumn, periods: tuple[int, ...], n_harmonics: int, position: bool
    ) -> None:
        super().__init__()
        self.earliest, self.latest = column.minimum, column.maximum
        self.clock = clock_of(column.timezone, column.minimum, column.maximum)
        self.periods, self.n_harmonics, self.position = periods, n_harmonics, position

    def forward(self, times: Tensor) -> Tensor:
        wall = on_the_wall(times, self.clock)
        parts = [harmonics(calendar_turns(wall, p), self.n_harmonics, self.dtype) for p in self.periods]
        if self.position:
            place = place_between(times.unsqueeze(-1), [self.earliest], [self.latest])
            parts.append((2 * place - 1).to(self.dtype))
        return torch.cat(parts, -1)
