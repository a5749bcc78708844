"""Sequences as jagged tensors of torch.nested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tabembed.sequence.batch import SequenceBatch


def nest(batch: SequenceBatch) -> dict[str, Any]:
    """Every part of a batch as a jagged tensor ``(n_sequences, rows of each, *)``, all of one shape."""
    lengths = batch.lengths
    bounds: dict[str, Any] = {}
    if len(batch):
        bounds = {"min_seqlen": int(lengths.min()), "max_seqlen": int(lengths.max())}
    offsets = batch.cu_seqlens.long()  # one tensor for all: torch takes shapes for equal by its identity

    def jagged(column: Tensor) -> Tensor:
        return torch.nested.nested_tensor_from_jagged(column, offsets, **bounds)

    columns = batch.rows.tensors()
    rows = {name: jagged(column) for name, column in columns.items() if name != "lists"}
    parts = {name: jagged(getattr(batch, name)) for name in ("times", "elapsed", "gap", "row")}
    return {"rows": rows | {name: columns[name] for name in columns if name == "lists"}, **parts}
