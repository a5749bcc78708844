"""Positions of a temporal transformer: a rotation, and a fading that is learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabembed._checks import check_finite, check_scale
from tabembed.functional.phase import widened
from tabembed.nn.heads import as_heads, shaped_as
from tabembed.nn.positions import resolve
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.nn.rotary import RotaryEmbedding


class TemporalPositionEncoder(WideModule):
    """Turn tokens by their positions and multiply them by ``sigmoid(−t · w)``.

    ``t`` is the position in units of a fixed horizon, so that a row has one code whatever batch it stands in,
    and one step at a time gives what the full pass gives. This fading depends on where a row stands; that of
    ``RelativeDecay`` depends on how far apart two rows are.

    Args:
        dim: width of a token.
        horizon: position where ``t`` is 1: a length, or a span of time in the unit of the positions.
        decay_rate: first value of every ``w``; each feature learns its own.
        base: pair ``i`` of features turns by ``base^(−2i / dim)`` radians per unit of position.

    Shape:
        - x: ``(n_steps, dim)`` or ``(n_sequences, *, n_steps, dim)``
        - positions: ``(n_steps,)`` or ``(n_sequences, n_steps)``, integers, float32 or float64
        - output: the encoded tokens and their factors, both of the shape and dtype of ``x``

    Raises: ValueError for an odd ``dim`` and a horizon that is not from 1e-30 to 1e30.

    Source: rotation: Su et al. 2021, arXiv:2104.09864, equation 34.

    >>> encoded, decay = TemporalPositionEncoder(4, horizon=100)(torch.ones(3, 4))
    >>> decay[:, 0]
    tensor([0.5000, 0.4998, 0.4995], grad_fn=<SelectBackward0>)
    """

    wide = ("w",)

    def __init__(self, dim: int, *, horizon: float, decay_rate: float = 0.1, base: float = 10_000.0) -> None:
        check_scale(horizon=horizon)
        check_finite(decay_rate=decay_rate)
        super().__init__()
        self.dim, self.horizon, self.decay_rate, self.base = dim, horizon, decay_rate, base
        self.rotary = RotaryEmbedding(dim, base=base)
        self.w = nn.Parameter(torch.empty(dim, dtype=wide_dtype()))
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
        places = resolve(positions, offset, rows.shape[0], rows.shape[2], x.device)
        wide = widened(rows)
        t = (places.double() / float(self.horizon)).to(wide.dtype)[:, None, :, None]
        decay = torch.sigmoid(-t * self.w.to(wide.dtype)).expand(rows.shape)
        encoded = self.rotary.rotate(wide, positions=places) * decay
        return shaped_as(x, encoded.to(x.dtype)), shaped_as(x, decay.to(x.dtype))

    def extra_repr(self) -> str:
        """Arguments."""
        return f"{self.dim}, horizon={self.horizon:g}, decay_rate={self.decay_rate:g}"
