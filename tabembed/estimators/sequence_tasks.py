"""What is to be learned from sequences, with or without a target, from all rows or from the earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from tabembed.estimators.sequence_target import sequence_target
from tabembed.schema import MISSING_TIME
from tabembed.sequence import SequenceBatch, SequenceEncoder
from tabembed.table.frame import read_frame
from tabembed.training.next_row import make_next_row
from tabembed.training.objective import make_objective
from tabembed.training.sequence_fit import SequenceTask
from tabembed.training.sequence_network import SequenceNetwork


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
        self, encoder: SequenceEncoder, batch: SequenceBatch, values: np.ndarray | None, per: str
    ) -> tuple[SequenceTask, dict[str, Any]]:
        """A task, and the keywords that its network is built with.

        Args:
            encoder: fitted on the rows of the batch.
            batch: the sequences.
            values: the target in the order of the batch; ``None`` learns by the next row.
            per: whether ``"row"`` or ``"entity"`` has one.
        """
        if values is None:
            objective, target = make_next_row(encoder.schema_, batch)
        else:
            objective, target = make_objective(values, self.target_type)
        built: dict[str, Any] = {"n_outputs": objective.n_outputs, "per": per, "sequence": self.sequence}
        network = SequenceNetwork(encoder.schema_, **built, seed=self.seed)
        return SequenceTask(network, batch, target, objective), built


class EarlierRows:
    """What is to be learned from some rows of a table, and by an encoder that has seen no others.

    Args:
        encoder: an encoder; it is cloned for every fit.
        X: the table.
        y: the target as a user gives it, one value a row; ``None`` learns by the next row.
        make_task: makes what is to be learned.
    """

    def __init__(self, encoder: SequenceEncoder, X: Any, y: Any, make_task: TaskMaker) -> None:
        self.encoder, self.make_task = encoder, make_task
        # Rows beyond ``max_events`` are among the last ones of an earlier moment: they have a target, too.
        whole = clone(encoder).set_params(max_events=None).fit(X)
        frame = read_frame(X)
        names = dict.fromkeys([whole.entity, whole.time, *whole.kinds_])
        self.columns = {name: frame.column(frame.names.index(name)) for name in names}
        self.values = None
        if y is not None:
            batch = whole.transform(X)
            values, _ = sequence_target(y, batch, getattr(X, "index", None))
            self.values = np.zeros(batch.n_input, values.dtype)
            self.values[batch.row.numpy()] = values
        absent = self.columns[whole.entity].is_null().to_numpy(zero_copy_only=False)
        self.times = np.where(absent, MISSING_TIME, whole.time_axis_.encode(self.columns[whole.time]))
        """When every row of the table happened, −2⁶³ for rows that belong to no entity or time."""

    def __call__(self, rows: np.ndarray) -> tuple[SequenceTask, Callable[[np.ndarray], SequenceBatch]]:
        """What is to be learned from some rows, and how their encoder encodes rows of the table."""
        part = self._take(rows)
        encoder = clone(self.encoder).fit(part)
        batch = encoder.transform(part)
        values = None if self.values is None else self.values[rows][batch.row.numpy()]
        task, _ = self.make_task(encoder, batch, values, "row")
        return task, lambda chosen: encoder.transform(self._take(chosen))

    def _take(self, rows: np.ndarray) -> dict[str, pa.Array]:
        return {name: column.take(pa.array(rows)) for name, column in self.columns.items()}
