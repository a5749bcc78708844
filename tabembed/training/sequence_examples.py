"""Sequences as the loop trains on them: whole when they are split, in pieces of bounded length when drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_integer
from tabembed.batch import TableBatch, places_of
from tabembed.sequence.batch import SequenceBatch
from tabembed.training.examples import unseen_to_unknown
from tabembed.training.loop import Settings

BUDGET = 16_384
"""Rows that are encoded at a time where nothing is learned."""


@dataclass(frozen=True)
class SequenceSettings(Settings):
    """How to train on sequences; names and meaning are those of the estimators.

    ``batch_size`` counts rows, not sequences: sequences of one row and of hundreds weigh alike per row.
    """

    max_length: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer(max_length=self.max_length)

    def rows_per_step(self, n_rows: int) -> int:
        """Rows in a minibatch at most; ``"auto"`` makes about 128 steps a pass, of 32 to 2048 rows.

        >>> [SequenceSettings().rows_per_step(n_rows) for n_rows in (100, 30_000, 300_000)]
        [32, 234, 2048]
        """
        if self.batch_size == "auto":
            return min(max(n_rows // 128, 32), 2048)
        return int(self.batch_size)


@dataclass(frozen=True, eq=False)
class SequenceExamples:
    """Sequences, with one target for every row or one for every sequence.

    Args:
        batch: the sequences.
        target: their targets, in the flat order of the rows, or in the order of the sequences.
        per: ``"row"`` or ``"entity"``: what has a target.

    Shape:
        - target: ``(n_rows, *)`` or ``(n_sequences, *)``
    """

    batch: SequenceBatch
    target: Tensor
    per: str

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, units: Tensor) -> SequenceExamples:
        chosen = self.places(units) if self.per == "row" else units
        return replace(self, batch=self.batch[units], target=self.target[chosen])

    @property
    def rows(self) -> TableBatch:
        """The rows of all sequences."""
        return self.batch.rows

    @property
    def row_target(self) -> Tensor | None:
        """The target of every row, or of the sequence it stands in; ``None`` where it is no one value."""
        if self.target.ndim > 1:
            return None
        return self.target if self.per == "row" else self.target.repeat_interleave(self.batch.lengths)

    def to(self, device: str) -> SequenceExamples:
        """The same on a device."""
        return replace(self, batch=self.batch.to(device), target=self.target.to(device))

    def places(self, units: Tensor) -> Tensor:
        """Where the rows of some sequences stand in the flat order."""
        return places_of(self.batch.cu_seqlens, units)[0]

    def unseen_to_unknown(self, training: SequenceExamples) -> SequenceExamples:
        """The same, with the unknown id for every id that no row of ``training`` has."""
        rows = unseen_to_unknown(self.rows, training.rows)
        return replace(self, batch=replace(self.batch, rows=rows))

    def ready(self, settings: SequenceSettings) -> SequenceExamples:
        """Pieces of at most ``max_length`` rows: all, or the last ones where entities have the targets."""
        batch = numbered(self.batch)
        if self.per == "entity":
            return replace(self, batch=batch.last(settings.max_length))
        return self._of(batch.cut(settings.max_length))

    def n_steps(self, settings: SequenceSettings) -> int:
        """Number of minibatches in a pass, nearly: how pieces fit together depends on their order."""
        return -(-self.batch.n_rows // settings.rows_per_step(self.batch.n_rows))

    def steps(self, settings: SequenceSettings, generator: torch.Generator) -> Iterator[SequenceExamples]:
        """Minibatches of at most so many rows, of pieces of similar lengths."""
        budget = settings.rows_per_step(self.batch.n_rows)
        for batch in numbered(self.batch).packed(budget, generator=generator):
            yield self._of(batch)

    def parts(self) -> Iterator[SequenceExamples]:
        """All sequences, whole, some of similar lengths at a time."""
        for batch in numbered(self.batch).packed(BUDGET):
            yield self._of(batch)

    def _of(self, batch: SequenceBatch) -> SequenceExamples:
        """Part of a numbered batch, with the targets that belong to it."""
        chosen = batch.row if self.per == "row" else torch.as_tensor(batch.entities.astype(np.int64))
        return replace(self, batch=batch, target=self.target[chosen.to(self.target.device)])


def numbered(batch: SequenceBatch) -> SequenceBatch:
    """The same, with rows and sequences numbered as they stand here: what is cut from it says where from.

    >>> from tabembed.sequence.batch import example
    >>> numbered(example()).row.tolist(), numbered(example()).entities.tolist()
    ([0, 1, 2], [0])
    """
    row = torch.arange(batch.n_rows, device=batch.times.device)
    return replace(batch, row=row, entities=np.arange(len(batch)))
