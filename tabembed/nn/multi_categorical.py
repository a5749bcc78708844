"""Embeddings of several categorical columns side by side, one table each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tabembed._checks import (
    check_ids,
    check_integer,
    check_integer_tensor,
    check_last_dim,
    check_real,
    check_seed,
    is_concrete,
)
from tabembed.functional.gather import columns_outside
from tabembed.kernels import gather, gather_columns
from tabembed.nn.draws import generator_of, normal_
from tabembed.nn.dropout import Dropout
from tabembed.nn.entity import check_padding
from tabembed.nn.grow import by_row, grow_rows, start_of
from tabembed.nn.sizes import embedding_dim


class MultiCategoricalEmbedding(nn.Module):
    """Look up one learned vector per categorical column and lay them side by side.

    Args:
        cardinalities: number of ids of each column, reserved ids included.
        embed_dims: width of each column's vectors; ``None`` takes
            ``min(600, round(1.6 · n^0.56))`` for each.
        dropout: share of elements dropped while training.
        padding_idx: id, the same in every column, whose vector is zero and never trained.
        init_std: standard deviation of the first weights.
        names: names of the columns, for messages; ``None`` counts them from 0.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - ids: ``(*, n_columns)``, any integers, ``0 <= ids[..., j] < cardinalities[j]``
        - output: ``(*, output_dim)``, in the dtype of the weights

    Raises: ValueError naming the column for an id out of range on the CPU. Where ids cannot be
        read (compiled, exported, under vmap, on another device) such an id gives zeros.
    Source: Guo & Berkhahn 2016, arXiv:1604.06737.

    >>> embedding = MultiCategoricalEmbedding([50, 7, 12])
    >>> embedding.embedding_dims()
    [(50, 14), (7, 5), (12, 6)]
    >>> embedding(torch.tensor([[49, 6, 0], [3, 2, 11]])).shape
    torch.Size([2, 25])
    """

    def __init__(
        self,
        cardinalities: Sequence[int],
        embed_dims: Sequence[int] | None = None,
        *,
        dropout: float = 0.0,
        padding_idx: int | None = None,
        init_std: float = 0.01,
        names: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> None:
        check_integer(n_columns=len(cardinalities))
        check_integer(**{f"cardinalities[{j}]": n for j, n in enumerate(cardinalities)})
        dims = [embedding_dim(n) for n in cardinalities] if embed_dims is None else list(embed_dims)
        check_integer(**{f"embed_dims[{j}]": d for j, d in enumerate(dims)})
        check_as_many(cardinalities, embed_dims=dims, names=names)
        check_padding(padding_idx, min(cardinalities))
        check_real(init_std=init_std)
        check_seed(seed)
        super().__init__()
        self.cardinalities, self.padding_idx = tuple(cardinalities), padding_idx
        self.names = None if names is None else tuple(names)
        self.init_std, self.seed = init_std, seed
        self.weights = nn.ParameterList(torch.empty(n, d) for n, d in zip(cardinalities, dims, strict=True))
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew; padding rows start at zero."""
        generator = generator_of(self.seed)
        for weight in self.weights:
            normal_(weight, self.init_std, generator)
            if self.padding_idx is not None:
                nn.init.zeros_(weight[self.padding_idx])

    @property
    def output_dim(self) -> int:
        """Width of all columns together."""
        return sum(weight.shape[1] for weight in self.weights)

    def embedding_dims(self) -> list[tuple[int, int]]:
        """Number of ids and width of each column."""
        return [tuple(weight.shape) for weight in self.weights]

    def weight(self, j: int) -> Tensor:
        """Table ``(n_ids, width)`` of column ``j``."""
        return self.weights[j]

    def columns(self, ids: Tensor) -> list[Tensor]:
        """Vectors ``(*, width)`` of every column."""
        vectors = gather_columns(list(self.weights), *self._flat(ids))
        return [self.dropout(one.reshape(*ids.shape[:-1], one.shape[-1])) for one in vectors]

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of the ids, side by side."""
        vectors = gather(list(self.weights), *self._flat(ids))
        return self.dropout(vectors.reshape(*ids.shape[:-1], vectors.shape[-1]))

    def grow(self, cardinalities: Sequence[int], *, like: int | None = None, optimizer: Any = None) -> None:
        """Append ids in place, as ``EntityEmbedding.grow`` does.

        Args:
            cardinalities: number of ids of each column from now on.
            like: id, the same in every column, whose vector the new ones start with; ``None`` takes the mean
                of all but padding.
            optimizer: the optimiser that trains them. Its moments are zero for the new ids.

        Raises: ValueError for fewer ids than there are, and for an optimiser whose state is not kept by row.
        """
        check_as_many(self.cardinalities, cardinalities=cardinalities)
        for j, (old, new) in enumerate(zip(self.cardinalities, cardinalities, strict=True)):
            check_integer(old, **{f"cardinalities[{j}]": new})
        check_padding(like, min(self.cardinalities), name="like")
        for weight in self.weights:  # all of them are found to be right before one is changed
            by_row(weight, optimizer)
        for weight, n_ids in zip(self.weights, cardinalities, strict=True):
            grow_rows(weight, n_ids - len(weight), start_of(weight, like, self.padding_idx), optimizer)
        self.cardinalities = tuple(cardinalities)

    def _flat(self, ids: Tensor) -> tuple[Tensor, list[bool] | None]:
        """Ids ``(n, n_columns)``, −1 for padding, and which columns have an id outside their table.

        Where ids can be read, all are found to be in range but padding; elsewhere nobody has looked.
        """
        check_last_dim(ids, len(self.cardinalities), "ids")
        check_integer_tensor(ids, "ids")
        ids = ids.long().reshape(-1, len(self.cardinalities))
        blank = None if self.padding_idx is None else ids == self.padding_idx
        if not is_concrete(ids):
            return (ids if blank is None else ids.masked_fill(blank, -1)), None
        if any(columns_outside(ids, self.cardinalities)):
            outside = (ids < 0) | (ids >= torch.tensor(self.cardinalities))
            check_ids(outside, ids, self.cardinalities, self.names)
        padded = [False] * len(self.cardinalities) if blank is None else blank.any(0).tolist()
        return (ids if blank is None or not any(padded) else ids.masked_fill(blank, -1)), padded

    def extra_repr(self) -> str:
        """Padding."""
        return f"padding_idx={self.padding_idx}"


def check_as_many(cardinalities: Sequence[int], /, **others: Sequence[object] | None) -> None:
    """Other sequences are as long as ``cardinalities``."""
    for name, other in others.items():
        if other is not None and len(other) != len(cardinalities):
            raise ValueError(
                f"{name} must have {len(cardinalities)} entries, one for each column, got {len(other)}"
            )
