"""Rows of one entity at one instant: refused, or made one row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tabembed.batch import TableBatch
from tabembed.schema import MISSING, MISSING_TIME
from tabembed.sequence.batch import SequenceBatch
from tabembed.sequence.time_axis import TimeAxis


def refuse_ties(keys: pa.Array | np.ndarray, codes: np.ndarray, times: np.ndarray, axis: TimeAxis) -> None:
    """Check that no row of an entity happened at the instant of another.

    Args:
        keys: the entities.
        codes: number of every row's entity.
        times: when rows happened, sorted within every entity.
        axis: the clock, for the message.

    Raises: ValueError naming the first entity and instant, and the number of rows.
    """
    tied = (codes[1:] == codes[:-1]) & (times[1:] == times[:-1])
    if not tied.any():
        return
    i = int(tied.argmax())
    raise ValueError(
        f"column {axis.name!r}: must differ between the rows of an entity under ties='error', got "
        f"{tied.sum():,} rows at the time of the row before, the first one of {keys[codes[i]]} "
        f"at {axis.decode(times[i : i + 1])[0]}"
    )


def merge_ties(batch: SequenceBatch) -> SequenceBatch:
    """Make one row of the rows of an entity and instant: of every column the last cell that is there.

    The one row stands at the place of the last of them; ``merged`` says for which others.
    """
    apart = (batch.gap != 0).numpy()
    apart[batch.cu_seqlens[:-1][batch.lengths > 0].numpy()] = True
    if apart.all():
        return batch
    first = np.flatnonzero(apart)
    last = np.append(first[1:], len(apart)) - 1
    group = np.cumsum(apart) - 1
    firsts, lasts = torch.from_numpy(first), torch.from_numpy(last)
    stands = batch.row[lasts][torch.from_numpy(group)]
    others = torch.ones(len(apart), dtype=torch.bool).index_fill_(0, lasts, False)
    target = torch.arange(batch.n_input).index_copy_(0, batch.row, stands)
    before = torch.stack((batch.merged[:, 0], target[batch.merged[:, 1]]), dim=1)
    counted = np.append(0, np.cumsum(apart))[batch.cu_seqlens.numpy()]
    return replace(
        batch,
        rows=_merge_rows(batch.rows, first, last),
        cu_seqlens=torch.from_numpy(counted.astype(np.int32)),
        times=batch.times[lasts],
        elapsed=batch.elapsed[lasts],
        gap=batch.gap[firsts],
        row=batch.row[lasts],
        merged=torch.cat((before, torch.stack((batch.row[others], stands[others]), dim=1))),
    )


def _merge_rows(rows: TableBatch, first: np.ndarray, last: np.ndarray) -> TableBatch:
    """Every group of rows from ``first`` to ``last`` as one."""

    def source(there: Tensor) -> Tensor:
        """Place of the last cell of every group that is there, or else of the last cell."""
        places = np.where(there.numpy(), np.arange(len(there)).reshape(-1, *[1] * (there.ndim - 1)), -1)
        found = np.maximum.reduceat(places, first, axis=0)
        return torch.from_numpy(np.where(found < 0, last.reshape(-1, *[1] * (there.ndim - 1)), found))

    numbers = source(~rows.missing)
    return TableBatch(
        rows.ids.gather(0, source(rows.ids != MISSING)),
        rows.values.gather(0, numbers),
        rows.missing.gather(0, numbers),
        rows.times.gather(0, source(rows.times != MISSING_TIME)),
        {name: ragged.take(source(~ragged.missing)) for name, ragged in rows.lists.items()},
    )
