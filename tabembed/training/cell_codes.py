"""A fixed code of every cell of a table, in which nothing is learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed.functional.piecewise import pad_edges, piecewise_code, quantile_edges
from tabembed.functional.position import centred
from tabembed.schema import FIRST_KNOWN, UNKNOWN, CategoricalColumn, ContinuousColumn, TableSchema

LEAST_ROWS, MOST_IDS = 10, 256
"""An id has a place of its own if so many rows have it, and so few ids are more frequent."""
N_BINS = 8
"""Bins of a column of numbers."""


class CellCodes(nn.Module):
    """Lay the cells of a row side by side as numbers from which a linear map can read off each of them.

    A category has a place for every id, 1 at its own; rare ones share that of the unknown id. A number has
    its piecewise-linear code (how much of every bin lies below it) with a flag where it is missing, and,
    after the codes of all numbers, itself. A time has its place between the earliest (−1) and the latest
    (1). Lists have no code.

    Args:
        schema: the columns of the table.

    Shape:
        - forward: the tensors of a batch to ``(n_rows, n_codes)`` float64

    >>> from tabembed.schema import CategoricalColumn
    >>> codes = CellCodes(TableSchema(40, (CategoricalColumn("city", (0, 9, 1, 20, 10)),)))
    >>> codes(torch.tensor([[4], [1]]), torch.zeros(2, 0), torch.zeros(2, 0).bool()).tolist()
    [[0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0, 0.0]]
    """

    edges: Tensor

    def __init__(self, schema: TableSchema) -> None:
        super().__init__()
        self.n_ids = [_n_places(column) for column in schema.categorical]
        self.ends = [c.minimum for c in schema.datetime], [c.maximum for c in schema.datetime]
        edges = [_edges(column) for column in schema.continuous]
        padded = pad_edges(edges, N_BINS) if edges else torch.zeros(0, N_BINS + 1, device="cpu")
        self.register_buffer("edges", padded)

    @property
    def widths(self) -> list[int]:
        """Widths of the parts: categories first, then codes of numbers, numbers, and times."""
        n_numbers, n_times = len(self.edges), len(self.ends[0])
        return [*self.n_ids, *[N_BINS + 1] * n_numbers, *[1] * (n_numbers + n_times)]

    def forward(
        self, ids: Tensor, values: Tensor, missing: Tensor, times: Tensor | None = None, lists: Any = None
    ) -> Tensor:
        """Codes of all cells, side by side."""
        columns = zip(ids.unbind(-1), self.n_ids, strict=True)
        places = [F.one_hot(column.where(column < n, UNKNOWN), n) for column, n in columns]
        bounded = values.to(self.edges).clamp(self.edges[:, 0], self.edges[:, -1])
        shares = piecewise_code(bounded, self.edges)
        numbers = torch.cat([shares, missing.unsqueeze(-1).to(shares)], -1).flatten(-2)
        instants = values[..., :0] if times is None else centred(times, *self.ends, 0.0)
        return torch.cat([part.double() for part in (*places, numbers, bounded, instants)], -1)


def _n_places(column: CategoricalColumn) -> int:
    frequent = sum(count >= LEAST_ROWS for count in column.counts[FIRST_KNOWN:])
    return FIRST_KNOWN + min(frequent, MOST_IDS)


def _edges(column: ContinuousColumn) -> Tensor:
    points = torch.tensor(column.points, dtype=torch.float32, device="cpu")
    counts = torch.tensor(column.counts, dtype=torch.int64, device="cpu")
    return quantile_edges(points, N_BINS, counts).unique()
