"""Rotary position encoding of queries and keys, by row number or by real time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tabembed._checks import check_bool, check_choice, check_integer, check_scale
from tabembed.functional.exact_phase import in_turns
from tabembed.functional.rotary import LAYOUTS
from tabembed.functional.sinusoid import falling
from tabembed.kernels import rotate
from tabembed.nn.heads import as_heads, as_pair, held_for, shaped_as
from tabembed.nn.ladder import FixedLadder, as_frequencies
from tabembed.nn.positions import resolve_pair, resolve_rows
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.nn.rotary_layout import rotary_width


class RotaryEmbedding(WideModule):
    """Turn every pair of features by its frequency times the position.

    The product of a turned query and a turned key depends on how far apart they are, not on where. Positions
    are row numbers or real time in any unit: phases of integers and float64 numbers are exact, Unix
    nanoseconds included. Float32 is taken as it is: seconds since 1970 are rounded to 128 s in it already.
    No table is kept and no length is a limit.

    Args:
        dim: width of a head.
        base: pair ``i`` turns by ``base^(−2i / rotary_dim)`` radians per unit of position.
        frequencies: radians per unit of position, one for each pair, instead of those that follow from
            ``base``; ``frequencies_from_periods`` lays them from the time scale of the data.
        layout: which features make a pair, ``"half"``: i and i + width / 2, or ``"interleaved"``: 2 i and
            2 i + 1. A network runs with the layout that it was trained with; ``convert_layout`` changes it.
        rotary_dim: how many features turn, the first of each head; ``None`` turns all. The others pass.
        learnable: learn ``log_ratios``, the logarithm of every frequency over its first value: 0 at first.
            A learning rate of 0.001 changes a period by up to about 0.1 % in a step of Adam, whatever its
            unit; weight decay pulls it back to its first value. A frequency keeps its sign, and 0 stays 0.

    Shape:
        - q, k: ``(*, n_steps, dim)``, or the steps in any other dimension, ``seq_dim``. The first of the
          other dimensions are the sequences, the rest are heads. Of three dimensions the other one is
          the sequences, or the heads of one sequence
        - positions, k_positions: ``(n_steps,)`` or ``(n_sequences, n_steps)``, integers, float32 or float64;
          none missing
        - frequencies, log_ratios: ``(rotary_dim / 2,)``
        - output: shapes and dtypes of q and k

    Raises: ValueError for a width that is odd or above ``dim``, an unknown layout, heads of another width,
        positions of another shape or together with an offset, missing or not finite (on the CPU), more
        queries than keys without positions, and tensors on two devices.
        TypeError for positions in half precision, and integers of queries or keys with floats of the other.

    Source: Su et al. 2021, arXiv:2104.09864, equation 34.

    >>> rotary = RotaryEmbedding(8)
    >>> q, k = torch.randn(2, 4, 1, 8), torch.randn(2, 2, 6, 8)  # one query and six keys, fewer key heads
    >>> [x.shape for x in rotary(q, k, offset=torch.tensor([10, 25]))]
    [torch.Size([2, 4, 1, 8]), torch.Size([2, 2, 6, 8])]
    """

    wide = ("log_ratios",)

    def __init__(
        self,
        dim: int,
        *,
        base: float = 10_000.0,
        frequencies: Sequence[float] | np.ndarray | Tensor | None = None,
        layout: str = "half",
        rotary_dim: int | None = None,
        learnable: bool = False,
    ) -> None:
        check_integer(dim=dim)
        check_scale(base=base)
        check_choice(LAYOUTS, layout=layout)
        check_bool(learnable=learnable)
        super().__init__()
        self.dim, self.rotary_dim, self.layout = int(dim), rotary_width(dim, rotary_dim), layout
        n_pairs = self.rotary_dim // 2
        ladder = falling(self.rotary_dim, float(base)) if frequencies is None else frequencies
        self.ladder = FixedLadder(as_frequencies(ladder, n_pairs))
        self.log_ratios = nn.Parameter(torch.empty(n_pairs, dtype=wide_dtype())) if learnable else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Frequencies that are learned start anew from the arguments."""
        self.ladder.reset_parameters()
        if self.log_ratios is not None:
            nn.init.zeros_(self.log_ratios)

    @property
    def learnable(self) -> bool:
        """Whether the frequencies are learned."""
        return self.log_ratios is not None

    @property
    def frequencies(self) -> Tensor:
        """Radians per unit of position, ``(rotary_dim / 2,)`` float64: a copy, differentiable."""
        if self.log_ratios is None:
            return self.ladder.frequencies.clone()
        return self.ladder.frequencies.to(self.log_ratios.device) * self.log_ratios.double().exp()

    def turns(self) -> Tensor:
        """The frequencies in turns, as the kernels take them: ``(3, rotary_dim / 2)`` float64."""
        return self.ladder.turns if self.log_ratios is None else in_turns(self.frequencies)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        *,
        positions: Tensor | None = None,
        k_positions: Tensor | None = None,
        offset: Tensor | int = 0,
        seq_dim: int = -2,
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys turned by their positions, in one launch.

        Args:
            q: queries.
            k: keys; the number of heads and of steps may be another.
            positions: of the queries, and of the keys where those have none of their own. As many as there
                are keys; fewer queries are the last of them.
            k_positions: of the keys.
            offset: row number of the first key where no positions are given, one or one for each sequence.
            seq_dim: which dimension holds the steps.
        """
        queries, keys = as_pair(q, k, self.dim, seq_dim)
        n_sequences, _, n_q, _ = queries.shape
        places = resolve_pair(positions, k_positions, offset, n_sequences, n_q, keys.shape[2], q.device)
        turns = held_for(q, self, self.turns())
        queries, keys = rotate(queries, keys, *places, turns, interleaved=self.interleaved)
        return shaped_as(q, queries, seq_dim), shaped_as(k, keys, seq_dim)

    def rotate(
        self,
        x: Tensor,
        *,
        positions: Tensor | None = None,
        offset: Tensor | int = 0,
        seq_dim: int = -2,
    ) -> Tensor:
        """One tensor turned by its positions; the arguments are those of ``forward``."""
        heads = as_heads(x, self.dim, "x", seq_dim)
        places, turns = resolve_rows(heads, positions, offset), held_for(x, self, self.turns())
        turned, _ = rotate(heads, heads[:, :0], places, places, turns, interleaved=self.interleaved)
        return shaped_as(x, turned, seq_dim)

    @property
    def interleaved(self) -> bool:
        """Whether pairs are neighbours."""
        return self.layout == "interleaved"

    def extra_repr(self) -> str:
        """Arguments."""
        return f"{self.dim}, layout={self.layout!r}, rotary_dim={self.rotary_dim}, learnable={self.learnable}"
