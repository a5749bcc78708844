"""Blocks of rows in the order of time, each encoded by what was fitted on the blocks before it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tabembed._checks import check_integer
from tabembed.schema import MISSING_TIME
from tabembed.sequence.batch import SequenceBatch
from tabembed.training.crossfit import ridge_map
from tabembed.training.loop import train
from tabembed.training.sequence_examples import SequenceSettings
from tabembed.training.sequence_fit import SequenceTask
from tabembed.training.sequence_network import SequenceNetwork
from tabembed.training.sequence_vectors import in_input_order, sequence_vectors

NO_BLOCK = -1
"""Block of a row without a time."""
Encode = Callable[[np.ndarray], SequenceBatch]
"""Encodes some rows of a table, given in rising order; ``row`` of the batch counts these rows."""


class Rows(Protocol):
    """Rows of a table, looked at in parts: a part's encoder is fitted on that part alone."""

    def start(self, rows: np.ndarray) -> tuple[SequenceNetwork, Encode]:
        """A network with its first weights, and the encoder of some rows."""

    def task(self, rows: np.ndarray) -> tuple[SequenceTask, Encode]:
        """What is to be learned from some rows, and their encoder."""


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
    rows: Rows,
    n_passes: int,
    seed: int,
) -> np.ndarray:
    """Vectors of every row from a network, and an encoder, that were fitted on earlier blocks alone.

    A row is encoded with its entity's whole history. The vectors of a block are brought to the coordinates
    of the full fit by one affine map, found from the rows of earlier blocks. Those of the first block are
    made by first weights, of an encoder that saw this block, and are not mapped: no target has reached them.

    Args:
        network: the network of all rows.
        batch: all rows, by the encoder of all rows.
        blocks: block of every row of the table, as ``time_blocks`` gives it; rows in none take no part.
        settings: how to train.
        rows: the table.
        n_passes: passes of every training, those that the full fit kept (``passes_kept``).
        seed: all that is random follows from it.

    Shape:
        - blocks: ``(batch.n_input,)`` int64
        - output: ``(batch.n_input, row_dim)`` float32; NaN for rows that are in no block
    """
    goal = _vectors(network, batch, settings)
    found, n_blocks = np.full_like(goal, np.nan), int(blocks.max()) + 1
    first = np.flatnonzero(blocks == 0)
    start, encode = rows.start(first)
    found[first] = _vectors(start.eval(), encode(first), settings)
    for block in range(1, n_blocks):
        before = np.flatnonzero((blocks != NO_BLOCK) & (blocks < block))
        until = np.flatnonzero((blocks != NO_BLOCK) & (blocks <= block))
        task, encode = rows.task(before)
        trained = copy.deepcopy(task.initial)
        title = f"block {block + 1} of {n_blocks}"
        own_way: dict[str, Any] = {"seed": seed + block, "n_passes": n_passes, "title": title}
        train(trained, task.batch, task.target, task.objective, settings, **own_way)
        move = ridge_map(_vectors(trained, task.batch, settings), goal[before])
        own = blocks[until] == block
        found[until[own]] = move(_vectors(trained, encode(until), settings)[own])
    return found


def _vectors(network: SequenceNetwork, batch: SequenceBatch, settings: SequenceSettings) -> np.ndarray:
    return in_input_order(sequence_vectors(network, batch, "row", verbose=settings.verbose), batch)
