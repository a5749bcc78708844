"""Random Fourier features: waves whose inner products approximate a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from tabembed.functional.phase import cos_sin, widened, without_autocast, write_cos_sin

_BLOCK = 2**20  # phases at a time: few enough to stay in a cache, many enough to share among threads


def random_features(x: Tensor, frequencies: Tensor, offsets: Tensor | None = None) -> Tensor:
    """Cosines and sines of the phases of rows, or cosines with offsets, scaled to unit mean square norm.

    Args:
        x: rows ``(*, n_features)``.
        frequencies: radians per unit of ``x``, ``(n_features, m)``.
        offsets: radians ``(m,)``; ``None`` makes sines in their place.

    Shape:
        - output: ``(*, 2 m)``, [cos, sin] · m^−½, without offsets; ``(*, m)``, cos · (m/2)^−½, with
          them; in the wider dtype of rows and frequencies, at least float32

    Source: Rahimi & Recht 2007, algorithm 1; Sutherland & Schneider 2015, arXiv:1506.02785, equation 2.

    >>> random_features(torch.zeros(1, 3), torch.ones(3, 4))
    tensor([[0.5000, 0.5000, 0.5000, 0.5000, 0.0000, 0.0000, 0.0000, 0.0000]])
    """
    angles = phases(x, frequencies)
    if offsets is None:
        return cos_sin(angles, "cos_sin", amplitude(angles, offsets))
    return torch.cos(angles + offsets.to(angles)) * amplitude(angles, offsets)


def phases(x: Tensor, frequencies: Tensor) -> Tensor:
    """Phases of rows, ``(*, m)`` radians, in the wider dtype of the two, at least float32."""
    x, frequencies = _alike(x, frequencies)
    with without_autocast(x.device):  # it would round the phases to half precision
        return x @ frequencies


def phases_of_blocks(blocks: Iterable[Tensor], frequencies: Tensor) -> Iterator[Tensor]:
    """Phases of blocks of rows, each written over the one before.

    Args:
        blocks: rows ``(<= block_size, n_features)``.
        frequencies: radians per unit, ``(n_features, m)``.
    """
    memory = frequencies.new_empty(0)
    for rows in blocks:
        rows, wide = _alike(rows, frequencies)
        if memory.dtype != wide.dtype or len(memory) < len(rows):
            memory = wide.new_empty(len(rows), wide.shape[-1])
        yield torch.mm(rows, wide, out=memory[: len(rows)])  # autocast leaves out= alone


def write_waves(blocks: Iterable[Tensor], offsets: Tensor | None, out: Tensor) -> None:
    """Write the features of blocks of rows, given their phases, one below the other.

    The same numbers as those of ``random_features``, without a derivative; a block that stays in the
    cache takes half the time. The phases are overwritten.
    """
    start = 0
    for angles in blocks:
        rows = out[start : start + len(angles)]
        if offsets is None:
            write_cos_sin(angles, "cos_sin", amplitude(angles, offsets), rows)
        else:
            torch.cos(angles.add_(offsets.to(angles)), out=rows).mul_(amplitude(angles, offsets))
        start += len(rows)


def block_size(frequencies: Tensor) -> int:
    """Rows in a block whose phases fit in the cache."""
    return max(1, _BLOCK // frequencies.shape[-1])


def amplitude(angles: Tensor, offsets: Tensor | None) -> float:
    """What every wave is multiplied by."""
    return math.sqrt((1 if offsets is None else 2) / angles.shape[-1])


def _alike(x: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the wider dtype of the two, at least float32."""
    x, frequencies = widened(x), widened(frequencies)
    wide = torch.promote_types(x.dtype, frequencies.dtype)
    return x.to(wide), frequencies.to(wide)
