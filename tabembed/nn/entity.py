"""Entity embedding: one learned vector per category of a column."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tabembed._checks import check_ids, check_integer, check_integer_tensor, check_real, check_seed
from tabembed.functional.gather import look_up
from tabembed.nn.draws import generator_of, normal_
from tabembed.nn.dropout import Dropout
from tabembed.nn.grow import grow_rows, start_of
from tabembed.nn.sizes import embedding_dim


class EntityEmbedding(nn.Module):
    """Look up one learned vector per id of a categorical column.

    Args:
        num_categories: number of ids, reserved ids included.
        embed_dim: width of a vector; ``None`` takes ``min(600, round(1.6 · num_categories^0.56))``.
        dropout: share of elements dropped while training.
        padding_idx: id whose vector is zero and never trained, whatever stands in its row.
        init_std: standard deviation of the first weights.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - ids: ``(*)``, any integers, ``0 <= ids < num_categories``
        - output: ``(*, embed_dim)``, in the dtype of the weight

    Raises: ValueError for an id out of range on the CPU. Where ids cannot be read (compiled,
        exported, under vmap, on another device) such an id gives zeros.
    Source: Guo & Berkhahn 2016, arXiv:1604.06737; size: Howard & Gugger 2020, arXiv:2002.04688.

    >>> EntityEmbedding(50)(torch.tensor([[3, 49], [0, 1]])).shape
    torch.Size([2, 2, 14])
    """

    def __init__(
        self,
        num_categories: int,
        embed_dim: int | None = None,
        *,
        dropout: float = 0.0,
        padding_idx: int | None = None,
        init_std: float = 0.01,
        seed: int | None = None,
    ) -> None:
        check_integer(num_categories=num_categories)
        embed_dim = embedding_dim(num_categories) if embed_dim is None else embed_dim
        check_integer(embed_dim=embed_dim)
        check_padding(padding_idx, num_categories)
        check_real(init_std=init_std)
        check_seed(seed)
        super().__init__()
        self.num_categories, self.embed_dim, self.padding_idx = num_categories, embed_dim, padding_idx
        self.init_std, self.seed = init_std, seed
        self.weight = nn.Parameter(torch.empty(num_categories, embed_dim))
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew; the padding row starts at zero."""
        normal_(self.weight, self.init_std, generator_of(self.seed))
        if self.padding_idx is not None:
            nn.init.zeros_(self.weight[self.padding_idx])

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of the ids."""
        check_integer_tensor(ids, "ids")
        ids = ids.long()
        outside = (ids < 0) | (ids >= self.num_categories)
        check_ids(outside.unsqueeze(-1), ids.unsqueeze(-1), [self.num_categories], None)
        blank = outside if self.padding_idx is None else outside | (ids == self.padding_idx)
        return self.dropout(look_up(ids, self.weight, blank))

    def grow(self, num_categories: int, *, like: int | None = None, optimizer: Any = None) -> None:
        """Append ids in place; the vectors of the others stay, and what an optimiser keeps of them.

        Args:
            num_categories: number of ids from now on.
            like: id whose vector the new ones start with; ``None`` takes the mean of all but padding.
            optimizer: the optimiser that trains it. Its moments are zero for the new ids.

        Raises: ValueError for fewer ids than there are, and for an optimiser whose state is not kept by row.

        >>> embedding = EntityEmbedding(5, seed=0)
        >>> optimizer = torch.optim.AdamW(embedding.parameters())
        >>> embedding.grow(7, like=2, optimizer=optimizer)
        >>> torch.equal(embedding(torch.tensor([5, 6])), embedding(torch.tensor([2, 2])))
        True
        """
        check_integer(self.num_categories, num_categories=num_categories)
        check_padding(like, self.num_categories, name="like")
        vector = start_of(self.weight, like, self.padding_idx)
        grow_rows(self.weight, num_categories - self.num_categories, vector, optimizer)
        self.num_categories = num_categories

    def extra_repr(self) -> str:
        """Sizes and padding."""
        return f"{self.num_categories}, {self.embed_dim}, padding_idx={self.padding_idx}"


def check_padding(padding_idx: int | None, num_categories: int, *, name: str = "padding_idx") -> None:
    """The padding id, or another that is given by name, is one of the ids."""
    if padding_idx is not None:
        check_integer(0, **{name: padding_idx})
        if padding_idx >= num_categories:
            raise ValueError(f"{name} must be below {num_categories}, got {padding_idx}")
