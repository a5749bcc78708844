"""Sequences put together: sorted rows become a batch, and later rows are added to one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import torch

from tabembed.batch import TableBatch
from tabembed.sequence.batch import SequenceBatch
from tabembed.sequence.order import Entities, join, read_entities, seconds, sorted_order, starts_of
from tabembed.sequence.rows import LANES, join_rows
from tabembed.table.warn import warn_user


def build(
    rows: TableBatch, entities: Entities, times: np.ndarray, row: np.ndarray, n_input: int
) -> SequenceBatch:
    """The batch of rows that are sorted by entity and time.

    Args:
        rows: columns of every row.
        entities: whose rows they are.
        times: when they happened, int64 nanoseconds.
        row: places of the rows in the table.
        n_input: number of rows of the table.
    """
    starts = starts_of(entities.codes)
    keys = entities.keys.take(pa.array(entities.codes[starts[:-1]]))
    elapsed = seconds(times, np.repeat(times[starts[:-1]], np.diff(starts)))
    return SequenceBatch(
        rows,
        torch.from_numpy(starts.astype(np.int32)),
        keys.to_numpy(zero_copy_only=False),
        torch.from_numpy(times),
        torch.from_numpy(elapsed),
        torch.from_numpy(_gap(times, starts)),
        torch.from_numpy(row),
        n_input,
    )


def append(old: SequenceBatch, new: SequenceBatch, name: str) -> SequenceBatch:
    """The rows of both in one order: among rows of an entity and instant, old ones come first.

    What ``old`` says of time is kept where it says more than its rows do: those before the first
    ones may have been cut away.

    Args:
        old: a batch with every entity once.
        new: rows that come after those of ``old`` in the order of the input.
        name: name of the entities' column, for messages.
    """
    known, added = (read_entities(pa.array(part.entities), name) for part in (old, new))
    both = join(known, added, name)
    code = np.split(both.codes, [len(old)])
    codes = np.concatenate([np.repeat(c, p.lengths.numpy()) for c, p in zip(code, (old, new), strict=True)])
    times = np.concatenate((old.times.numpy(), new.times.numpy()))
    order = sorted_order(codes, times)
    place = torch.from_numpy(order)
    batch = build(
        join_rows(old.rows, new.rows)[place],
        Entities(both.keys, codes[order]),
        times[order],
        torch.cat((old.row, new.row + old.n_input))[place].numpy(),
        old.n_input + new.n_input,
    )
    elapsed, gap = (
        torch.cat((told, torch.full((new.n_rows,), torch.nan, dtype=told.dtype)))[place]
        for told in (old.elapsed, old.gap)
    )
    began = _beginnings(old)
    first = np.full(len(both.keys), 2**63 - 1)
    first[code[0]] = began
    earlier = first.copy()
    earlier[code[1]] = np.minimum(first[code[1]], new.times.numpy()[new.cu_seqlens[:-1].numpy()])
    since = torch.from_numpy(seconds(batch.times.numpy(), earlier[codes[order]]))
    moved = torch.from_numpy((earlier < first)[codes[order]])
    return replace(
        batch,
        elapsed=torch.where(moved | elapsed.isnan(), since, elapsed),
        gap=torch.fmin(gap, batch.gap),
        merged=torch.cat((old.merged, new.merged + old.n_input)),
    )


def keep_last(batch: SequenceBatch, max_events: int) -> SequenceBatch:
    """The last rows of every sequence."""
    if not counts_cut(batch, max_events)[0]:
        return batch
    batch = batch.last(max_events)
    return replace(batch, merged=batch.merged[torch.isin(batch.merged[:, 1], batch.row)])


def counts_cut(batch: SequenceBatch, max_events: int) -> tuple[int, int]:
    """How many rows ``keep_last`` leaves out, and of how many sequences."""
    cut = (batch.lengths - max_events).clamp(min=0)
    return int(cut.sum()), int(cut.count_nonzero())


def say_cut(max_events: int, n_rows: int, n_entities: int) -> None:
    """Warn of early rows that are left out, if there are any."""
    if n_rows:
        warn_user(f"max_events={max_events}: {n_rows:,} early rows of {n_entities:,} entities are left out")


def check_appendable(old: SequenceBatch, new: SequenceBatch) -> None:
    """Check that rows can be added to a batch.

    Args:
        old: the batch.
        new: the rows, encoded.

    Raises: ValueError when it has other columns, or holds an entity twice.
    """
    widths = [
        ({name: getattr(part.rows, name).shape[1] for name in LANES}, list(part.rows.lists))
        for part in (old, new)
    ]
    if widths[0] != widths[1]:
        raise ValueError(f"batch must have the columns of this encoder, {widths[1]}, got {widths[0]}")
    if len(set(old.entities.tolist())) < len(old):
        raise ValueError("batch must have every entity once, as transform gives it, got one twice")


def _beginnings(batch: SequenceBatch) -> np.ndarray:
    """Time of the first row of every entity, also where that row is not here."""
    start = batch.cu_seqlens[:-1].numpy()
    since = np.rint(batch.elapsed.numpy()[start] * 1e9).astype(np.uint64)
    return (batch.times.numpy()[start].view(np.uint64) - since).view(np.int64)


def _gap(times: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Seconds since the row before, NaN for the first row of an entity."""
    gap = np.full(len(times), np.nan)
    gap[1:] = seconds(times[1:], times[:-1])
    gap[starts[:-1]] = np.nan
    return gap
