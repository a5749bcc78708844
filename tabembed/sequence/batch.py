"""Tensors of sequences: the rows of every entity in time order, one entity after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabembed.batch import Index, TableBatch, places_of


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """The rows of some entities, sorted by time, without padding.

    Sequence ``i`` owns the rows from ``cu_seqlens[i]`` to ``cu_seqlens[i + 1]``. ``len`` is the number of
    sequences, and an index picks sequences.

    Args:
        rows: the columns of every row; observed ones are those of the row itself.
        cu_seqlens: where sequences begin and end.
        entities: whose sequences they are, one key each.
        times: when rows happened: nanoseconds since 1970-01-01 UTC; of a numeric clock, since its 0.
        elapsed: seconds since the first row of the entity.
        gap: seconds since the row of the entity before; NaN for its first row.
        row: place of every row in the table that was encoded.
        n_input: number of rows of that table, those included that are not here.
        merged: places of rows that were merged into another, and of the row that stands for them.

    Shape:
        - cu_seqlens: ``(n_sequences + 1,)`` int32, from 0 to ``n_rows``
        - entities: ``(n_sequences,)`` numpy
        - times, row: ``(n_rows,)`` int64; elapsed, gap: ``(n_rows,)`` float64
        - merged: ``(n_merged, 2)`` int64

    Raises: ValueError when the parts do not fit together.
    """

    rows: TableBatch
    cu_seqlens: Tensor
    entities: np.ndarray
    times: Tensor
    elapsed: Tensor
    gap: Tensor
    row: Tensor
    n_input: int
    merged: Tensor = field(default_factory=lambda: torch.zeros(0, 2, dtype=torch.int64))

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in ("rows", "times", "elapsed", "gap", "row")}
        lengths["cu_seqlens[-1]"] = int(self.cu_seqlens[-1])
        if len(set(lengths.values())) > 1:
            raise ValueError(f"SequenceBatch must have equally many rows everywhere, got {lengths}")
        if len(self.entities) != len(self):
            raise ValueError(f"entities must be {len(self)}, one a sequence, got {len(self.entities)}")

    def __len__(self) -> int:
        return len(self.cu_seqlens) - 1

    @property
    def n_rows(self) -> int:
        """Number of rows of all sequences."""
        return len(self.times)

    @property
    def lengths(self) -> Tensor:
        """Number of rows of every sequence, ``(n_sequences,)`` int64."""
        return self.cu_seqlens.diff().long()

    def __getitem__(self, index: Index) -> SequenceBatch:
        """Sequences by a slice, a boolean mask, or int64 numbers; always a batch."""
        if isinstance(index, int):
            raise TypeError(f"SequenceBatch must be indexed by a slice, a mask or numbers, got {index}")
        if not isinstance(index, slice):
            index = torch.as_tensor(index, device=self.times.device)
            index = index.long() if index.numel() == 0 and index.dtype != torch.bool else index
        chosen = torch.arange(len(self), device=self.times.device)[index]
        places, cu_seqlens = places_of(self.cu_seqlens, chosen)
        return self.at(places, cu_seqlens, self.entities[chosen.cpu().numpy()])

    def at(self, places: Tensor, cu_seqlens: Tensor, entities: np.ndarray) -> SequenceBatch:
        """Rows of the batch at some places, as sequences of their own."""
        flat = {name: getattr(self, name)[places] for name in ("times", "elapsed", "gap", "row")}
        return replace(self, rows=self.rows[places], cu_seqlens=cu_seqlens, entities=entities, **flat)

    def to(self, *args: Any, **kwargs: Any) -> SequenceBatch:
        """Move every tensor to a device; dtypes stay."""
        moved = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("entities", "n_input")}
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        if device is None:
            return self
        return replace(self, **{name: part.to(*args, **kwargs) for name, part in moved.items()})

    def tensors(self) -> dict[str, Any]:
        """A plain dict, the keyword arguments of ``SequenceEmbedding.forward``."""
        return {"rows": self.rows.tensors(), "times": self.times, "cu_seqlens": self.cu_seqlens}

    def to_input_order(self, vectors: Tensor) -> Tensor:
        """Put something of every row back on the rows of the table that was encoded.

        Args:
            vectors: floats of every row.

        Shape:
            - vectors: ``(n_rows, *)``
            - output: ``(n_input, *)``; NaN for rows of the table that are not here

        >>> from tabembed.sequence.batch import example
        >>> example().to_input_order(torch.tensor([10.0, 20.0, 30.0]))
        tensor([30., 10., 20.])
        """
        out = vectors.new_full((self.n_input, *vectors.shape[1:]), torch.nan)
        out[self.row] = vectors
        out[self.merged[:, 0]] = out[self.merged[:, 1]]
        return out


def example(times: Sequence[int] = (10, 20, 30)) -> SequenceBatch:
    """Three rows of one entity, given in the order 30, 10, 20: for examples in the documentation."""
    instants = torch.tensor(times) * 10**9
    seconds = torch.tensor(times, dtype=torch.float64)
    ids = torch.tensor([[3], [4], [3]])
    empty = torch.zeros(3, 0)
    return SequenceBatch(
        TableBatch(ids, empty, empty.bool(), empty.long()),
        torch.tensor([0, 3], dtype=torch.int32),
        np.array(["a"], dtype=object),
        instants,
        seconds - seconds[0],
        torch.cat((torch.tensor([torch.nan], dtype=torch.float64), seconds.diff())),
        torch.tensor([1, 2, 0]),
        3,
    )
