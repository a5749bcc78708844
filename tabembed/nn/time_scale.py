"""The clock of sequences: real time or row numbers, and the scale of its gaps."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tabembed._checks import check_choice
from tabembed.functional.position import since
from tabembed.nn.sequence_layout import Layout
from tabembed.schema import SequenceSchema

SECOND = 10**9


@dataclass(frozen=True)
class TimeScale:
    """What positions are counted in, and how far apart rows stand.

    Args:
        timed: positions are nanoseconds; otherwise row numbers.
        shortest: the shortest gap that matters, in the unit of the positions.
        typical: the median gap.
        longest: the longest time from the first row of a sequence to its last.
    """

    timed: bool
    shortest: float
    typical: float
    longest: float

    def positions(self, layout: Layout) -> Tensor:
        """Where rows stand, int64."""
        return layout.times if self.timed else layout.number

    def since_first(self, layout: Layout) -> Tensor:
        """How far rows stand from the first of their sequence: float64 nanoseconds, or int64 numbers."""
        return since(layout.times, layout.origin) if self.timed else layout.number


def scale_of(schema: SequenceSchema, clock: str) -> TimeScale:
    """The clock of a schema's sequences.

    The shortest gap that matters is the one that 1 % of gaps are below: a few rows that are a microsecond
    apart should not take waves away from all others.

    Args:
        schema: what a fitted encoder knows.
        clock: ``"time"`` or ``"index"``.

    Raises: ValueError for another word.

    >>> from tabembed.schema import TableSchema
    >>> schema = SequenceSchema(TableSchema(9, ()), (), False, 2, 5, 7200.0, (60.0, 600.0, 3600.0))
    >>> scale_of(schema, "time").typical / SECOND, scale_of(schema, "index").longest
    (600.0, 4.0)
    """
    check_choice(("time", "index"), clock=clock)
    if clock == "index":
        return TimeScale(False, 1.0, 1.0, float(max(schema.longest - 1, 1)))
    gaps = schema.gaps or ((schema.span or 1.0),)
    shortest, typical = (max(gaps[round(level * (len(gaps) - 1))] * SECOND, 1.0) for level in (0.01, 0.5))
    return TimeScale(True, shortest, typical, max(schema.span * SECOND, typical))
