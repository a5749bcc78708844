"""Learned positions: one vector per row number, added to what stands there."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabembed._checks import check_integer, check_real, check_seed, is_concrete
from tabembed.nn.draws import generator_of, normal_
from tabembed.nn.dropout import Dropout
from tabembed.nn.entity import check_padding, look_up
from tabembed.nn.heads import as_heads, held_for, shaped_as
from tabembed.nn.positions import check_row_numbers, resolve_rows


class LearnedPositionalEmbedding(nn.Module):
    """Add one learned vector per position.

    Args:
        num_positions: number of positions, from 0 on.
        dim: width of a vector.
        dropout: share of elements of the sum that are dropped while training.
        padding_idx: position that adds nothing and is never trained, whatever stands in its row. With 0 here
            count real rows from 1, as in the second example: ``row_positions`` gives 0 to the first row, too.
        init_std: standard deviation of the first weights.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - x: ``(n_steps, dim)`` or ``(n_sequences, *, n_steps, dim)``
        - positions: ``(n_steps,)`` or ``(n_sequences, n_steps)``, any integers
        - output: shape and dtype of ``x``

    Raises: TypeError for positions that are no integers. ValueError for tensors on two devices and, on the
        CPU, a position that is not in the table. Where positions cannot be read (compiled, exported, under
        vmap, on another device) it adds nothing.

    Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1.

    >>> LearnedPositionalEmbedding(128, 4)(torch.zeros(2, 3, 4), offset=torch.tensor([0, 90])).shape
    torch.Size([2, 3, 4])

    >>> from tabembed.functional.position import row_positions
    >>> mask = torch.tensor([[False, True, True], [True, True, True]])
    >>> positions = torch.where(mask, row_positions(mask) + 1, 0)
    >>> positions.tolist()
    [[0, 1, 2], [1, 2, 3]]
    >>> LearnedPositionalEmbedding(128, 4, padding_idx=0)(torch.zeros(2, 3, 4), positions=positions)[0, 0]
    tensor([0., 0., 0., 0.], grad_fn=<SelectBackward0>)
    """

    def __init__(
        self,
        num_positions: int,
        dim: int,
        *,
        dropout: float = 0.0,
        padding_idx: int | None = None,
        init_std: float = 0.02,
        seed: int | None = None,
    ) -> None:
        check_integer(num_positions=num_positions, dim=dim)
        check_padding(padding_idx, num_positions)
        check_real(init_std=init_std)
        check_seed(seed)
        super().__init__()
        self.num_positions, self.dim = int(num_positions), int(dim)
        self.padding_idx = None if padding_idx is None else int(padding_idx)
        self.init_std, self.seed = init_std, seed
        self.weight = nn.Parameter(torch.empty(self.num_positions, self.dim))
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew; the padding row starts at zero."""
        normal_(self.weight, self.init_std, generator_of(self.seed))
        if self.padding_idx is not None:
            nn.init.zeros_(self.weight[self.padding_idx])

    def forward(self, x: Tensor, *, positions: Tensor | None = None, offset: Tensor | int = 0) -> Tensor:
        """Rows with the vectors of their positions added.

        Args:
            x: the rows.
            positions: row numbers; ``None`` counts from ``offset``.
            offset: row number of the first step, one or one for each sequence.
        """
        check_row_numbers(positions, "positions")
        rows = as_heads(x, self.dim)
        vectors = self.rows_at(resolve_rows(rows, positions, offset))
        return self.dropout(shaped_as(x, (rows + vectors.unsqueeze(1)).to(x.dtype)))

    def rows_at(self, positions: Tensor) -> Tensor:
        """The vectors of some positions: ``(*)`` int64 to ``(*, dim)``; zeros where there is none."""
        outside = (positions < 0) | (positions >= self.num_positions)
        if is_concrete(outside) and outside.any():
            got, last = int(positions[outside][0]), self.num_positions - 1
            raise ValueError(f"positions must be from 0 to {last} in a table of {last + 1}, got {got}")
        blank = outside if self.padding_idx is None else outside | (positions == self.padding_idx)
        return look_up(positions, held_for(positions, self, self.weight), blank)

    def extra_repr(self) -> str:
        """Sizes and padding."""
        return f"{self.num_positions}, {self.dim}, padding_idx={self.padding_idx}"
