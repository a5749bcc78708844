"""Random Fourier features: waves whose inner products approximate a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from tabembed.functional.phase import cos_sin, widened

_BLOCK = 2**18  # phases at a time: they stay in the cache between the product and the waves


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
    x, frequencies = _alike(x, frequencies)
    with torch.autocast(x.device.type, enabled=False):  # it would round the phases to half precision
        phases = x @ frequencies
    if offsets is None:
        return cos_sin(phases, "cos_sin", amplitude(frequencies, offsets))
    return torch.cos(phases + offsets.to(phases)) * amplitude(frequencies, offsets)


def write_random_features(
    blocks: Iterable[Tensor], frequencies: Tensor, offsets: Tensor | None, out: Tensor
) -> None:
    """``random_features`` of blocks of rows, one after the other, written into one tensor of rows."""
    start, size = 0, amplitude(frequencies, offsets)
    for rows in blocks:
        here, (rows, wide) = out[start : start + len(rows)], _alike(rows, frequencies)
        with torch.autocast(rows.device.type, enabled=False):
            phases = torch.mm(rows, wide)
        if offsets is None:
            cosines, sines = here.chunk(2, -1)
            torch.cos(phases, out=cosines)
            torch.sin(phases, out=sines)
        else:
            torch.cos(phases.add_(offsets.to(phases)), out=here)
        here.mul_(size)
        start += len(rows)


def block_size(frequencies: Tensor) -> int:
    """Rows in a block whose phases fit in the cache."""
    return max(1, _BLOCK // frequencies.shape[-1])


def amplitude(frequencies: Tensor, offsets: Tensor | None) -> float:
    """What every wave is multiplied by."""
    return math.sqrt((1 if offsets is None else 2) / frequencies.shape[-1])


def _alike(x: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    x, frequencies = widened(x), widened(frequencies)
    wide = torch.promote_types(x.dtype, frequencies.dtype)
    return x.to(wide), frequencies.to(wide)
