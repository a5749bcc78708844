"""What a trained network makes of the rows of a table."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tabembed._checks import check_choice
from tabembed._progress import tracked
from tabembed.batch import TableBatch
from tabembed.training.network import TableNetwork

CHUNK = 65_536
"""Rows that are embedded at a time."""
OUTPUTS = ("columns", "row", "both")


def check_output(output: str) -> None:
    """Check the name of what a network gives."""
    check_choice(OUTPUTS, output=output)


@torch.no_grad()
def vectors(network: TableNetwork, batch: TableBatch, output: str, *, verbose: int = 0) -> np.ndarray:
    """What a trained network makes of rows, on the CPU.

    Args:
        network: a network in evaluation mode.
        batch: the rows.
        output: ``"columns"``, ``"row"``, or ``"both"``: columns, then row.
        verbose: 1 shows a progress bar where there are more rows than are embedded at a time.

    Shape:
        - output: ``(n_rows, n_vectors)`` float32

    Raises: ValueError when ``output`` is none of the three.
    """
    check_output(output)
    network = _in_float64(network)
    methods = [network.columns, network.row] if output == "both" else [getattr(network, output)]
    device = network.head.weight.device
    parts = (part.to(device).tensors() for part in batch.batches(CHUNK)) if len(batch) else (batch.tensors(),)
    shown = tracked(parts, "vectors", -(-len(batch) // CHUNK), verbose if len(batch) > CHUNK else 0)
    return torch.cat([torch.cat([m(**part) for m in methods], -1).cpu() for part in shown]).numpy()


def aligned_parts(network: TableNetwork, output: str) -> list[slice]:
    """Entries that have coordinates of their own: those of each column of categories or lists, and a row's.

    Args:
        network: whose vectors they are.
        output: as in ``vectors``.
    """
    widths = network.column_widths() if output != "row" else {}
    ends = dict(zip(widths, np.cumsum(list(widths.values())).tolist(), strict=True))
    learned = (*network.schema.categorical, *network.schema.lists) if widths else ()
    parts = [slice(ends[column.name] - widths[column.name], ends[column.name]) for column in learned]
    start = sum(widths.values())
    return parts if output == "columns" else [*parts, slice(start, start + network.row_dim)]


class _InFloat64(nn.Module):
    """A module of numbers or times in float64: in float32 a matrix product rounds a row otherwise when
    other rows stand beside it."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module, self.d_embedding = copy.deepcopy(module).double(), module.d_embedding

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        """What the module makes of the same in float64."""
        return self.module(x.double() if x.is_floating_point() else x, *others)


def _in_float64(network: TableNetwork) -> TableNetwork:
    """The same network, its numbers and times embedded in float64; all else is shared.

    A module that is not made of tabembed's and PyTorch's may not take float64: it is left as it is.
    """
    twin, embedding = copy.copy(network), copy.copy(network.embedding)
    twin._modules, embedding._modules = network._modules.copy(), embedding._modules.copy()
    for name in ("numeric", "time"):
        module = getattr(embedding, name)
        if module is not None and all(_known(part) for part in module.modules()):
            setattr(embedding, name, _InFloat64(module))
    twin.embedding = embedding
    return twin


def _known(module: nn.Module) -> bool:
    return type(module).__module__.partition(".")[0] in ("tabembed", "torch")
