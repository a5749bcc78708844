"""What a module makes of the rows of an array."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

_NUMBERS = 2**20
"""Numbers of the output that are computed at a time, so that what a module needs in between stays small."""


@torch.no_grad()
def module_rows(module: nn.Module, X: np.ndarray, n_outputs: int) -> np.ndarray:
    """Apply a module to rows, a block at a time, in the dtype of the rows.

    Args:
        module: maps ``(n_rows, n_features)`` to ``n_outputs`` numbers a row, in whatever shape; its dtype
            is that of ``X``.
        X: rows, float32 or float64.
        n_outputs: numbers in a row of the output.

    Shape:
        - output: ``(n_rows, n_outputs)``

    >>> module_rows(nn.Unflatten(1, (2, 2)), np.ones((3, 4)), 4).shape
    (3, 4)
    """
    out = np.empty((len(X), n_outputs), X.dtype)
    size = max(1, _NUMBERS // n_outputs)
    for start in range(0, len(X), size):
        out[start : start + size] = module(tensor_of(X[start : start + size])).flatten(1).numpy()
    return out


def tensor_of(rows: np.ndarray) -> Tensor:
    """Rows as a tensor: torch takes neither memory that is read-only nor steps backwards.

    Args:
        rows: an array of any strides; its memory is shared where that can be.

    >>> tensor_of(np.arange(3.0)[::-1]).tolist()
    [2.0, 1.0, 0.0]
    """
    rows = np.require(rows, requirements=["C", "W"])
    backwards = min(rows.strides, default=0) < 0  # one row counts as contiguous whichever way it steps
    return torch.from_numpy(rows.copy() if backwards else rows)
