"""What the products of pairs of a gradient and of an output say about positions, frequencies and rates."""

from __future__ import annotations

import torch
from torch import Tensor

from tabembed.functional.phase import radians
from tabembed.functional.position import elapsed
from tabembed.functional.rotary import exponent_limit


def of_angle(cross: Tensor, positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of positions, and of each of the three numbers of the frequencies.

    Args:
        cross: gradients of the angles, ``(n_batch or 1, n, n_pairs)``.
        positions: as ``functional.rotary.rotate`` takes them.
        frequencies: as ``in_turns`` gives them.

    Shape:
        - output: ``(n_batch or 1, n)`` and ``(3, n_pairs)``, float64
    """
    per_turn = radians(cross.double())
    of_frequencies = (per_turn * positions.unsqueeze(-1)).sum((0, 1))
    return (per_turn * frequencies.sum(0)).sum(-1), of_frequencies.expand(3, -1)


def of_decay(
    dot: Tensor, positions: Tensor, growth: Tensor, origin: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Gradients of positions and of the growth; none where the exponent was held at its limit.

    Args:
        dot: gradients of the exponents, ``(n_batch or 1, n, n_pairs)``.
        positions: as ``functional.rotary.rotate`` takes them.
        growth: per unit of position, ``(n_pairs,)``.
        origin: the position where the decay is 1.
        dtype: of what was turned.

    Shape:
        - output: ``(n_batch or 1, n)`` and ``(n_pairs,)``, float64
    """
    time = elapsed(positions, origin.detach().unsqueeze(-1)).unsqueeze(-1)
    inside = (time * growth).detach().abs() <= exponent_limit(dtype)
    slope = dot.double() * inside
    return (slope * growth).sum(-1), (slope * time).sum((0, 1))
