"""One vector of a sequence from those of its rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tabembed._checks import check_choice
from tabembed.functional.decay import decay
from tabembed.functional.position import since
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.nn.sequence_layout import Layout
from tabembed.nn.time_scale import TimeScale

POOLINGS = (None, "last", "mean", "decay")


class Pooling(WideModule):
    """One vector a sequence from vectors of its rows: nothing that is learned."""

    def reset_parameters(self) -> None:
        """Put back what is learned."""


class LastRow(Pooling):
    """The vector of a sequence's last row; zeros where it has none.

    Shape:
        - vectors: ``(n_lines, n_places, dim)``
        - output: ``(n_sequences, dim)``
    """

    def forward(self, vectors: Tensor, layout: Layout) -> Tensor:
        """Vectors of the sequences."""
        if not vectors.shape[0] * vectors.shape[1]:
            return vectors.new_zeros(layout.last.shape[0], vectors.shape[-1])
        chosen = vectors.flatten(0, 1).index_select(0, layout.last.clamp(min=0))
        return torch.where((layout.last < 0).unsqueeze(-1), 0, chosen)


class MeanRow(Pooling):
    """The mean vector of a sequence's rows; zeros where it has none.

    Shape:
        - as ``LastRow``
    """

    def forward(self, vectors: Tensor, layout: Layout) -> Tensor:
        """Vectors of the sequences."""
        return weighted_mean(
            vectors, layout.real.to(torch.promote_types(vectors.dtype, torch.float32)), layout
        )


class DecayedMean(Pooling):
    """The mean of a sequence's rows, each weighted by ``2^(−time before the last row / half-life)``.

    Args:
        clock: what time is counted in. The half-life is learned, from between the median gap and the span on.

    Shape:
        - as ``LastRow``
    """

    wide = ("log_ratio",)

    def __init__(self, clock: TimeScale) -> None:
        super().__init__()
        self.clock = clock
        self.log_ratio = nn.Parameter(torch.empty((), dtype=wide_dtype()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Put the half-life back."""
        nn.init.zeros_(self.log_ratio)

    @property
    def half_life(self) -> Tensor:
        """The half-life in the unit of the positions, float64."""
        return self.log_ratio.double().exp() * math.sqrt(self.clock.typical * self.clock.longest)

    def forward(self, vectors: Tensor, layout: Layout) -> Tensor:
        """Vectors of the sequences."""
        places = self.clock.positions(layout)
        if not places.numel():
            return vectors.new_zeros(layout.last.shape[0], vectors.shape[-1])
        final = places.flatten()[layout.last.clamp(min=0)][layout.sequence]
        weights = decay(since(final, places), self.half_life).masked_fill(~layout.real, 0)
        return weighted_mean(vectors, weights.to(torch.promote_types(vectors.dtype, torch.float32)), layout)

    def extra_repr(self) -> str:
        """What time is counted in."""
        return f"timed={self.clock.timed}"


def weighted_mean(vectors: Tensor, weights: Tensor, layout: Layout) -> Tensor:
    """Mean of the rows of every sequence, summed in the dtype of the weights; zeros without rows.

    Shape:
        - vectors: ``(n_lines, n_places, dim)``; weights: ``(n_lines, n_places)``
        - output: ``(n_sequences, dim)``
    """
    n_sequences, owner = layout.last.shape[0], layout.sequence.reshape(-1)
    weighted = (vectors.to(weights.dtype) * weights.unsqueeze(-1)).flatten(0, 1)
    total = weights.new_zeros(n_sequences, vectors.shape[-1]).index_add(0, owner, weighted)
    weight = weights.new_zeros(n_sequences).index_add(0, owner, weights.flatten())
    gone = (weight == 0).unsqueeze(-1)
    return torch.where(gone, 0, total / weight.unsqueeze(-1).masked_fill(gone, 1)).to(vectors.dtype)


def pooling_of(pooling: str | None, clock: TimeScale) -> Pooling | None:
    """The module of a word.

    Raises: ValueError for another word.

    >>> from tabembed.nn.time_scale import TimeScale
    >>> pooling_of("last", TimeScale(False, 1.0, 1.0, 9.0))
    LastRow()
    """
    check_choice(POOLINGS, pooling=pooling)
    if pooling is None:
        return None
    return DecayedMean(clock) if pooling == "decay" else {"last": LastRow, "mean": MeanRow}[pooling]()
