"""Numbers in bins: edges, the piecewise-linear code, and a linear map of it by look-up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tabembed._checks import check_integer, is_concrete
from tabembed.functional.phase import widened
from tabembed.functional.search import edges_passed


def quantile_edges(values: Tensor, n_bins: int = 48, counts: Tensor | None = None) -> Tensor:
    """Edges of bins that hold about equally many rows.

    They are the quantiles of the rows. Where a value is so frequent that several quantiles fall on it,
    it counts for less, as much less as it takes for all ``n_bins`` to be there: a column that is mostly
    0 has its bins where the other values are. Where there are at most ``n_bins + 1`` distinct values,
    they are the edges.

    Args:
        values: finite numbers, in any order: a tensor or what ``torch.as_tensor`` takes.
        n_bins: number of bins at most.
        counts: rows that every value stands for; ``None`` is one row each.

    Shape:
        - values, counts: any, the same
        - output: ``(n_edges,)``, rising, 1 to ``n_bins + 1`` of them, the first the smallest value and
          the last the largest

    Raises: ValueError when there is no value, or one that is not finite, or for counts that are not one
        integer a value or negative.
    Source: Gorishniy et al. 2022, arXiv:2203.05556, section 3.2.1. NOTE[DIFF]: there quantiles that fall
        together are lost.

    >>> quantile_edges(torch.arange(2.0, 10.0), 5).tolist()
    [2.0, 3.4..., 4.8..., 6.1..., 7.5..., 9.0]
    >>> quantile_edges(torch.tensor([0.0] * 8 + [1.0, 2.0]), 3).tolist()
    [0.0, 1.0, 2.0]
    """
    check_integer(n_bins=n_bins)
    values = values if isinstance(values, Tensor) else torch.as_tensor(values, device="cpu")
    check_integer(n_values=values.numel())
    if is_concrete(values) and not values.isfinite().all():
        got = values[~values.isfinite()].flatten()[0].item()
        raise ValueError(f"values must be finite, got {got}")
    distinct, inverse = widened(values.detach()).flatten().unique(return_inverse=True)
    rows = torch.ones_like(inverse) if counts is None else _counts(counts, values)
    rows = torch.zeros_like(distinct, dtype=torch.int64).index_add_(0, inverse, rows).clamp_min(1)
    if len(distinct) <= n_bins + 1:
        return distinct
    most = int(rows.max())
    edges = _quantiles(distinct, rows, n_bins)
    while len(edges) <= n_bins and most > 1:
        most = max(1, most * 4 // 5)
        edges = _quantiles(distinct, rows.clamp_max(most), n_bins)
    return edges


def _counts(counts: Tensor, values: Tensor) -> Tensor:
    """Rows that every value stands for, as int64."""
    counts = counts if isinstance(counts, Tensor) else torch.as_tensor(counts, device="cpu")
    if counts.numel() != values.numel():
        raise ValueError(f"counts must be one for each of {values.numel()} values, got {counts.numel()}")
    if counts.is_floating_point() or bool((counts < 0).any()):
        raise ValueError(f"counts must be integers of at least 0, got {counts.flatten()[:5].tolist()}")
    return counts.flatten().to(torch.int64)


def _quantiles(distinct: Tensor, rows: Tensor, n_bins: int) -> Tensor:
    """Quantiles at ``n_bins + 1`` evenly spaced levels, linear between rows; equal ones once."""
    ends = rows.cumsum(0)
    rank = torch.arange(n_bins + 1, dtype=torch.float64, device=rows.device) * ((ends[-1] - 1) / n_bins)
    rank[-1] = ends[-1] - 1
    below = distinct[torch.searchsorted(ends, rank.floor().long(), right=True)].double()
    above = distinct[torch.searchsorted(ends, rank.ceil().long(), right=True)].double()
    return (below + (above - below) * (rank - rank.floor())).to(distinct).unique()


def pad_edges(edges: Sequence[Tensor], n_bins: int) -> Tensor:
    """Edges of several columns side by side; the last one is repeated where a column has fewer.

    Shape:
        - edges: ``(n_edges,)`` each
        - output: ``(n_columns, n_bins + 1)``

    >>> pad_edges([torch.tensor([0.0, 1.0, 3.0]), torch.tensor([5.0])], 3).tolist()
    [[0.0, 1.0, 3.0, 3.0], [5.0, 5.0, 5.0, 5.0]]
    """
    return torch.stack([torch.cat((e, e[-1:].expand(n_bins + 1 - len(e)))) for e in edges])


def find_bins(x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """The bin of every number, and how far through it the number is.

    A bin holds its left edge and not its right one. The first bin is open below and the last one
    above: a number outside the edges is in an outer bin, at a share below 0 or above 1. At a bin without
    width (a column with one edge) every number has share 0.

    Args:
        x: numbers, in the dtype of ``edges``.
        edges: edges of every column, the last one repeated where a column has fewer.

    Shape:
        - x: ``(*, n_features)``
        - edges: ``(n_features, n_bins + 1)``
        - output: bins ``(*, n_features)`` int64 and shares ``(*, n_features)``

    >>> edges = torch.tensor([[0.0, 1.0, 3.0]])
    >>> [found.flatten().tolist() for found in find_bins(torch.tensor([[-1.0], [0.5], [1.0], [4.0]]), edges)]
    [[0, 0, 1, 1], [-1.0, 0.5, 0.0, 1.5]]
    """
    last = edges[:, -1:]
    inner = edges[:, 1:-1].masked_fill(edges[:, 1:-1] >= last, math.inf)  # no bin begins at the last edge
    rows = x.unsqueeze(0).movedim(-1, 0)
    bins = edges_passed(inner, rows.flatten(1))
    bins = bins.view(rows.shape).movedim(0, -1).squeeze(0).contiguous()
    place = bins + _first(edges[:, 1:])
    width = edges.diff().flatten()[place]
    share = (x - edges[:, :-1].flatten()[place]) / width.masked_fill(width == 0, math.inf)
    return bins, share


def piecewise_code(x: Tensor, edges: Tensor) -> Tensor:
    """Piecewise-linear code: how much of every bin lies below a number.

    Args:
        x: numbers, in the dtype of ``edges``.
        edges: edges of every column, as in ``find_bins``; the outer bins are open there too.

    Shape:
        - x: ``(*, n_features)``
        - edges: ``(n_features, n_bins + 1)``
        - output: ``(*, n_features, n_bins)``

    Source: Gorishniy et al. 2022, arXiv:2203.05556, equation 1.

    >>> piecewise_code(torch.tensor([[0.0], [2.0], [4.0], [-1.0]]), torch.tensor([[0.0, 1.0, 3.0]])).tolist()
    [[[0.0, 0.0]], [[1.0, 0.5]], [[1.0, 1.5]], [[-1.0, 0.0]]]
    """
    bins, share = find_bins(x, edges)
    number = torch.arange(edges.shape[1] - 1, device=x.device)
    passed = (number < bins.unsqueeze(-1)).to(x)
    return torch.where(number == bins.unsqueeze(-1), share.unsqueeze(-1), passed)


def piecewise_linear(x: Tensor, edges: Tensor, weight: Tensor, start: Tensor | None = None) -> Tensor:
    """A linear map of the piecewise-linear code, by look-up: its cost does not grow with the bins.

    Equals ``piecewise_code(x, edges) @ weight + start`` column by column: what the bins below a number add
    up to is one row of a running sum, and its own bin adds its share.

    Args:
        x: numbers, in the dtype of ``edges``, ``weight`` and ``start``.
        edges: edges of every column, as in ``find_bins``.
        weight: what a whole bin adds.
        start: the vector at the first edge; ``None`` is 0.

    Shape:
        - x: ``(*, n_features)``
        - edges: ``(n_features, n_bins + 1)``
        - weight: ``(n_features, n_bins, d)``
        - start: ``(n_features, d)``
        - output: ``(*, n_features, d)``

    >>> weight = torch.tensor([[[10.0], [1.0]]])
    >>> piecewise_linear(torch.tensor([[0.5], [2.0]]), torch.tensor([[0.0, 1.0, 3.0]]), weight).tolist()
    [[[5.0]], [[10.5]]]
    """
    bins, share = find_bins(x, edges)
    place = bins + _first(weight)
    # Added to the small table and not to the many rows that are looked up in it.
    start = torch.zeros_like(weight[:, 0]) if start is None else start
    below = torch.cat((start.unsqueeze(1), weight[:, :-1]), 1).cumsum(1)
    whole, own = (F.embedding(place, table.flatten(0, 1)) for table in (below, weight))
    return torch.addcmul(whole, share.unsqueeze(-1), own)


def _first(table: Tensor) -> Tensor:
    """Where every column begins in a table ``(n_columns, n_rows, ...)`` laid flat."""
    return torch.arange(table.shape[0], device=table.device) * table.shape[1]
