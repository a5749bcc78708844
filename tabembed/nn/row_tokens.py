"""A token for every row: what is known of it, what became of the row before, and when that was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tabembed.nn.draws import generator_of, normal_, split_seed, undrawn_linear, uniform_
from tabembed.nn.gap_features import GapFeatures
from tabembed.nn.row_columns import columns_of
from tabembed.nn.sequence_layout import Layout
from tabembed.nn.table import TableEmbedding
from tabembed.schema import SequenceSchema, TableSchema

EMBEDDING = ("embed_dims", "numeric", "time", "dropout", "unknown_dropout")
"""Arguments of ``TableEmbedding`` that decide how columns become vectors."""


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
        self.known = _half(schema.known, embedding, seeds[0])
        self.after = _half(schema.after, embedding, seeds[1])
        self.first = None if self.after is None else nn.Parameter(torch.empty(self.after.output_dim))
        self.gap = GapFeatures(schema) if timed else None
        width = sum(0 if half is None else half.output_dim for half in (self.known, self.after))
        width += 0 if self.gap is None else self.gap.width
        self.linear = undrawn_linear(max(width, 1), d_model)
        self.seed = seeds[2]
        self._draw()

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
        if self.first is not None:
            normal_(self.first, 0.02, generator)

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
        last, parts = slice(layout.n_places - n_new, None), []
        if self.known is not None:
            known = self.known(**columns_of(rows, self.schema.rows, self.schema.known))
            parts.append(known.unflatten(0, (layout.n_lines, n_new)))
        if observed is not None and self.first is not None:
            parts.append(layout.carried(observed, self.first)[:, last])
        if self.gap is not None:
            parts.append(self.gap(layout)[:, last].to(self.linear.weight.dtype))
        # Without any of these a token is the bias.
        parts = parts or [self.linear.weight.new_zeros(layout.n_lines, n_new, 1)]
        return self.linear(torch.cat(parts, -1))


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
