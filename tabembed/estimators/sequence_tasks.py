"""What is to be learned from sequences, with or without a target, from all rows or from the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from sklearn.base import clone

from tabembed.estimators.sequence_target import SequenceTarget
from tabembed.schema import MISSING_TIME
from tabembed.sequence import SequenceBatch, SequenceEncoder
from tabembed.table.frame import read_frame
from tabembed.table.warn import silent
from tabembed.training.next_row import NextRow, make_next_row
from tabembed.training.objective import make_objective, with_gaps
from tabembed.training.sequence_fit import SequenceTask
from tabembed.training.sequence_network import SequenceNetwork
from tabembed.training.time_blocks import Encode, time_blocks


@dataclass(frozen=True)
class TaskMaker:
    """Makes what is to be learned from sequences.

    Args:
        sequence: keywords of ``SequenceEmbedding``.
        target_type: as ``make_objective`` takes it.
        seed: every initial weight follows from it.
    """

    sequence: Mapping[str, Any]
    target_type: str
    seed: int

    def __call__(
        self, encoder: SequenceEncoder, batch: SequenceBatch, given: SequenceTarget | None
    ) -> tuple[SequenceTask, dict[str, Any]]:
        """A task, and the keywords that its network is built with.

        Args:
            encoder: fitted on the rows of the batch.
            batch: the sequences.
            given: the target; ``None`` learns by the next row.
        """
        if given is None:
            objective, target = make_next_row(encoder.schema_, batch)
        else:
            objective, target = make_objective(given.values[given.labelled], self.target_type)
            if not given.labelled.all():
                objective, target = with_gaps(objective, target, torch.from_numpy(given.labelled))
        per = "row" if given is None else given.per
        built: dict[str, Any] = {"n_outputs": objective.n_outputs, "per": per, "sequence": self.sequence}
        network = SequenceNetwork(encoder.schema_, **built, seed=self.seed)
        return SequenceTask(network, batch, target, objective), built


class EarlierRows:
    """Rows of a table, looked at in parts, each by an encoder that has seen no others.

    Args:
        encoder: the encoder of all rows; it is cloned for every fit.
        X: the table.
        batch: what the encoder made of it.
        given: the target, one value a row; ``None`` learns by the next row.
        make_task: makes what is to be learned.
    """

    def __init__(
        self,
        encoder: SequenceEncoder,
        X: Any,
        *,
        batch: SequenceBatch,
        given: SequenceTarget | None,
        make_task: TaskMaker,
    ) -> None:
        self.encoder, self.make_task, self.given = encoder, make_task, given
        frame = read_frame(X)
        names = dict.fromkeys([encoder.entity, encoder.time, *encoder.kinds_])
        self.columns = {name: frame.column(frame.names.index(name)) for name in names}
        self.place = np.zeros(batch.n_input, np.int64)
        self.place[batch.row.numpy()] = np.arange(batch.n_rows)
        absent = self.columns[encoder.entity].is_null().to_numpy(zero_copy_only=False)
        self.times = np.where(absent, MISSING_TIME, encoder.time_axis_.encode(self.columns[encoder.time]))
        """When every row of the table happened, −2⁶³ for rows that belong to no entity or time."""

    def blocks(self) -> np.ndarray:
        """Blocks of time; those from which nothing can be learned are joined to the first.

        Raises: ValueError when nothing can be learned from any but the last.
        """
        blocks = time_blocks(self.times)
        while not self._teaches(np.flatnonzero(blocks == 0)):
            blocks = np.where(blocks > 0, blocks - 1, blocks)
            if blocks.max() < 1:
                raise ValueError(
                    "cv='time' must have something to predict in the earlier blocks of X, got rows that have "
                    "neither a value of y, nor, without y, a row before or an observed value"
                )
        return blocks

    def start(self, rows: np.ndarray) -> tuple[SequenceNetwork, Encode]:
        """A network with its first weights, and the encoder of some rows."""
        encoder, _, encode = self._encoded(rows)
        make = self.make_task
        return SequenceNetwork(encoder.schema_, 1, sequence=make.sequence, seed=make.seed), encode

    def task(self, rows: np.ndarray) -> tuple[SequenceTask, Encode]:
        """What is to be learned from some rows, and their encoder."""
        encoder, batch, encode = self._encoded(rows)
        task, _ = self.make_task(encoder, batch, self._target(rows[batch.row.numpy()]))
        return task, encode

    def _teaches(self, rows: np.ndarray) -> bool:
        if self.given is not None:
            return bool(self.given.labelled[self.place[rows]].any())
        encoder, batch, _ = self._encoded(rows)
        return not bool(NextRow(encoder.schema_).target(batch).isnan().all())

    def _target(self, rows: np.ndarray) -> SequenceTarget | None:
        if self.given is None:
            return None
        place = self.place[rows]
        return SequenceTarget(self.given.values[place], "row", self.given.labelled[place])

    def _encoded(self, rows: np.ndarray) -> tuple[SequenceEncoder, SequenceBatch, Encode]:
        encoder = clone(self.encoder)

        def encode(chosen: np.ndarray) -> SequenceBatch:
            with silent():
                return encoder.transform(self._take(chosen))

        with silent():
            encoder.fit(self._take(rows))
        return encoder, encode(rows), encode

    def _take(self, rows: np.ndarray) -> dict[str, pa.Array]:
        return {name: column.take(pa.array(rows)) for name, column in self.columns.items()}
