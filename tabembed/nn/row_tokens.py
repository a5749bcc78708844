"""A token for every row: what is known of it, what became of the row before, and when that was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tabembed.nn.draws import generator_of, split_seed, undrawn_linear, uniform_
from tabembed.nn.row_columns import columns_of
from tabembed.nn.sequence_layout import Layout
from tabembed.nn.table import TableEmbedding
from tabembed.nn.token_parts import CarriedColumns, GapBefore, KnownColumns, NothingKnown
from tabembed.schema import SequenceSchema, TableSchema

EMBEDDING = ("embed_dims", "numeric", "time", "dropout", "unknown_dropout")
"""Arguments of ``TableEmbedding`` that decide how columns become vectors."""

LARGEST = 1e4
"""Largest number of a token."""


class RowTokens(nn.Module):
    """Turn the rows of sequences into tokens, none of which knows what its own row led to.

    Args:
        schema: what a fitted encoder knows.
        d_model: width of a token.
        timed: tell every token how long ago the row before was.
        embedding: arguments of ``TableEmbedding``.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - observed: rows to ``(n_lines, n_places, dim)``
        - forward: ``(n_lines, n_places, d_model)``

    Raises: ValueError for other arguments of ``TableEmbedding``.
    """

    def __init__(
        self,
        schema: SequenceSchema,
        d_model: int,
        *,
        timed: bool,
        embedding: Mapping[str, Any],
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.schema = schema
        _check_embedding(embedding, schema.rows)
        seeds = split_seed(seed, 3)
        known = _half(schema.known, embedding, seeds[0])
        self.after = _half(schema.after, embedding, seeds[1])
        parts = {
            "known": None if known is None else KnownColumns(schema, known),
            "carried": None if self.after is None else CarriedColumns(self.after.output_dim),
            "gap": GapBefore(schema) if timed else None,
        }
        there: dict[str, Any] = {name: part for name, part in parts.items() if part is not None}
        self.parts: Any = nn.ModuleDict(there or {"nothing": NothingKnown()})
        width = sum(part.width for part in there.values()) or NothingKnown.width
        self.linear = undrawn_linear(width, d_model)
        self.seed = seeds[2]
        self._draw()

    @property
    def known(self) -> TableEmbedding | None:
        """The embedding of the columns that are known when a row happens."""
        return self.parts["known"].embedding if "known" in self.parts else None

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        for half in (self.known, self.after):
            if half is not None:
                half.reset_parameters()
        self._draw()

    def _draw(self) -> None:
        """First weights of what is behind the columns."""
        generator = generator_of(self.seed)
        for weight in (self.linear.weight, self.linear.bias):
            uniform_(weight, self.linear.in_features**-0.5, generator)
        for part in self.parts.values():
            part.draw(generator)

    def use_schema(self, schema: SequenceSchema) -> None:
        """Know the columns by a schema with more ids."""
        for part in (self, *self.parts.values()):
            if hasattr(part, "schema"):
                part.schema = schema

    def observed(self, rows: Mapping[str, Any], layout: Layout) -> Tensor | None:
        """Vectors of what every row led to; ``None`` where no column is observed."""
        if self.after is None:
            return None
        columns = columns_of(rows, self.schema.rows, self.schema.after)
        return self.after(**columns).unflatten(0, layout.real.shape)

    def forward(self, rows: Mapping[str, Any], observed: Tensor | None, layout: Layout, n_new: int) -> Tensor:
        """Tokens of the last places of every line.

        Args:
            rows: tensors of their rows, one after the other.
            observed: what the rows of all places led to.
            layout: where all rows stand.
            n_new: number of places that are the last.
        """
        parts = [part(rows, observed, layout, n_new) for part in self.parts.values()]
        dtype = self.linear.weight.dtype
        whole = torch.cat([part.to(dtype) for part in parts], -1)
        return bounded(self.linear(bounded(whole)))


def bounded(x: Tensor) -> Tensor:
    """Numbers from −10,000 to 10,000, and 0 for what is none.

    Attention multiplies what a row must not see by 0, and 0 times infinity is no number: one cell that is too
    large would reach every row before its own. Half precision holds these.

    >>> bounded(torch.tensor([1.5, -3e38, torch.inf, torch.nan])).tolist()
    [1.5, -10000.0, 10000.0, 0.0]
    """
    return x.nan_to_num(nan=0.0).clamp(-LARGEST, LARGEST)


def _half(part: TableSchema, embedding: Mapping[str, Any], seed: int | None) -> TableEmbedding | None:
    """The embedding of some columns, with the widths that are theirs; ``None`` without columns."""
    if not part.columns:
        return None
    dims = embedding.get("embed_dims", "auto")
    if isinstance(dims, Mapping):
        names = {column.name for column in part.columns}
        dims = {name: dim for name, dim in dims.items() if name in names}
    return TableEmbedding(part, **{**embedding, "embed_dims": dims}, seed=seed)


def _check_embedding(embedding: Mapping[str, Any], schema: TableSchema) -> None:
    if not isinstance(embedding, Mapping):
        raise TypeError(f"embedding must be a dict of arguments, got {type(embedding).__name__}")
    for name in embedding:
        if name not in EMBEDDING:
            raise ValueError(f"embedding must name arguments {', '.join(EMBEDDING)}, got {name!r}")
    dims = embedding.get("embed_dims")
    for name in dims if isinstance(dims, Mapping) else ():
        tables = [column.name for column in (*schema.categorical, *schema.lists)]
        if name not in tables:
            raise ValueError(f"embed_dims must name categorical or list columns {tables}, got {name!r}")
