"""Rows of several tables side by side: an id is looked up in each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding


def gather(weights: Sequence[Tensor], ids: Tensor, outside: Sequence[bool] | None = None) -> Tensor:
    """Look up one row per table and lay the rows side by side.

    An id outside ``0 … n_j − 1`` gives zeros, whatever stands in the table, and takes no gradient.

    Args:
        weights: at least one table; of any widths, in one dtype.
        ids: one id per row and table.
        outside: for every table, whether some id may be outside it; ``None``, where nobody has looked, means
            that some may.

    Shape:
        - weights: ``(n_j, d_j)`` for table j
        - ids: ``(*, n_tables)``, int32 or int64
        - output: ``(*, d_0 + d_1 + …)``

    Source: Guo & Berkhahn 2016, arXiv:1604.06737.

    >>> gather([torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, 4.0]])], torch.tensor([[1, 0], [-1, 7]]))
    tensor([[2., 3., 4.],
            [0., 0., 0.]])
    """
    return torch.cat(columns(weights, ids, outside), -1)


def columns(weights: Sequence[Tensor], ids: Tensor, outside: Sequence[bool] | None = None) -> list[Tensor]:
    """The parts of ``gather``, ``(*, d_j)`` for every table.

    >>> columns([torch.tensor([[1.0], [2.0]])], torch.tensor([[1], [-1]]))
    [tensor([[2.],
            [0.]])]
    """
    each = zip(weights, ids.unbind(-1), [True] * len(weights) if outside is None else outside, strict=True)
    # What is known to be inside needs one pass of many.
    return [
        look_up(column, weight, (column < 0) | (column >= weight.shape[0]))
        if some
        else embedding(column, weight)
        for weight, column, some in each
    ]


def columns_outside(ids: Tensor, n_rows: Sequence[int]) -> list[bool]:
    """For every table, whether it has no rows or some id ``(*, n_tables)`` is outside it; waits for the ids.

    >>> columns_outside(torch.tensor([[1, 7], [0, 2]]), [2, 3])
    [False, True]
    """
    if not ids.numel():
        return [n == 0 for n in n_rows]
    low, high = (ends.tolist() for ends in ids.reshape(-1, ids.shape[-1]).aminmax(dim=0))
    return [not 0 <= a <= b < n for a, b, n in zip(low, high, n_rows, strict=True)]


def look_up(ids: Tensor, weight: Tensor, blank: Tensor) -> Tensor:
    """Rows of a table, and zeros, which also take no gradient, where ``blank``.

    Args:
        ids: ``(*)``, from 0 to n − 1 where not blank.
        weight: ``(n, d)``.
        blank: bool, ``(*)``.

    >>> look_up(torch.tensor([1, 7]), torch.tensor([[1.0], [2.0]]), torch.tensor([False, True]))
    tensor([[2.],
            [0.]])
    """
    if not weight.shape[0]:  # which an embedding refuses, even where no id is asked for
        return weight.sum(0).expand(*ids.shape, weight.shape[1])
    found = embedding(ids.masked_fill(blank, 0), weight)
    return found.masked_fill_(blank.unsqueeze(-1), 0)  # a fill, no product: NaN · 0 is NaN
