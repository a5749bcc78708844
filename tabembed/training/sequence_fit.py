"""Networks of sequences: one of all rows, and vectors of rows from networks that have not seen them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_integer
from tabembed.schema import MISSING_TIME
from tabembed.sequence.batch import SequenceBatch
from tabembed.training.crossfit import Split, fit_with_folds, ridge_map
from tabembed.training.loop import train
from tabembed.training.objective import Objective
from tabembed.training.sequence_examples import SequenceSettings
from tabembed.training.sequence_network import SequenceNetwork
from tabembed.training.sequence_vectors import sequence_vectors

NO_BLOCK = -1
"""Block of a row without a time."""


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
        vectors=partial(sequence_vectors, output=output),
        n_aligned=task.initial.row_dim,
        # An entity's vector is a mean of its rows' vectors, so the map of rows is the map of entities, too.
        coordinates=partial(sequence_vectors, output="row"),
        by_unit=output == "entity",
    )


def time_blocks(times: np.ndarray, n_blocks: int = 5) -> np.ndarray:
    """Part rows by time into blocks of equally many rows, as far as no instant is cut in two.

    Args:
        times: when rows happened; −2⁶³ where that is missing.
        n_blocks: number of blocks; fewer where one instant holds the rows of several.

    Shape:
        - times: ``(n_rows,)`` int64
        - output: ``(n_rows,)`` int64, from 0 (earliest) on, −1 where the time is missing

    Raises: ValueError when ``n_blocks`` is below 2, or there are fewer instants than blocks.

    >>> time_blocks(np.array([30, 10, 20, 20, 40]), 2).tolist()
    [1, 0, 0, 0, 1]
    """
    check_integer(n_blocks=n_blocks)
    if n_blocks < 2:
        raise ValueError(f"n_blocks must be at least 2, got {n_blocks}")
    blocks, there = np.full(len(times), NO_BLOCK), times != MISSING_TIME
    instants, which, counts = np.unique(times[there], return_inverse=True, return_counts=True)
    if len(instants) < n_blocks:
        got = f"{len(instants)} instants"
        raise ValueError(f"time must have at least {n_blocks} instants for {n_blocks} blocks, got {got}")
    middle = (counts.cumsum() - counts / 2) / counts.sum()
    raw = np.minimum((middle * n_blocks).astype(np.int64), n_blocks - 1)
    # Heavy instants may leave a block without a row: the blocks that have some are numbered anew.
    blocks[there] = np.unique(raw, return_inverse=True)[1][which]
    return blocks


def fit_time_blocks(
    network: SequenceNetwork,
    batch: SequenceBatch,
    blocks: np.ndarray,
    settings: SequenceSettings,
    *,
    prepare: Callable[[np.ndarray], tuple[SequenceTask, Callable[[np.ndarray], SequenceBatch]]],
    n_passes: int,
    seed: int,
) -> np.ndarray:
    """Vectors of every row from a network, and an encoder, that were fitted on earlier blocks alone.

    A row is encoded with its entity's whole history. The vectors of a block are brought to the coordinates
    of the full fit by one affine map, found from the rows of earlier blocks; those of the first block are
    made by the untrained start, of an encoder that saw this block, and are not mapped: no target has
    reached them.

    Args:
        network: the network of all rows.
        batch: all rows, by the encoder of all rows.
        blocks: block of every row of the table, as ``time_blocks`` gives it; rows in none take no part.
        settings: how to train.
        prepare: given the rows of the table that may be looked at (in rising order), what is to be learned
            from them, by an encoder fitted on them; and how this encoder encodes rows of the table. Both
            batches' ``row`` count the rows that were given.
        n_passes: passes of every training, those that the full fit kept (``passes_kept``).
        seed: all that is random follows from it.

    Shape:
        - blocks: ``(batch.n_input,)`` int64
        - output: ``(batch.n_input, row_dim)`` float32; NaN for rows that are not in a batch
    """
    goal = in_input_order(sequence_vectors(network, batch, "row"), batch)
    found, n_blocks = np.full_like(goal, np.nan), int(blocks.max()) + 1
    for block in range(n_blocks):
        own, until = blocks == block, np.flatnonzero((blocks >= 0) & (blocks <= block))
        before = until if block == 0 else until[~own[until]]
        task, encode = prepare(before)
        trained, now = copy.deepcopy(task.initial).eval(), encode(until)
        if block:
            title = f"block {block + 1} of {n_blocks}"
            own_way: dict[str, Any] = {"seed": seed + block, "n_passes": n_passes, "title": title}
            train(trained, task.batch, task.target, task.objective, settings, **own_way)
        vectors = in_input_order(sequence_vectors(trained, now, "row"), now)
        if block:
            theirs = in_input_order(sequence_vectors(trained, task.batch, "row"), task.batch)
            there = ~np.isnan(theirs + goal[before]).any(1)
            vectors = ridge_map(theirs[there], goal[before][there])(vectors)
        found[own] = vectors[own[until]]
    return found


def in_input_order(vectors: np.ndarray, batch: SequenceBatch) -> np.ndarray:
    """Vectors of a batch's rows on the rows of the table that was encoded, NaN where it has none here."""
    return batch.to_input_order(torch.from_numpy(vectors)).numpy()
