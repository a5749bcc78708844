"""Tensors of sequences: the rows of every entity in time order, one entity after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_integer, check_tensor
from tabembed.batch import Index, TableBatch, device_of, places_of, read_index
from tabembed.sequence.nested import nest
from tabembed.sequence.packed import pack
from tabembed.sequence.padded import PaddedSequences, pad
from tabembed.sequence.window import Windows


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """The rows of some entities, sorted by time, without padding.

    Sequence ``i`` owns the rows from ``cu_seqlens[i]`` to ``cu_seqlens[i + 1]``. ``len`` is the number of
    sequences, and an index picks sequences.

    Args:
        rows: the columns of every row; observed ones are those of the row itself.
        cu_seqlens: where sequences begin and end.
        entities: whose sequences they are, one key each: text as objects, whole numbers int64, other
            numbers float64, booleans, dates and times ``datetime64[ns]``, those with a zone in UTC.
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

    >>> from tabembed.sequence.batch import example
    >>> batch = example()
    >>> batch, batch.times.tolist(), batch.row.tolist()
    (SequenceBatch(1 sequence, 3 rows), [10000000000, 20000000000, 30000000000], [1, 2, 0])
    >>> len(batch), batch[torch.tensor([0, 0])].lengths.tolist()
    (1, [3, 3])
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
        if self.cu_seqlens[0] != 0 or bool((self.cu_seqlens.diff() < 0).any()):
            raise ValueError(f"cu_seqlens must begin with 0 and not fall, got {self.cu_seqlens.tolist()}")
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
        """Sequences by a slice, a boolean mask, or numbers; always a batch."""
        device = self.times.device
        chosen = torch.arange(len(self), device=device)[read_index(index, self, device)]
        places, cu_seqlens = places_of(self.cu_seqlens, chosen)
        return self.at(places, cu_seqlens, self.entities[chosen.cpu().numpy()])

    def at(self, places: Tensor, cu_seqlens: Tensor, entities: np.ndarray) -> SequenceBatch:
        """Rows of the batch at some places, as sequences of their own."""
        flat = {name: getattr(self, name)[places] for name in ("times", "elapsed", "gap", "row")}
        return replace(self, rows=self.rows[places], cu_seqlens=cu_seqlens, entities=entities, **flat)

    def to(self, *args: Any, **kwargs: Any) -> SequenceBatch:
        """Move every tensor to a device; dtypes stay."""
        device = device_of(*args, **kwargs)
        if device is None:
            return self
        non_blocking = bool(kwargs.get("non_blocking", False))
        return self._map(lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> SequenceBatch:
        """Copy every tensor to page-locked memory, from which a GPU reads faster."""
        return self._map(lambda part: part.pin_memory())

    def _map(self, function: Callable[[Any], Any]) -> SequenceBatch:
        parts = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("entities", "n_input")}
        return replace(self, **{name: function(part) for name, part in parts.items()})

    def tensors(self) -> dict[str, Any]:
        """A plain dict, the keyword arguments of ``SequenceEmbedding.forward``."""
        return {"rows": self.rows.tensors(), "times": self.times, "cu_seqlens": self.cu_seqlens}

    def padded(self, side: str = "right") -> PaddedSequences:
        """All sequences, filled up to the longest.

        Args:
            side: where padding stands, "right" or "left".

        Raises: ValueError for another side.

        >>> from tabembed.sequence.batch import example
        >>> example().padded().tensors()["mask"].tolist()
        [[True, True, True]]
        """
        return pad(self, side)

    def packed(
        self, token_budget: int, *, generator: torch.Generator | None = None
    ) -> Iterator[SequenceBatch]:
        """Cut into batches of whole sequences of similar length; every sequence stands in one of them.

        Args:
            token_budget: most rows of a batch; a longer sequence comes alone.
            generator: shuffles the batches, and sequences among those of their length.

        Raises: ValueError for a budget below 1, TypeError for another kind.

        >>> from tabembed.sequence.batch import example
        >>> [part.n_rows for part in example().cut(2).packed(2)]
        [1, 2]
        """
        check_integer(token_budget=token_budget)
        return pack(self, token_budget, generator)

    def nested(self) -> dict[str, Any]:
        """Every part as a jagged tensor of ``torch.nested``; columns of lists stay as they are.

        Shape:
            - output: ``rows`` (a dict by the names of ``TableBatch.tensors()``), ``times``, ``elapsed``,
              ``gap`` and ``row``: ``(n_sequences, rows of each, *)``

        >>> from tabembed.sequence.batch import example
        >>> [sequence.tolist() for sequence in example().cut(2).nested()["elapsed"].unbind()]
        [[0.0, 10.0], [20.0]]
        """
        return nest(self)

    def windows(self, length: int, stride: int = 1) -> Windows:
        """Windows of neighbouring rows of one entity, a data set for training: see :class:`Windows`.

        Args:
            length: rows of a window.
            stride: rows from a window to the next.

        Raises: ValueError for a length or stride below 1, TypeError for other kinds.

        >>> from tabembed.sequence.batch import example
        >>> example().windows(2)[torch.tensor([1])].elapsed
        tensor([[10., 20.]], dtype=torch.float64)
        """
        return Windows(self, length, stride=stride)

    def last(self, n: int) -> SequenceBatch:
        """The last ``n`` rows of every sequence; ``elapsed`` and ``gap`` are still those of the entity.

        Raises: ValueError for a number below 1, TypeError for another kind.

        >>> from tabembed.sequence.batch import example
        >>> example().last(2).elapsed
        tensor([10., 20.], dtype=torch.float64)
        """
        check_integer(n=n)
        kept = self.lengths.clamp(max=n)
        ends = torch.stack((self.cu_seqlens[1:] - kept, self.cu_seqlens[1:]), dim=1).flatten()
        bounds = torch.cat((ends.new_zeros(1), ends))  # kept rows are every second of these groups
        places, cu_seqlens = places_of(bounds, 1 + 2 * torch.arange(len(self), device=ends.device))
        return self.at(places, cu_seqlens.to(self.cu_seqlens.dtype), self.entities)

    def cut(self, length: int) -> SequenceBatch:
        """Sequences of more than ``length`` rows as several, as few and as equally long as can be.

        Raises: ValueError for a length below 1, TypeError for another kind.

        >>> from tabembed.sequence.batch import example
        >>> example().cut(2).lengths.tolist()
        [2, 1]
        """
        check_integer(length=length)
        n = self.lengths
        pieces = ((n + length - 1) // length).clamp(min=1)
        owner = torch.repeat_interleave(pieces)
        number = torch.arange(len(owner), device=n.device) - (pieces.cumsum(0) - pieces)[owner]
        starts = self.cu_seqlens[owner] + (n[owner] * number + pieces[owner] - 1) // pieces[owner]
        cu_seqlens = torch.cat((starts.to(self.cu_seqlens.dtype), self.cu_seqlens[-1:]))
        return replace(self, cu_seqlens=cu_seqlens, entities=self.entities[owner.cpu().numpy()])

    def __repr__(self) -> str:
        there = torch.zeros(self.n_input, dtype=torch.bool, device=self.row.device)
        there[self.row] = True
        there[self.merged[:, 0]] = there[self.merged[:, 1]]
        absent = self.n_input - int(there.sum())
        left = f"; {_counted(absent, 'row')} of the table {'is' if absent == 1 else 'are'} not here"
        here = f"{_counted(len(self), 'sequence')}, {_counted(self.n_rows, 'row')}"
        return f"SequenceBatch({here}{left if absent else ''})"

    def to_input_order(self, vectors: Tensor) -> Tensor:
        """Put something of every row back on the rows of the table that was encoded.

        Args:
            vectors: floats of every row.

        Shape:
            - vectors: ``(n_rows, *)``
            - output: ``(n_input, *)``; NaN for rows of the table that are not here

        Raises: TypeError for what is no tensor of floats, ValueError for another number of rows.

        >>> from tabembed.sequence.batch import example
        >>> example().to_input_order(torch.tensor([10.0, 20.0, 30.0]))
        tensor([30., 10., 20.])
        """
        check_tensor(vectors, "vectors")
        if not vectors.is_floating_point():
            raise TypeError(f"vectors must be floats: rows not here are NaN, got {vectors.dtype}")
        if vectors.ndim == 0 or len(vectors) != self.n_rows:
            raise ValueError(f"vectors must have {self.n_rows} rows, got shape {tuple(vectors.shape)}")
        out = vectors.new_full((self.n_input, *vectors.shape[1:]), torch.nan)
        out[self.row] = vectors
        out[self.merged[:, 0]] = out[self.merged[:, 1]]
        return out


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def example() -> SequenceBatch:
    """Three rows of one entity, given in the order 30, 10, 20: for examples in the documentation."""
    seconds = torch.tensor([10.0, 20.0, 30.0], dtype=torch.float64)
    ids = torch.tensor([[3], [4], [3]])
    empty = torch.zeros(3, 0)
    return SequenceBatch(
        TableBatch(ids, empty, empty.bool(), empty.long()),
        torch.tensor([0, 3], dtype=torch.int32),
        np.array(["a"], dtype=object),
        seconds.long() * 10**9,
        seconds - seconds[0],
        torch.cat((torch.tensor([torch.nan], dtype=torch.float64), seconds.diff())),
        torch.tensor([1, 2, 0]),
        3,
    )
