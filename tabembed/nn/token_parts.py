"""What the token of a row is made of, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tabembed.nn.draws import normal_
from tabembed.nn.gap_features import GapFeatures
from tabembed.nn.row_columns import columns_of
from tabembed.nn.sequence_layout import Layout
from tabembed.nn.table import TableEmbedding
from tabembed.schema import SequenceSchema


class TokenPart(nn.Module):
    """Some of the numbers of a token.

    Shape:
        - observed: ``(n_lines, n_places, dim)``
        - output: ``(n_lines, n_new, width)``, of the last places
    """

    width: int

    def draw(self, generator: torch.Generator | None) -> None:
        """Draw anew what is learned here and is no embedding of columns."""

    def forward(self, rows: Mapping[str, Any], observed: Any, layout: Layout, n_new: int) -> Tensor:
        """Numbers of the last places of every line.

        Args:
            rows: tensors of their rows, one after the other.
            observed: what the rows of all places led to; ``None`` where no column is observed.
            layout: where all rows stand.
            n_new: number of places that are the last.
        """
        raise NotImplementedError


class KnownColumns(TokenPart):
    """The columns that are known when a row happens."""

    def __init__(self, schema: SequenceSchema, embedding: TableEmbedding) -> None:
        super().__init__()
        self.schema, self.embedding, self.width = schema, embedding, embedding.output_dim

    def forward(self, rows: Mapping[str, Any], observed: Any, layout: Layout, n_new: int) -> Tensor:
        """Vectors of the row's own columns."""
        vectors: Tensor = self.embedding(**columns_of(rows, self.schema.rows, self.schema.known))
        return vectors.unflatten(0, (layout.n_lines, n_new))


class CarriedColumns(TokenPart):
    """The observed columns of the row before; a learned vector for a first row."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.first = width, nn.Parameter(torch.empty(width))

    def draw(self, generator: torch.Generator | None) -> None:
        """Draw the vector of first rows."""
        normal_(self.first, 0.02, generator)

    def forward(self, rows: Mapping[str, Any], observed: Any, layout: Layout, n_new: int) -> Tensor:
        """Vectors of what the row before led to."""
        return layout.carried(observed, self.first)[:, layout.n_places - n_new :]


class GapBefore(TokenPart):
    """The time since the row before."""

    def __init__(self, schema: SequenceSchema) -> None:
        super().__init__()
        self.features = GapFeatures(schema)
        self.width = self.features.width

    def forward(self, rows: Mapping[str, Any], observed: Any, layout: Layout, n_new: int) -> Tensor:
        """Numbers of the gap."""
        numbers: Tensor = self.features(layout)
        return numbers[:, layout.n_places - n_new :]


class NothingKnown(TokenPart):
    """A zero, where a row has no columns and no time."""

    width = 1

    def forward(self, rows: Mapping[str, Any], observed: Any, layout: Layout, n_new: int) -> Tensor:
        """Zeros."""
        return torch.zeros(layout.n_lines, n_new, 1, device=layout.times.device)
