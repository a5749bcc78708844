"""Sequences side by side, filled up to one length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_choice
from tabembed.batch import Ragged
from tabembed.schema import MISSING_TIME, PADDING

if TYPE_CHECKING:
    from tabembed.sequence.batch import SequenceBatch

Read = Callable[[Tensor, Any], Tensor]
"""Lays the rows of a flat tensor out as ``(B, S, *)``; the second argument stands on padding, None repeats
the nearest row of the sequence."""

FILL = {"ids": PADDING, "values": 0.0, "missing": False, "times": MISSING_TIME}


@dataclass(frozen=True, eq=False)
class PaddedSequences:
    """Sequences of one length: those of a :class:`SequenceBatch`, or windows of them.

    ``x[mask]`` of something ``(B, S, *)`` has the real rows alone, one sequence after the other, each in the
    order of time: those of ``batch.padded(...)`` in the order in which the batch has them.

    Args:
        rows: the columns, as ``TableBatch.tensors()`` names them; on padding ids 0, values 0, nothing
            missing, and the datetime columns' missing time.
        times: when rows happened, as in the batch; padding repeats the nearest row of the sequence.
        mask: True where there is a row.
        positions: number of the row in what stands here of its sequence, from 0; 0 on padding.
        elapsed: seconds since the first row of the entity; 0 on padding.
        gap: seconds since the row of the entity before, NaN for its first row; 0 on padding.
        row: place in the table that was encoded, −1 on padding.
        entities: whose sequences they are.

    Shape:
        - rows: ``(B, S, n_columns)`` each; cells of lists ``B * S``, one sequence after the other
        - times, positions, row: ``(B, S)`` int64; elapsed, gap: ``(B, S)`` float64; mask: ``(B, S)`` bool
        - entities: ``(B,)`` numpy
    """

    rows: dict[str, Any]
    times: Tensor
    mask: Tensor
    positions: Tensor
    elapsed: Tensor
    gap: Tensor
    row: Tensor
    entities: np.ndarray

    def __len__(self) -> int:
        return len(self.times)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of sequences and their length, padding included."""
        return self.times.shape[0], self.times.shape[1]

    def __repr__(self) -> str:
        n, length = self.shape
        return f"PaddedSequences({n:,} sequences of length {length:,})"

    def tensors(self) -> dict[str, Any]:
        """A plain dict, the keyword arguments of ``SequenceEmbedding.forward``."""
        return {"rows": self.rows, "times": self.times, "mask": self.mask}

    def to(self, *args: Any, **kwargs: Any) -> PaddedSequences:
        """Move every tensor to a device; dtypes are part of the contract and stay."""
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        non_blocking = bool(kwargs.get("non_blocking", False))
        return self if device is None else self._map(lambda t: t.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> PaddedSequences:
        """Copy every tensor to page-locked memory, from which a GPU reads faster."""
        return self._map(lambda t: t.pin_memory())

    def _map(self, function: Callable[[Tensor], Tensor]) -> PaddedSequences:
        flat = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("rows", "entities")}
        rows: dict[str, Any] = {n: function(column) for n, column in self.rows.items() if n != "lists"}
        if "lists" in self.rows:
            rows["lists"] = {n: Ragged(*map(function, r)) for n, r in self.rows["lists"].items()}
        moved = {name: function(tensor) for name, tensor in flat.items()}
        return PaddedSequences(rows=rows, entities=self.entities, **moved)


def pad(batch: SequenceBatch, side: str) -> PaddedSequences:
    """All sequences of a batch, as long as the longest of them; ``side`` is where padding stands.

    Raises: ValueError for another side than "left" and "right".
    """
    check_choice(("right", "left"), side=side)
    n = batch.lengths
    length = int(n.max()) if len(n) else 0
    before = (length - n if side == "left" else torch.zeros_like(n))[:, None]
    positions = torch.arange(length, device=n.device) - before
    mask = (positions >= 0) & (positions < n[:, None])
    places = nearest(batch, positions, torch.arange(len(n), device=n.device))
    return lay_out(batch, reader(places, mask), places, mask, positions, batch.entities)


def nearest(batch: SequenceBatch, positions: Tensor, sequences: Tensor) -> Tensor:
    """Places of rows by their number in a sequence ``(B, S)``; beyond its ends, of its first or last row."""
    n = batch.lengths[sequences, None]
    places = batch.cu_seqlens[sequences, None] + torch.minimum(positions.clamp(min=0), n - 1)
    return places.clamp(0, max(batch.n_rows - 1, 0))  # a sequence without rows has no last one


def reader(places: Tensor, mask: Tensor) -> Read:
    """Reads row by row."""

    def read(column: Tensor, fill: Any) -> Tensor:
        # index_select copies whole rows; column[places] would walk over every element
        out = column.index_select(0, places.flatten()).view(*places.shape, *column.shape[1:])
        real = mask.view(*mask.shape, *[1] * (column.ndim - 1))
        return out if fill is None else out.masked_fill_(~real, fill)

    return read


def lay_out(
    batch: SequenceBatch, read: Read, places: Tensor, mask: Tensor, positions: Tensor, entities: np.ndarray
) -> PaddedSequences:
    """Every part of a batch, laid out by one reader.

    Args:
        batch: what is read.
        read: how a flat tensor is laid out.
        places: what it reads, for lists of values.
        mask: True where there is a row.
        positions: numbers of rows in their sequences; anything on padding.
        entities: whose sequences they are.

    Shape:
        - places, mask, positions: ``(B, S)``
    """
    columns = batch.rows.tensors()
    rows: dict[str, Any] = {name: read(columns[name], fill) for name, fill in FILL.items() if name in columns}
    if "lists" in columns:
        rows["lists"] = {name: _cells(column, places, mask) for name, column in columns["lists"].items()}
    return PaddedSequences(
        rows=rows,
        times=read(batch.times, None),
        mask=mask,
        positions=positions * mask,
        elapsed=read(batch.elapsed, 0.0),
        gap=read(batch.gap, 0.0),
        row=read(batch.row, -1),
        entities=entities,
    )


def _cells(column: Ragged, places: Tensor, mask: Tensor) -> Ragged:
    """Cells of a column of lists, row by row; those on padding are empty."""
    real = column.take(places[mask])
    length = column.offsets.new_zeros(mask.numel())
    length[mask.flatten()] = real.offsets.diff()
    missing = column.missing.new_zeros(mask.numel())
    missing[mask.flatten()] = real.missing
    return Ragged(real.ids, torch.cat((length.new_zeros(1), length.cumsum(0))), missing)
