"""Sinusoidal position codes, added to the rows of a sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tabembed._checks import check_bool, check_integer, check_scale
from tabembed.functional.sinusoid import falling
from tabembed.kernels import sinusoid
from tabembed.nn.dropout import Dropout
from tabembed.nn.heads import as_heads, held_for
from tabembed.nn.ladder import FixedLadder, as_frequencies
from tabembed.nn.positions import resolve_rows


class SinusoidalEmbedding(nn.Module):
    """Add sines and cosines of a row's position to it: ``dropout(x + scale · PE(position))``.

    ``PE(t)[2i]`` is ``sin(t · base^(−2i / dim))``, ``PE(t)[2i + 1]`` its cosine. Positions are row numbers or
    real time in any unit: phases of integers and float64 numbers are exact, whatever their size. Float32 is
    taken as it is: seconds since 1970 are rounded to 128 s in it already. Nothing is stored and no length is
    a limit. (The embedding of a diffusion timestep is ``TimestepEmbedding``.)

    Args:
        dim: width of a row; an odd one lacks the last cosine.
        base: what the slowest period grows towards, in units of 2π.
        frequencies: radians per unit of position, one for each sine (``(dim + 1) // 2``), instead of those
            that follow from ``base``; ``frequencies_from_periods`` lays them from the time scale of the data.
        dropout: share of elements dropped while training.
        learned_scale: learn one factor of all codes, 1 at first.

    Shape:
        - x: ``(*, n_steps, dim)``; the first of the other dimensions are the sequences
        - positions: ``(n_steps,)`` or ``(n_sequences, n_steps)``, integers, float32 or float64; none missing
        - offset: a row number, or one for each sequence, ``(n_sequences,)``
        - output: shape and dtype of x; the same inside autocast

    Raises: ValueError for rows of another width, tensors on two devices, and positions of another shape,
        together with an offset, or (on the CPU) missing or not finite. TypeError for positions in half
        precision, and an x that is not floats.

    Source: Vaswani et al. 2017, arXiv:1706.03762, 3.5.

    >>> embedding = SinusoidalEmbedding(4)
    >>> embedding(torch.zeros(1, 2, 4), offset=7)
    tensor([[[ 0.6570,  0.7539,  0.0699,  0.9976],
             [ 0.9894, -0.1455,  0.0799,  0.9968]]])

    Waves of two hours to a year, for positions in hours:

    >>> from tabembed.functional.periods import frequencies_from_periods
    >>> SinusoidalEmbedding(8, frequencies=frequencies_from_periods(2, 8760, 4)).waves
    StillWaves(4 periods, 2 to 8760)
    """

    def __init__(
        self,
        dim: int,
        *,
        base: float = 10_000.0,
        frequencies: Sequence[float] | np.ndarray | Tensor | None = None,
        dropout: float = 0.0,
        learned_scale: bool = False,
    ) -> None:
        check_integer(dim=dim)
        check_scale(base=base)
        check_bool(learned_scale=learned_scale)
        super().__init__()
        self.dim = int(dim)
        ladder = falling(self.dim, float(base)) if frequencies is None else frequencies
        self.waves = StillWaves(as_frequencies(ladder, (self.dim + 1) // 2))
        self.scale = nn.Parameter(torch.empty(())) if learned_scale else None
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """A scale that is learned starts at 1."""
        self.waves.reset_parameters()
        if self.scale is not None:
            nn.init.ones_(self.scale)

    def forward(self, x: Tensor, *, positions: Tensor | None = None, offset: Tensor | int = 0) -> Tensor:
        """Rows with their positions.

        Args:
            x: rows.
            positions: of the steps; ``None`` counts from ``offset``.
            offset: row number of the first step.
        """
        heads = as_heads(x, self.dim)
        places = resolve_rows(heads, positions, offset)
        shared = places.shape[0] != heads.shape[0]
        rows = heads.flatten(0, 1).unsqueeze(0) if shared else heads
        waves, scale = self.waves, self.waves.one if self.scale is None else self.scale
        turns, phases, scale = (held_for(x, self, t) for t in (waves.turns, waves.phases, scale))
        coded = sinusoid(rows, places, turns, phases, scale, "interleaved")
        return self.dropout(coded.reshape(x.shape))

    def extra_repr(self) -> str:
        """Arguments."""
        return f"{self.dim}, learned_scale={self.scale is not None}"


class StillWaves(FixedLadder):
    """A ladder whose waves start at phase 0 with amplitude 1, ready for ``kernels.sinusoid``.

    Args:
        frequencies: radians per unit of position.

    Shape:
        - phases: ``(n_frequencies,)`` float64; one: ``()`` float64

    >>> StillWaves([1.0, 0.1]).phases
    tensor([0., 0.], dtype=torch.float64)
    """

    phases: Tensor
    one: Tensor

    @torch.inference_mode(False)
    def _made(self, device: torch.device) -> dict[str, Tensor]:
        made = super()._made(device)
        turns = made["turns"]
        return {**made, "phases": torch.zeros_like(turns[0]), "one": turns.new_ones(())}
