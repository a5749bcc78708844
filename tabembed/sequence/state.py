"""What a fit knows of the rows seen so far: their columns, and whose row happened when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tabembed.schema import SequenceSchema, TableSchema
from tabembed.sequence.order import Entities, join, seconds, sorted_order, starts_of
from tabembed.sequence.time_axis import Clock, ClockState
from tabembed.table.state import TableState, merge_tables


@dataclass(frozen=True)
class SequenceState:
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
        dropped: number of rows that were left out because entity or time is missing, by column.
    """

    names: tuple[str, ...]
    named: bool
    table: TableState | None
    clock: ClockState
    entities: Entities
    times: np.ndarray
    dropped: dict[str, int]


def merge_states(a: SequenceState, b: SequenceState, entity: str, time: str) -> SequenceState:
    """What the rows of both say; neither changes."""
    if (a.table is None) != (b.table is None):
        raise ValueError("parts must have the same columns, got one without any")
    return SequenceState(
        a.names,
        a.named,
        merge_tables(a.table, b.table) if a.table and b.table else None,
        Clock().merge(time, a.clock, b.clock),
        join(a.entities, b.entities, entity),
        np.concatenate((a.times, b.times)),
        {name: count + b.dropped[name] for name, count in a.dropped.items()},
    )


def describe(
    state: SequenceState, rows: TableSchema, observed: tuple[str, ...], ties: str, max_events: int | None
) -> SequenceSchema:
    """The sequences of all rows, as ``transform`` would give them, and all gaps between rows."""
    order = sorted_order(state.entities.codes, state.times)
    codes, times = state.entities.codes[order], state.times[order]
    same = codes[1:] == codes[:-1]
    gaps = seconds(times[1:], times[:-1])[same]
    gaps = gaps[gaps > 0]
    if ties == "merge":
        first = np.concatenate(([True], ~same | (times[1:] != times[:-1])))
        codes, times = codes[first], times[first]
    starts = starts_of(codes)
    first, last = starts[:-1], starts[1:] - 1
    first = first if max_events is None else np.maximum(first, last - max_events + 1)
    return SequenceSchema(
        rows,
        observed,
        ties == "strict",
        len(first),
        int((last - first).max()) + 1,
        float(seconds(times[last], times[first]).max()),
        tuple(np.quantile(gaps, np.linspace(0, 1, 101)).tolist()) if len(gaps) else (),
    )
