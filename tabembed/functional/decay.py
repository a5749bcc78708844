"""Weights that halve with every half-life that has elapsed."""

from __future__ import annotations

import torch
from torch import Tensor

_GONE = 1100.0  # half-lives after which float64 holds nothing but 0


def decay(elapsed: Tensor, half_life: Tensor | float) -> Tensor:
    """``2^(−elapsed / half_life)``; what has not happened yet has weight 1.

    Gradients are finite, and 0 where nothing has elapsed yet or nothing is left.

    Args:
        elapsed: time since an event, in any unit.
        half_life: positive, in the same unit; one, or of a shape that broadcasts.

    Shape:
        - output: broadcast shape, in the dtype of ``elapsed``, float64 for integers; NaN stays NaN

    >>> decay(torch.tensor([0, 7, 14, -1000]), 7)
    tensor([1.0000, 0.5000, 0.2500, 1.0000], dtype=torch.float64)
    """
    dtype = elapsed.dtype if elapsed.is_floating_point() else torch.float64
    passed, life = elapsed.double(), torch.as_tensor(half_life, dtype=torch.float64)
    gone = passed > _GONE * life
    weight = torch.exp2(-(passed.clamp(min=0).masked_fill(gone, 0) / life))
    return weight.masked_fill(gone, 0).to(dtype)
