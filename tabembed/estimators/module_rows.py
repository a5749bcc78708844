"""What a module makes of the rows of an array."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

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
        # torch takes neither memory that is read-only nor steps backwards, be it over one row alone
        rows = np.require(X[start : start + size], requirements=["C", "W"])
        rows = rows.copy() if min(rows.strides) < 0 else rows
        out[start : start + size] = module(torch.from_numpy(rows)).flatten(1).numpy()
    return out
