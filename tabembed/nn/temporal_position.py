"""Positions of a temporal transformer: a rotation, and a fading that is learned."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tabembed._checks import check_finite, check_int64, check_scale
from tabembed.functional.phase import widened
from tabembed.functional.position import elapsed
from tabembed.nn.heads import as_heads, held_for, shaped_as
from tabembed.nn.positions import resolve_rows
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.nn.rotary import RotaryEmbedding


class TemporalPositionEncoder(WideModule):
    """Turn tokens by their positions and multiply them by ``sigmoid(−t · w)``.

    ``t`` is ``(position − origin) / horizon``, whatever batch a row stands in, so that one step at a time
    gives what the full pass gives. This fading depends on where a row stands; that of ``RelativeDecay``
    depends on how far apart two rows are.

    With a positive ``w`` the factor is 1 far before the origin, ½ there and 0 far after it: where ``t · w``
    is above 100, nothing is left of a token. So give times since 1970 an origin, the start of the data.

    Args:
        dim: width of a token.
        horizon: how far from the origin ``t`` is 1: a length, or a span of time in the unit of the positions.
        decay_rate: first value of every ``w``, per horizon; each feature learns its own.
        base: pair ``i`` of features turns by ``base^(−2i / dim)`` radians per unit of position.
        frequencies: radians per unit of position, one for each pair, instead of those that follow from
            ``base``; ``frequencies_from_periods`` lays them from the time scale of the data.
        origin: position where ``t`` is 0; subtracted in integers from positions that are integers.

    Shape:
        - x: ``(n_steps, dim)`` or ``(n_sequences, *, n_steps, dim)``
        - positions: ``(n_steps,)`` or ``(n_sequences, n_steps)``, integers, float32 or float64; none
          missing. Float32 is taken as it is: seconds since 1970 are rounded to 128 s in it already
        - output: the encoded tokens and their factors, both of the shape and dtype of ``x``

    Raises: ValueError for an odd ``dim``, a horizon that is not from 1e-30 to 1e30, an origin that int64
        cannot hold, positions missing or not finite (on the CPU), and tensors on two devices.

    Source: rotation: Su et al. 2021, arXiv:2104.09864, equation 34.

    >>> encoded, decay = TemporalPositionEncoder(4, horizon=100)(torch.ones(3, 4))
    >>> decay[:, 0]
    tensor([0.5000, 0.4998, 0.4995], grad_fn=<SelectBackward0>)
    """

    wide = ("w",)

    def __init__(
        self,
        dim: int,
        *,
        horizon: float,
        decay_rate: float = 0.1,
        base: float = 10_000.0,
        frequencies: Sequence[float] | np.ndarray | Tensor | None = None,
        origin: float = 0,
    ) -> None:
        check_scale(horizon=horizon)
        check_finite(decay_rate=decay_rate, origin=origin)
        check_int64(origin=math.floor(origin))
        super().__init__()
        self.rotary = RotaryEmbedding(dim, base=base, frequencies=frequencies)
        self.dim, self.horizon, self.decay_rate, self.origin = int(dim), horizon, decay_rate, origin
        self.w = nn.Parameter(torch.empty(self.dim, dtype=wide_dtype()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every feature starts at ``decay_rate``."""
        self.rotary.reset_parameters()
        nn.init.constant_(self.w, float(self.decay_rate))

    def forward(
        self, x: Tensor, *, positions: Tensor | None = None, offset: Tensor | int = 0
    ) -> tuple[Tensor, Tensor]:
        """The encoded tokens, and what each was multiplied by.

        Args:
            x: the tokens.
            positions: row numbers or times; ``None`` counts from ``offset``.
            offset: row number of the first step, one or one for each sequence.
        """
        rows = as_heads(x, self.dim)
        places, w = resolve_rows(rows, positions, offset), held_for(x, self, self.w)
        wide = widened(rows)
        t = self._horizons(places).to(wide.dtype)[:, None, :, None]
        decay = torch.sigmoid(-t * w.to(wide.dtype)).expand(rows.shape)
        encoded = self.rotary.rotate(wide, positions=places) * decay
        return shaped_as(x, encoded.to(x.dtype)), shaped_as(x, decay.to(x.dtype))

    def _horizons(self, positions: Tensor) -> Tensor:
        """Where positions stand between the origin, 0, and the horizon, 1: int64 or float64 to float64."""
        whole = math.floor(self.origin)
        after = elapsed(positions, positions.new_full((), whole)) - float(self.origin - whole)
        return after / float(self.horizon)

    def extra_repr(self) -> str:
        """Arguments."""
        scales = f"horizon={self.horizon:g}, decay_rate={self.decay_rate:g}"
        return f"{self.dim}, {scales}, origin={self.origin}"
