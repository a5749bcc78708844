"""The network that is trained without a target, and what it makes of a row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed.batch import TableBatch
from tabembed.nn.draws import undrawn_linear
from tabembed.schema import TableSchema
from tabembed.training.cell_codes import CellCodes
from tabembed.training.masked_examples import MaskedExamples
from tabembed.training.network import TableNetwork

LEARNED = 0.3
"""How far rows lie apart by what is learned, relative to how far by their cells' codes."""
N_COMPONENTS = 64
"""Width of a row's vector. The first entries tell most: a narrower one is a part of it."""
NOTHING = 1e-9
"""Variance of a component, relative to the first, that counts as none."""
ROWS, CHUNK = 50_000, 4096
"""Rows that principal components are found from, at most, and rows whose parts are laid out at a time."""


class MaskedNetwork(TableNetwork):
    """A network of a table that learns to predict hidden cells from the others.

    A row's vector has two sources: the code of its cells, from which a model may read every cell, and the
    last hidden layer, in which rows are alike whose cells let expect the same. ``settle`` finds the principal
    components of both side by side; the vector is the row's place along them.

    ``of`` makes one.

    Shape:
        - forward: the tensors of a batch to ``(n_rows, n_outputs)``
        - row: the same to ``(n_rows, 64)``, zeros where there are not so many components
    """

    codes: CellCodes
    components: nn.Linear

    @classmethod
    def of(cls, schema: TableSchema, **own: Any) -> MaskedNetwork:
        """One that is not settled yet.

        Args:
            schema: the columns.
            own: all else that ``TableNetwork`` takes.
        """
        network = cls(schema, **own)
        network.codes = CellCodes(schema)
        n_parts, network.row_dim = sum(network.codes.widths) + network.row_dim, N_COMPONENTS
        network.components = undrawn_linear(n_parts, N_COMPONENTS)
        nn.init.zeros_(network.components.weight)
        nn.init.zeros_(network.components.bias)
        return network

    def examples(self, batch: TableBatch, target: Tensor) -> MaskedExamples:
        """Rows with hidden cells."""
        return MaskedExamples(batch, target)

    def row(self, **tensors: Any) -> Tensor:
        """One vector a row: its place along the principal components of codes and last hidden layer."""
        weight, bias = self.components.weight.double(), self.components.bias.double()
        return F.linear(self._parts(**tensors), weight, bias).float()

    @torch.no_grad()
    def settle(self, batch: TableBatch) -> None:
        """Find the principal components of the rows that the network was trained on.

        A number, its code and a time each vary by 1 in all before they are compared with others; a category,
        by as much as its values are mixed.

        Args:
            batch: these rows.
        """
        step = -(-len(batch) // ROWS)
        rows = batch[::step].to(self.head.weight.device)
        n_parts, n_codes = self.components.in_features, sum(self.codes.widths)
        total = torch.zeros(n_parts, dtype=torch.float64, device=self.head.weight.device)
        gram = total.new_zeros(n_parts, n_parts)
        for chunk in rows.batches(CHUNK):
            parts = self._parts(**chunk.tensors())
            total += parts.sum(0)
            gram.addmm_(parts.T, parts)
        mean = total / len(rows)
        covariance = gram / len(rows) - mean.outer(mean)
        scale = self._scale(covariance.diagonal().clamp(min=0), n_codes)
        scaled = covariance * scale.outer(scale)
        spread, axes = (part.flip(-1)[..., : self.row_dim] for part in torch.linalg.eigh(scaled))
        # An axis along which rows differ by rounding alone is none; which way one points is a convention.
        found = axes.T * (spread > NOTHING * spread[0])[:, None]
        found = found * found.gather(1, found.abs().argmax(1, keepdim=True)).sign()
        self.components.weight[: len(found)] = found * scale
        self.components.bias.copy_(-(self.components.weight.double() @ mean))

    def _scale(self, variances: Tensor, n_codes: int) -> Tensor:
        """What every part is multiplied by."""
        scales = []
        for i, part in enumerate(variances[:n_codes].split(self.codes.widths)):
            category = i < len(self.codes.n_ids)
            scales.append(torch.ones_like(part) if category else _unit(part.sum()).expand_as(part))
        codes = torch.cat(scales)
        spread = (variances[:n_codes] * codes**2).sum()
        learned = LEARNED * spread.sqrt() * _unit(variances[n_codes:].sum())
        return torch.cat([codes, learned.expand(len(variances) - n_codes)])

    def _parts(self, **tensors: Any) -> Tensor:
        return torch.cat([self.codes(**tensors), super().row(**tensors).double()], -1)


def table_network(schema: TableSchema, *, masked: bool = False, **own: Any) -> TableNetwork:
    """A network of a table, as it was built: with a target, or without.

    Args:
        schema: the columns.
        masked: whether it is a ``MaskedNetwork``.
        own: what either takes.
    """
    return MaskedNetwork.of(schema, **own) if masked else TableNetwork(schema, **own)


def _unit(variance: Tensor) -> Tensor:
    """What makes a variance 1; 0 for none."""
    return torch.where(variance > 1e-12, variance, torch.inf).rsqrt()
