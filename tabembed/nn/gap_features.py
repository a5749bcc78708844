"""What the time before a row tells."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tabembed.functional.piecewise import piecewise_code
from tabembed.nn.sequence_layout import Layout
from tabembed.nn.time_scale import SECOND, scale_of
from tabembed.schema import SequenceSchema

N_BINS = 8
"""Bins of the gaps of the fit.

Late flights of 1,200 aircraft by their own history, ALiBi, ROC AUC on August and September, one seed: 0.672
with the logarithm of the gap alone, 0.675 with its code over 8 bins (without the edges at 0 and at the span).
"""

NARROWEST = 0.02
"""Least width of a bin, in logarithms: gaps of the fit that are nearer are one edge."""


class GapFeatures(nn.Module):
    """The piecewise-linear code of the logarithm of the gap before a row, and whether there is none.

    The edges are quantiles of the gaps of the fit, 0, and the longest span of a sequence; a longer gap counts
    as that. Differences are taken in integers, so that it matters not when time began.

    Args:
        schema: what a fitted encoder knows.

    Shape:
        - output: ``(n_lines, n_places, width)`` float64: from −1 to 1 a bin, then 0 or 1; zeros and 1 where
          nothing came before

    Source: code: Gorishniy et al. 2022, arXiv:2203.05556, equation 1.

    >>> from tabembed.nn.sequence_layout import layout_of
    >>> from tabembed.schema import TableSchema
    >>> schema = SequenceSchema(TableSchema(9, ()), (), False, 2, 5, 20.0, (10.0, 10.0))
    >>> GapFeatures(schema)(layout_of(torch.tensor([[5, 5 + 10 * SECOND, 5 + 30 * SECOND]]))).tolist()
    [[[0.0, 0.0, 1.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0]]]
    """

    def __init__(self, schema: SequenceSchema) -> None:
        super().__init__()
        clock = scale_of(schema, "time")
        self.unit = clock.shortest
        last = max(len(schema.gaps) - 1, 0)
        levels = [round(i * last / N_BINS) for i in range(N_BINS + 1)]
        gaps = [schema.gaps[level] * SECOND for level in levels] if schema.gaps else []
        self.edges = _apart([math.log1p(gap / self.unit) for gap in (0.0, *gaps, clock.longest)])
        self.width = len(self.edges)

    def forward(self, layout: Layout) -> Tensor:
        """Numbers of every row."""
        edges = torch.tensor(self.edges, dtype=torch.float64, device=layout.times.device)
        logs = torch.log1p(layout.gap() / self.unit).clamp(max=self.edges[-1])
        code = 2 * piecewise_code(logs.unsqueeze(-1), edges.unsqueeze(0)).squeeze(-2) - 1
        first = layout.first.unsqueeze(-1)
        return torch.cat((code.masked_fill(first, 0.0), first.double()), -1)

    def extra_repr(self) -> str:
        """How many bins, and the shortest gap that matters."""
        return f"{self.width - 1} bins, unit={self.unit / SECOND:g} s"


def _apart(rising: list[float]) -> tuple[float, ...]:
    """Edges, without those that are too near the one before.

    >>> _apart([0.0, 0.5, 0.51, 0.9])
    (0.0, 0.5, 0.9)
    """
    kept = rising[:1]
    for edge in rising[1:]:
        if edge - kept[-1] >= NARROWEST:
            kept.append(edge)
    return tuple(kept)
