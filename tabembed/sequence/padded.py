"""Sequences side by side, filled up to one length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_choice
from tabembed.batch import Ragged, device_of
from tabembed.schema import FILL

if TYPE_CHECKING:
    from tabembed.sequence.batch import SequenceBatch


@dataclass(frozen=True, eq=False)
class PaddedSequences:
    """Sequences of one length: those of a :class:`SequenceBatch`, or windows of them.

    ``row`` is −1 on padding, which an index would read as the last row: the targets of the real rows, in the
    order of ``x[mask]``, are ``target[part.row[part.mask]]``.

    ``x[mask]`` of something ``(B, S, *)`` has the real rows alone, one sequence after the other, each in the
    order of time: those of ``batch.padded(...)`` in the order in which the batch has them.

    Args:
        rows: the columns, as ``TableBatch.tensors()`` names them; on padding ids 0, values 0, nothing
            missing, and the datetime columns' missing time.
        times: when rows happened, as in the batch; padding repeats the nearest row of the sequence.
        mask: True where there is a row.
        positions: number of the row, counted from 0 at the first row of its line; 0 on padding.
        elapsed: seconds since the first row of the entity; 0 on padding.
        gap: seconds since the row of the entity before, NaN for its first row; 0 on padding.
        row: place in the table that was encoded; −1 on padding.
        entities: whose sequences they are.

    Shape:
        - rows: ``(B, S, n_columns)`` each; cells of lists ``B * S``, one sequence after the other
        - times, positions, row: ``(B, S)`` int64; elapsed, gap: ``(B, S)`` float64; mask: ``(B, S)`` bool
        - entities: ``(B,)`` numpy

    >>> from tabembed.sequence.batch import example
    >>> padded = example().cut(2).padded("left")
    >>> padded.mask.tolist(), padded.positions.tolist()
    ([[True, True], [False, True]], [[0, 1], [0, 0]])
    >>> padded.elapsed[padded.mask].tolist()
    [0.0, 10.0, 20.0]
    >>> target = torch.tensor([3.0, 1.0, 2.0])  # one a row of the table
    >>> target[padded.row[padded.mask]]
    tensor([1., 2., 3.])
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
        device = device_of(*args, **kwargs)
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
    reader = RowReader(batch.cu_seqlens[:-1].long(), n, positions=positions, mask=mask)
    return lay_out(batch, reader, positions, mask, batch.entities)


class Reader(Protocol):
    """Lays out ``(B, S, *)`` what a batch has flat."""

    def dense(self, column: Tensor, fill: Any) -> Tensor:
        """Rows of a tensor; ``fill`` stands on padding, None repeats the nearest row of the sequence."""

    def cells(self, column: Ragged) -> Ragged:
        """Cells of a column of lists, row by row; those on padding are empty."""


class RowReader:
    """Reads row by row.

    Args:
        start: where the sequences begin.
        n: how many rows they have.
        positions: number of every row in its sequence; anything on padding.
        mask: True where there is a row.

    Shape:
        - start, n: ``(B,)`` int64; positions, mask: ``(B, S)``
    """

    def __init__(self, start: Tensor, n: Tensor, *, positions: Tensor, mask: Tensor) -> None:
        nearest = torch.minimum(positions.clamp(min=0), n[:, None] - 1)
        # a sequence without rows has no last one
        self._places = (start[:, None] + nearest).clamp(min=0).flatten()
        self._mask, self._shape = mask.flatten(), mask.shape
        self._padding = ~self._mask

    def dense(self, column: Tensor, fill: Any) -> Tensor:
        """Copy whole rows, which is faster than ``column[places]``, element by element."""
        out = column.index_select(0, self._places)
        if fill is not None:
            out.masked_fill_(self._padding.view(-1, *[1] * (column.ndim - 1)), fill)
        return out.view(*self._shape, *column.shape[1:])

    def cells(self, column: Ragged) -> Ragged:
        """Take the cells of real rows and put empty ones between them."""
        real, n = column.take(self._places[self._mask]), len(self._mask)
        length, missing = column.offsets.new_zeros(n), column.missing.new_zeros(n)
        length[self._mask] = real.offsets.diff()
        missing[self._mask] = real.missing
        return Ragged(real.ids, torch.cat((length.new_zeros(1), length.cumsum(0))), missing)


def lay_out(
    batch: SequenceBatch, reader: Reader, positions: Tensor, mask: Tensor, entities: np.ndarray
) -> PaddedSequences:
    """Every part of a batch, laid out by one reader; ``positions`` may hold anything on padding."""
    columns = batch.rows.tensors()
    rows: dict[str, Any] = {n: reader.dense(columns[n], fill) for n, fill in FILL.items() if n in columns}
    if "lists" in columns:
        rows["lists"] = {name: reader.cells(column) for name, column in columns["lists"].items()}
    return PaddedSequences(
        rows=rows,
        times=reader.dense(batch.times, None),
        mask=mask,
        positions=positions.masked_fill(~mask, 0),
        elapsed=reader.dense(batch.elapsed, 0.0),
        gap=reader.dense(batch.gap, 0.0),
        row=reader.dense(batch.row, -1),
        entities=entities,
    )
