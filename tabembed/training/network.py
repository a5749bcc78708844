"""The network behind an embedder: a table's embedding, hidden layers, and a head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed._checks import check_integer, check_real
from tabembed.batch import TableBatch
from tabembed.functional.position import centred
from tabembed.nn import TableEmbedding
from tabembed.nn.draws import undrawn_linear, uniform_
from tabembed.nn.dropout import Dropout
from tabembed.schema import MISSING, UNKNOWN, TableSchema
from tabembed.training.examples import Examples, TableExamples
from tabembed.training.shrinkage import make_plain, shrink_rare

MAKERS = ("numeric", "time")
"""Arguments of ``TableEmbedding`` that make a module of some columns."""


class Hidden(nn.Module):
    """One hidden layer: linear, SiLU, dropout; evaluated in float64, so that a row's vector does
    not depend on the rows beside it.

    Shape:
        - input: ``(n_rows, n_inputs)``
        - output: ``(n_rows, n_outputs)``
    """

    def __init__(self, n_inputs: int, n_outputs: int, dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        self.linear = _linear(n_inputs, n_outputs, generator)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        if self.training:
            return self.dropout(F.silu(self.linear(x)))
        return F.silu(F.linear(x.double(), self.linear.weight.double(), self.linear.bias.double()))


class Network(nn.Module):
    """What the loop trains: it predicts a target from the tensors of a batch."""

    def examples(self, batch: Any, target: Tensor) -> Examples:
        """What a training draws from: the rows of a table, unless a network says otherwise."""
        return TableExamples(batch, target)

    @property
    def numeric(self) -> Any:
        """The module of the continuous columns that may fit itself to the rows, if there is one."""
        return None

    def numbers(self, rows: TableBatch) -> tuple[Tensor, Tensor]:
        """Values and missing flags that this module gets of some rows."""
        return rows.values, rows.missing

    def param_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """Parameter groups for an optimiser."""
        raise NotImplementedError

    def shrink_rare(self, training: Any) -> None:
        """Let ids of which a batch of ``training`` has few rows share a vector, until ``forget_unseen``."""

    def forget_unseen(self, training: Any) -> None:
        """Take back what a batch of ``training`` has not taught: nothing, where there are no ids."""


class TableNetwork(Network):
    """Embed a table's columns, mix them in hidden layers, and predict a target.

    Args:
        schema: the columns.
        n_outputs: width of the prediction.
        hidden_layer_sizes: widths of the hidden layers; the last one is the width of a row's
            vector.
        dropout: share of hidden units that is dropped in training.
        unknown_dropout: share of ids that is replaced by the unknown id in training.
        shrinkage: rows that weigh as much as the unknown category in a category's vector while it is
            learned; 0 leaves every category to itself.
        embedding: ``embed_dims``, ``numeric`` and ``time`` of ``TableEmbedding``.
        seed: every initial weight follows from it.

    Shape:
        - forward: the tensors of a batch to ``(n_rows, n_outputs)``
        - row: the same to ``(n_rows, hidden_layer_sizes[-1])``
        - columns: the same to ``(n_rows, len(column_names()))``
    """

    def __init__(
        self,
        schema: TableSchema,
        n_outputs: int,
        *,
        hidden_layer_sizes: Sequence[int] = (128, 64),
        dropout: float = 0.0,
        unknown_dropout: float = 0.0,
        shrinkage: float = 0.0,
        embedding: Mapping[str, Any] = MappingProxyType({}),
        seed: int = 0,
    ) -> None:
        if not isinstance(hidden_layer_sizes, Sequence) or isinstance(hidden_layer_sizes, str):
            raise TypeError(f"hidden_layer_sizes must be a sequence of widths, got {hidden_layer_sizes!r}")
        check_integer(**{f"hidden_layer_sizes[{i}]": size for i, size in enumerate(hidden_layer_sizes)})
        check_real(shrinkage=shrinkage)
        super().__init__()
        self.schema, self.shrinkage = schema, shrinkage
        self.embedding = TableEmbedding(schema, **embedding, unknown_dropout=unknown_dropout, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        sizes = [self.embedding.output_dim, *hidden_layer_sizes]
        layers = [Hidden(a, b, dropout, generator) for a, b in zip(sizes, sizes[1:], strict=False)]
        self.hidden = nn.Sequential(*layers)
        self.head = _linear(sizes[-1], n_outputs, generator)
        self.row_dim = sizes[-1]
        # A head of zeros starts every training from the same prediction, whatever the first draw.
        nn.init.zeros_(self.head.weight)

    def forward(self, **tensors: Any) -> Tensor:
        """Predict the target of every row."""
        return self.head(self.hidden(self.embedding(**tensors)).to(self.head.weight.dtype))

    def row(self, **tensors: Any) -> Tensor:
        """One vector a row: what the last hidden layer makes of all columns."""
        return self.hidden(self.embedding(**tensors)).float()

    def columns(self, **tensors: Any) -> Tensor:
        """Every column's own vector or number, side by side in the order of the table.

        A time runs from −1 (earliest of the fit) to 1 (latest); a missing number or time is 0.
        """
        vectors = self.embedding.by_column(**tensors) if self._dims() else {}
        numbers = {c.name: tensors["values"][..., i] for i, c in enumerate(self.schema.continuous)}
        if columns := self.schema.datetime:
            ends = [c.minimum for c in columns], [c.maximum for c in columns]
            places = centred(tensors["times"], *ends, 0.0)
            numbers |= {c.name: places[..., i] for i, c in enumerate(columns)}
        parts = [
            numbers[column.name][..., None] if column.name in numbers else vectors[column.name]
            for column in self.schema.columns
        ]
        return torch.cat(parts, dim=-1).float()

    def column_names(self) -> list[str]:
        """A name for every entry of ``columns``: numbers keep theirs, vectors get ``_e0``, …"""
        dims = self._dims()
        taken = {column.name for column in self.schema.columns}
        names = []
        for column in self.schema.columns:
            if column.name not in dims:
                names.append(column.name)
            for i in range(dims.get(column.name, 0)):
                name = f"{column.name}_e{i}"
                while name in taken:
                    name += "_"
                taken.add(name)
                names.append(name)
        return names

    def column_widths(self) -> dict[str, int]:
        """How many entries of ``columns`` belong to every column."""
        dims = self._dims()
        return {column.name: dims.get(column.name, 1) for column in self.schema.columns}

    @property
    def numeric(self) -> Any:
        """The module of the continuous columns."""
        return self.embedding.numeric

    def param_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """Parameter groups for an optimiser: the embedding's own, and everything behind it."""
        dense = [p for part in (self.hidden, self.head) for p in part.parameters()]
        own = self.embedding.param_groups(learning_rate, weight_decay)
        return [*own, {"params": dense, "lr": learning_rate, "weight_decay": weight_decay}]

    def shrink_rare(self, training: TableBatch) -> None:
        """Let a category of ``n`` rows of ``training`` be ``n / (n + shrinkage)`` itself, else unknown."""
        shrink_rare(self.embedding, ids_by_column(self.schema, training), self.shrinkage)

    def forget_unseen(self, training: TableBatch) -> None:
        """Make plain tables of shrunk ones; give ids that no row of ``training`` has the unknown vector."""
        make_plain(self.embedding)
        forget_unseen(ids_by_column(self.schema, training), self.embedding.weight)

    def _dims(self) -> dict[str, int]:
        dims = self.embedding.embedding_dims()
        return {c.name: dims[c.name] for c in (*self.schema.categorical, *self.schema.lists)}


@torch.no_grad()
def forget_unseen(seen: Mapping[str, Tensor], weight: Callable[[str], Tensor]) -> None:
    """Give every id that a training has not seen the vector of the unknown id.

    Args:
        seen: ids that it has seen, by the name of their column.
        weight: the table of a column, by its name.
    """
    for name, ids in seen.items():
        table = weight(name)
        unseen = torch.bincount(ids, minlength=len(table)) == 0
        unseen[:MISSING] = unseen[UNKNOWN] = False
        table[unseen] = table[UNKNOWN].clone()


def ids_by_column(schema: TableSchema, rows: TableBatch) -> dict[str, Tensor]:
    """All ids of some rows, by the name of their column."""
    ids = dict(zip([c.name for c in schema.categorical], rows.ids.unbind(1), strict=True))
    return ids | {name: ragged.ids for name, ragged in rows.lists.items()}


def _linear(n_inputs: int, n_outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with PyTorch's usual initial weights, drawn from ``generator``; no bias yet."""
    layer = undrawn_linear(n_inputs, n_outputs)
    uniform_(layer.weight, max(n_inputs, 1) ** -0.5, generator)
    nn.init.zeros_(layer.bias)
    return layer
