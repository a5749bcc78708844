"""Rows of several tables side by side: an id is looked up in each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding

from tabembed._checks import is_concrete


def gather(weights: Sequence[Tensor], ids: Tensor) -> Tensor:
    """Look up one row per table and lay the rows side by side.

    An id outside ``0 … n_j − 1`` gives zeros, whatever stands in the table, and takes no gradient.

    Args:
        weights: at least one table; of any widths, in one dtype.
        ids: one id per row and table.

    Shape:
        - weights: ``(n_j, d_j)`` for table j
        - ids: ``(*, n_tables)``, int32 or int64
        - output: ``(*, d_0 + d_1 + …)``

    Source: Guo & Berkhahn 2016, arXiv:1604.06737.

    >>> gather([torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, 4.0]])], torch.tensor([[1, 0], [-1, 7]]))
    tensor([[2., 3., 4.],
            [0., 0., 0.]])
    """
    return torch.cat(columns(weights, ids), -1)


def columns(weights: Sequence[Tensor], ids: Tensor) -> list[Tensor]:
    """The parts of ``gather``, ``(*, d_j)`` for every table.

    >>> columns([torch.tensor([[1.0], [2.0]])], torch.tensor([[1], [-1]]))
    [tensor([[2.],
            [0.]])]
    """
    n_rows = [weight.shape[0] for weight in weights]
    outside = columns_outside(ids, n_rows) if is_concrete(ids) else [True] * len(n_rows)
    each = zip(weights, ids.unbind(-1), outside, strict=True)
    # What is known to be inside needs one pass of four.
    return [rows(weight, column) if some else embedding(column, weight) for weight, column, some in each]


def columns_outside(ids: Tensor, n_rows: Sequence[int]) -> list[bool]:
    """For every table, whether it has no rows or some id ``(*, n_tables)`` is outside it; waits for the ids.

    >>> columns_outside(torch.tensor([[1, 7], [0, 2]]), [2, 3])
    [False, True]
    """
    if not ids.numel():
        return [n == 0 for n in n_rows]
    low, high = (ends.tolist() for ends in ids.reshape(-1, ids.shape[-1]).aminmax(dim=0))
    return [not 0 <= a <= b < n for a, b, n in zip(low, high, n_rows, strict=True)]


def rows(weight: Tensor, ids: Tensor) -> Tensor:
    """Rows ``(*, d)`` of one table ``(n, d)``, and zeros where an id ``(*)`` is outside it."""
    if not weight.shape[0]:  # which an embedding refuses, even where no id is asked for
        return weight.sum(0).expand(*ids.shape, weight.shape[1])
    near = ids.clamp(0, weight.shape[0] - 1)
    found = embedding(near, weight)
    return found.masked_fill_((ids != near).unsqueeze(-1), 0)  # a fill, no product: NaN · 0 is NaN
