"""Position schemes of sequences by name, on the time scale of the data."""

from __future__ import annotations

import math

from torch import Tensor, nn

from tabembed.functional.periods import frequencies_from_periods
from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.decay import RelativeDecay
from tabembed.nn.learned_position import LearnedPositionalEmbedding
from tabembed.nn.rotary import RotaryEmbedding
from tabembed.nn.sequence_layout import Layout
from tabembed.nn.sinusoidal import SinusoidalEmbedding
from tabembed.nn.time_scale import TimeScale

SCHEMES = ("rotary", "alibi", "decay", "sinusoidal", "learned", None)

_SLOWER = 4
"""Median gaps in the shortest half-life: what fades within a few rows costs several times as much."""


class SequencePosition(nn.Module):
    """What a position scheme adds to tokens, and what it gives to attention.

    ``rotary`` and ``bias`` are arguments of ``attention``, ``None`` where the scheme has none.

    Args:
        scheme: one of ``SCHEMES``.
        clock: what positions are counted in.
        d_model: width of a token.
        n_heads: number of heads.
        causal: rows look back only.
        seed: seed of the first weights.

    Shape:
        - tokens, output: ``(n_lines, n_places, d_model)``
    """

    rotary: RotaryEmbedding | RelativeDecay | None
    bias: ALiBiEmbedding | None
    added: SinusoidalEmbedding | LearnedOffsets | None

    def __init__(
        self,
        scheme: str | None,
        clock: TimeScale,
        *,
        d_model: int,
        n_heads: int,
        causal: bool,
        seed: int | None,
    ) -> None:
        super().__init__()
        self.clock, width = clock, d_model // n_heads
        self.rotary, self.bias, self.added = None, None, None
        if scheme == "rotary":
            self.rotary = RotaryEmbedding(width, frequencies=_ladder(clock, width // 2))
        elif scheme == "decay":
            shortest = _SLOWER * clock.typical
            self.rotary = RelativeDecay(width, half_lives=(shortest, max(shortest, clock.longest)))
        elif scheme == "alibi":
            mode = "causal" if causal else "symmetric"
            self.bias = ALiBiEmbedding(n_heads, mode=mode, slopes="learned", unit=clock.typical)
        elif scheme == "sinusoidal":
            ladder = _ladder(clock, (d_model + 1) // 2)
            self.added = SinusoidalEmbedding(d_model, frequencies=ladder, learned_scale=True)
        elif scheme == "learned":
            self.added = LearnedOffsets(clock, d_model, seed=seed)

    def reset_parameters(self) -> None:
        """What is learned starts anew."""
        for part in (self.rotary, self.bias, self.added):
            if part is not None:
                part.reset_parameters()

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Tokens with what the scheme adds to them."""
        return tokens if self.added is None else self.added(tokens, positions=self.clock.since_first(layout))


class LearnedOffsets(nn.Module):
    """One learned vector for how far a row stands from the first of its sequence.

    Row numbers have a vector each, up to the longest sequence of the fit. Real time has one for the first
    instant and 63 more, in equal ratios from the shortest gap to the longest span. What is beyond has the
    last.

    Args:
        clock: what positions are counted in.
        dim: width of a vector.
        seed: seed of the first weights.

    Shape:
        - x, output: ``(n_sequences, n_steps, dim)``; positions: ``(n_sequences, n_steps)``
    """

    def __init__(self, clock: TimeScale, dim: int, *, seed: int | None = None) -> None:
        super().__init__()
        self.clock = clock
        n_offsets = 64 if clock.timed else int(clock.longest) + 1
        self.table = LearnedPositionalEmbedding(n_offsets, dim, seed=seed)

    def reset_parameters(self) -> None:
        """Draw the vectors anew."""
        self.table.reset_parameters()

    def forward(self, x: Tensor, *, positions: Tensor) -> Tensor:
        """Rows with the vectors of where they stand added."""
        return self.table(x, positions=self.places(positions))

    def places(self, positions: Tensor) -> Tensor:
        """The row of the table of every position."""
        last = self.table.num_positions - 1
        if not self.clock.timed:
            return positions.clamp(0, last)
        shortest, ratio = self.clock.shortest, max(self.clock.longest / self.clock.shortest, 2.0)
        steps = (positions.clamp(min=shortest) / shortest).log2() * ((last - 1) / math.log2(ratio))
        return (steps.floor().long() + 1).clamp(max=last).masked_fill(positions < shortest, 0)


def _ladder(clock: TimeScale, n: int) -> list[float]:
    """Waves from twice the shortest gap that matters to three times the longest span."""
    return frequencies_from_periods(2 * clock.shortest, 3 * max(clock.longest, clock.shortest), n)
