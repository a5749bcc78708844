"""What every launch on a GPU asks: which GPU it is, how many programs fill it, what is known of addresses."""

from __future__ import annotations

from math import gcd

import torch
from torch import Tensor

PROGRAMS = 2048
"""Enough to fill a GPU: heads or rows that share their angles are split until there are so many programs."""


def on_nvidia(x: Tensor) -> bool:
    """Whether a tensor is on an NVIDIA GPU."""
    return x.is_cuda and torch.version.hip is None


def lanes(x: Tensor) -> int:
    """Threads of a warp where a tensor is."""
    return torch.cuda.get_device_properties(x.device).warp_size if x.is_cuda else 32


def steps_in_memory(*tensors: Tensor) -> tuple[int, list[int]]:
    """How far apart batches, heads, steps and features of some tensors are.

    Returns: a power of two of up to 16 that divides all distances but those of features, so that the compiler
        sees how far an address can be trusted; then four distances a tensor, three of them divided by it.
    """
    strides = [[s if n > 1 else 0 for n, s in zip(x.shape, x.stride(), strict=True)] for x in tensors]
    aligned = gcd(16, *(s for batch, head, step, _ in strides for s in (batch, head, step)))
    return aligned, [s for *outer, unit in strides for s in (*(one // aligned for one in outer), unit)]
