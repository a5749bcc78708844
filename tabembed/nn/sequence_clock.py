"""The clock of sequences: real time or row numbers, and the scale of its gaps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tabembed._checks import check_choice
from tabembed.functional.position import since
from tabembed.nn.sequence_layout import Layout
from tabembed.schema import SequenceSchema

SECOND = 10**9


@dataclass(frozen=True)
class Clock:
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


def clock_of(schema: SequenceSchema, clock: str) -> Clock:
    """The clock of a schema's sequences.

    The shortest gap that matters is the one that 1 % of gaps are below: a few rows that are a microsecond
    apart should not take waves away from all others.

    Args:
        schema: what a fitted encoder knows.
        clock: ``"time"`` or ``"index"``.

    Raises: ValueError for another word.

    >>> from tabembed.schema import TableSchema
    >>> schema = SequenceSchema(TableSchema(9, ()), (), False, 2, 5, 7200.0, (60.0, 600.0, 3600.0))
    >>> clock_of(schema, "time").typical / SECOND, clock_of(schema, "index").longest
    (600.0, 4.0)
    """
    check_choice(("time", "index"), clock=clock)
    if clock == "index":
        return Clock(False, 1.0, 1.0, float(max(schema.longest - 1, 1)))
    gaps = schema.gaps or ((schema.span or 1.0),)
    shortest, typical = (max(gaps[round(level * (len(gaps) - 1))] * SECOND, 1.0) for level in (0.01, 0.5))
    return Clock(True, shortest, typical, max(schema.span * SECOND, typical))


class GapFeatures(nn.Module):
    """What the time before a row tells: its logarithm, standardised, and whether there is any.

    The logarithm is that of ``1 + gap / median gap``, less its mean over the fit, over its spread there.
    Differences are taken in integers, so that it matters not when time began.

    Args:
        schema: what a fitted encoder knows.

    Shape:
        - output: ``(n_lines, n_places, 2)`` float64: 0 and 1 where nothing came before

    >>> from tabembed.nn.sequence_layout import layout_of
    >>> from tabembed.schema import TableSchema
    >>> schema = SequenceSchema(TableSchema(9, ()), (), False, 2, 5, 20.0, (10.0, 10.0))
    >>> GapFeatures(schema)(layout_of(torch.tensor([[5, 5 + 10 * SECOND]]))).tolist()
    [[[0.0, 1.0], [0.0, 0.0]]]
    """

    width = 2

    def __init__(self, schema: SequenceSchema) -> None:
        super().__init__()
        self.unit = clock_of(schema, "time").typical
        gaps = torch.tensor(schema.gaps or (0.0,), dtype=torch.float64, device="cpu")
        logs = torch.log1p(gaps * SECOND / self.unit)
        spread = float(logs.std(correction=0))
        self.centre, self.spread = float(logs.mean()), spread if spread > 1e-3 else 1.0

    def forward(self, layout: Layout) -> Tensor:
        """Numbers of every row."""
        logs = (torch.log1p(layout.gap() / self.unit) - self.centre) / self.spread
        return torch.stack((logs.masked_fill(layout.first, 0.0), layout.first.double()), -1)

    def extra_repr(self) -> str:
        """Scale."""
        return f"unit={self.unit / SECOND:g} s"
