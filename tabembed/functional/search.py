"""Where numbers lie between sorted edges."""

from __future__ import annotations

import torch
from torch import Tensor


def edges_passed(edges: Tensor, x: Tensor) -> Tensor:
    """How many edges a number has reached: ``torch.searchsorted(edges, x, right=True)``.

    In exports every edge is compared, with the same result: ONNX has no search.

    Args:
        edges: rising.
        x: numbers in the dtype of ``edges``. NaN has reached all of them.

    Shape:
        - edges: ``(n_edges,)``, or ``(n_features, n_edges)``
        - x: any, or ``(n_features, n)``
        - output: as ``x``, int64

    >>> edges_passed(torch.tensor([0.0, 1.0]), torch.tensor([-1.0, 0.0, 0.5, 1.0])).tolist()
    [0, 1, 1, 2]
    """
    if torch.compiler.is_exporting():
        return (edges.unsqueeze(-2) > x.unsqueeze(-1)).logical_not().sum(-1)
    return torch.searchsorted(edges, x.contiguous(), right=True)
