"""What a fit knows of the rows seen so far: their columns, and whose row happened when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tabembed.schema import SequenceSchema, TableSchema
from tabembed.sequence.missing import LeftOut
from tabembed.sequence.order import Entities, join, seconds, sorted_order, starts_of
from tabembed.sequence.ties import refuse_ties
from tabembed.sequence.time_axis import Clock, ClockState, TimeAxis
from tabembed.table.state import TableState


@dataclass(frozen=True)
class SequenceParts:
    """What a fit knows of the rows seen so far.

    Gaps between two parts are known only with all rows at hand, so a state keeps an entity and a
    time a row: 12 bytes.

    Args:
        names: names of all columns of the table.
        named: False when the table carried no names and the columns count by position.
        table: state of the columns of the rows, ``None`` where there are none.
        clock: state of the clock.
        entities: whose rows they are.
        times: when they happened, int64 nanoseconds.
        missing: rows without an entity or a time; they are left out.
    """

    names: tuple[str, ...]
    named: bool
    table: TableState | None
    clock: ClockState
    entities: Entities
    times: np.ndarray
    missing: LeftOut


def merge_states(a: SequenceParts, b: SequenceParts, entity: str, time: str) -> SequenceParts:
    """What the rows of both say; neither changes."""
    if (a.table is None) != (b.table is None):
        raise ValueError("parts must have the same columns, got one without any")
    return SequenceParts(
        a.names,
        a.named,
        a.table.merge(b.table) if a.table and b.table else None,
        Clock().merge(time, a.clock, b.clock),
        join(a.entities, b.entities, entity),
        np.concatenate((a.times, b.times)),
        a.missing + b.missing,
    )


def describe(state: SequenceParts, rows: TableSchema, axis: TimeAxis, settings: Any) -> SequenceSchema:
    """The sequences of all rows, as ``transform`` would give them, and all gaps between rows.

    Args:
        state: all rows of the fit.
        rows: their columns.
        axis: their clock.
        settings: an encoder with ``observed``, ``ties`` and ``max_events``.

    Raises: ValueError for ties that are refused.
    """
    order = sorted_order(state.entities.codes, state.times)
    codes, times = state.entities.codes[order], state.times[order]
    same = codes[1:] == codes[:-1]
    gaps = seconds(times[1:], times[:-1])[same]
    gaps = gaps[gaps > 0]
    if settings.ties == "error":
        refuse_ties(state.entities.keys, codes, times, axis)
    if settings.ties == "merge":
        apart = np.append(True, ~same | (times[1:] != times[:-1]))
        codes, times = codes[apart], times[apart]
    starts = starts_of(codes)
    first, last = starts[:-1], starts[1:] - 1
    if settings.max_events is not None:
        first = np.maximum(first, last - settings.max_events + 1)
    return SequenceSchema(
        rows,
        tuple(settings.observed),
        settings.ties == "strict",
        len(first),
        int((last - first).max()) + 1,
        float(seconds(times[last], times[first]).max()),
        tuple(np.quantile(gaps, np.linspace(0, 1, 101)).tolist()) if len(gaps) else (),
    )
