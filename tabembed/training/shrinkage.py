"""Rare categories share the unknown category's vector while they are learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from tabembed.nn import TableEmbedding
from tabembed.schema import FIRST_KNOWN, UNKNOWN


class Shrunk(nn.Module):
    """A table in which a category of ``n`` rows is ``n / (n + shrinkage)`` itself, else the unknown category.

    What a network learns of a category of few rows is mostly chance. The unknown category learns in turn what
    rare categories have in common: what is to be expected of one that was never seen.

    Args:
        counts: rows of every id in the training.
        shrinkage: rows that weigh as much as the unknown category; positive.

    Shape:
        - counts: ``(n_ids,)``
        - forward: a table ``(n_ids, width)`` to one of the same shape
    Source: Micci-Barreca 2001, doi:10.1145/507533.507538, which blends means so (m-estimate); here vectors.

    >>> shrink = Shrunk(torch.tensor([0, 0, 0, 30, 10, 0]), 10.0)
    >>> shrink(torch.tensor([[0.0], [0.0], [4.0], [8.0], [8.0], [8.0]])).ravel().tolist()
    [0.0, 0.0, 4.0, 7.0, 6.0, 4.0]
    """

    share: Tensor

    def __init__(self, counts: Tensor, shrinkage: float) -> None:
        super().__init__()
        share = counts / (counts + shrinkage)
        share[:FIRST_KNOWN] = 1.0  # padding, missing and unknown are themselves
        self.register_buffer("share", share[:, None].float())

    def forward(self, table: Tensor) -> Tensor:
        """The table as the network sees it."""
        return table[UNKNOWN].lerp(table, self.share.to(table.dtype))


def shrink_rare(embedding: TableEmbedding, ids: dict[str, Tensor], shrinkage: float) -> None:
    """Let every table of an embedding be a ``Shrunk`` one, until ``make_plain`` is called.

    Args:
        embedding: what is to be trained, in place.
        ids: the ids of the training, by the name of their column.
        shrinkage: as in ``Shrunk``; 0 does nothing.
    """
    for name, (module, tensor) in _tables(embedding).items() if shrinkage else ():
        counts = torch.bincount(ids[name], minlength=len(getattr(module, tensor)))
        parametrize.register_parametrization(module, tensor, Shrunk(counts, shrinkage))


def make_plain(embedding: TableEmbedding) -> None:
    """Make plain tables of shrunk ones: what the network saw."""
    for module, tensor in _tables(embedding).values():
        if parametrize.is_parametrized(module, tensor):
            parametrize.remove_parametrizations(module, tensor)


def _tables(embedding: TableEmbedding) -> dict[str, tuple[nn.Module, str]]:
    """The module of every column's table, and its name there."""
    categorical: nn.Module = embedding.categorical.weights if embedding.categorical else nn.ModuleList()
    tables = {c.name: (categorical, str(j)) for j, c in enumerate(embedding.schema.categorical)}
    lists = zip(embedding.schema.lists, embedding.lists, strict=True)
    return tables | {column.name: (module.values, "weight") for column, module in lists}
