"""Embedding of a column with several values in every cell: the mean of their vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabembed._checks import check_ids, check_integer, check_integer_tensor
from tabembed.batch import Ragged
from tabembed.nn.dropout import Dropout
from tabembed.nn.entity import EntityEmbedding, look_up
from tabembed.schema import FIRST_KNOWN, MISSING, PADDING


class ListEmbedding(nn.Module):
    """Average the vectors of the values of every cell.

    A missing cell gives the vector of the missing id, an empty list gives zeros. Padding ids
    count as absent.

    Args:
        num_categories: number of ids, reserved ids included.
        embed_dim: width of a vector; ``None`` as in ``EntityEmbedding``.
        dropout: share of elements dropped while training.
        init_std: standard deviation of the first weights.
        name: name of the column, for messages.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - cells: a ``Ragged`` of ``n_rows`` cells
        - output: ``(n_rows, embed_dim)``, in the dtype of the weight

    Raises: ValueError naming the column for an id out of range on the CPU; elsewhere such an id
        counts as absent. TypeError for ids that are no integers.

    >>> from tabembed.batch import Ragged
    >>> cells = Ragged(torch.tensor([3, 4, 3]), torch.tensor([0, 2, 2, 3]), torch.tensor([False] * 3))
    >>> ListEmbedding(5, embed_dim=2)(cells).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        num_categories: int,
        embed_dim: int | None = None,
        *,
        dropout: float = 0.0,
        init_std: float = 0.01,
        name: str | None = None,
        seed: int | None = None,
    ) -> None:
        check_integer(FIRST_KNOWN, num_categories=num_categories)
        super().__init__()
        self.names = None if name is None else (name,)
        self.values = EntityEmbedding(
            num_categories, embed_dim, padding_idx=PADDING, init_std=init_std, seed=seed
        )
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        self.values.reset_parameters()

    def forward(self, cells: Ragged) -> Tensor:
        """Mean vectors of the cells."""
        check_integer_tensor(cells.ids, "ids")
        ids, weight, n = cells.ids.long(), self.values.weight, self.values.num_categories
        outside = (ids < 0) | (ids >= n)
        check_ids(outside.unsqueeze(-1), ids.unsqueeze(-1), [n], self.names)
        blank = outside | (ids == PADDING)
        rows = look_up(ids, weight, blank)
        mean = mean_of_cells(rows, ~blank, cells.offsets, cells.missing.shape[0])
        return self.dropout(torch.where(cells.missing.unsqueeze(-1), weight[MISSING], mean))


def mean_of_cells(rows: Tensor, counted: Tensor, offsets: Tensor, n_cells: int) -> Tensor:
    """Mean over every cell of the rows that count, zeros for a cell without any, in float32 or wider."""
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    # How many cells end at or before each row: counted and not searched for, as ONNX has no search.
    ends = offsets.new_zeros(rows.shape[0] + 1).index_add(0, offsets[1:], torch.ones_like(offsets[1:]))
    cell = ends.cumsum(0)[:-1]
    total = wide.new_zeros(n_cells, rows.shape[1]).index_add(0, cell, wide)
    count = wide.new_zeros(n_cells).index_add(0, cell, counted.to(wide.dtype))
    return (total / count.clamp(min=1).unsqueeze(-1)).to(rows.dtype)
