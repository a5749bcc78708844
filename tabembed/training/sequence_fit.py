"""Networks of sequences: one of all rows, and vectors of rows from networks that have not seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from tabembed.sequence.batch import SequenceBatch
from tabembed.training.crossfit import Split, fit_with_folds
from tabembed.training.objective import Objective
from tabembed.training.sequence_examples import SequenceSettings
from tabembed.training.sequence_network import SequenceNetwork
from tabembed.training.sequence_vectors import sequence_vectors


@dataclass(frozen=True, eq=False)
class SequenceTask:
    """What is to be learned from some rows of a table.

    Args:
        initial: the untrained network; left as it is.
        batch: the sequences of these rows, encoded by an encoder that was fitted on no other.
        target: their targets, as ``make_objective`` or ``make_next_row`` made them: in the flat order of
            the rows (``y[batch.row]``), or one for each of ``batch.entities``; ``initial.per`` says which.
        objective: the loss.

    Shape:
        - target: ``(n_rows, *)`` or ``(n_sequences, *)``
    """

    initial: SequenceNetwork
    batch: SequenceBatch
    target: Tensor
    objective: Objective


def fit_sequences(
    task: SequenceTask, settings: SequenceSettings, *, splits: Sequence[Split], seed: int, output: str
) -> tuple[SequenceNetwork, list[float], np.ndarray | None]:
    """Train a network on all entities, then one for each fold of entities, all from the same weights.

    The vectors of a fold are brought to the coordinates of the full fit by one affine map, found from the
    rows of the entities that the fold was trained on. Entities are held out whole, too.

    Args:
        task: all entities.
        settings: how to train.
        splits: pairs (training entities, tested entities), numbers of sequences of ``task.batch``, as
            ``make_splits`` makes them; empty for the full fit alone.
        seed: all that is random follows from it.
        output: ``"row"`` or ``"entity"``: whose vectors.

    Returns: the network of all entities, its losses as ``train`` gives them, and out-of-fold vectors as
        ``sequence_vectors`` gives them (float32; in the flat order of the rows, or one an entity),
        ``None`` without splits.
    """
    return fit_with_folds(
        task.initial,
        task.batch,
        task.target,
        task.objective,
        settings,
        splits=splits,
        seed=seed,
        vectors=partial(sequence_vectors, output=output, verbose=settings.verbose),
        aligned=[slice(None)],
        # An entity's vector is a mean of its rows' vectors, so the map of rows is the map of entities, too.
        coordinates=partial(sequence_vectors, output="row", verbose=settings.verbose),
        by_unit=output == "entity",
    )
