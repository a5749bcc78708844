"""A table of events in, sequences out: the rows of every entity in time order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tabembed.schema import MISSING_TIME, TableSchema
from tabembed.sequence.batch import SequenceBatch
from tabembed.sequence.order import Entities, elapsed_and_gap, read_entities, sorted_order, starts_of
from tabembed.sequence.rows import LANES, lay_out, no_columns
from tabembed.sequence.settings import check_settings, row_encoder
from tabembed.sequence.state import SequenceState, describe, merge_states
from tabembed.sequence.time_axis import Clock
from tabembed.table import TableEncoder
from tabembed.table.frame import Frame, read_frame


class SequenceEncoder(BaseEstimator):
    """Turn a table of events into sequences: the rows of every entity, sorted by time."""

    def __init__(
        self,
        entity: str,
        time: str,
        columns: Mapping[str, Any] | Sequence[str] | TableEncoder | None = None,
        *,
        observed: Sequence[str] = (),
        ties: str = "stable",
        max_events: int | None = None,
        on_missing: str = "error",
        unit: str = "s",
    ) -> None:
        self.entity = entity
        self.time = time
        self.columns = columns
        self.observed = observed
        self.ties = ties
        self.max_events = max_events
        self.on_missing = on_missing
        self.unit = unit

    def fit(self, X: Any, y: Any = None) -> SequenceEncoder:
        """Learn the columns and the clock; ``y`` is ignored."""
        return self.finalize(self.partial(X))

    def partial(self, X: Any) -> SequenceState:
        """What some of the rows say; ``merge`` and ``finalize`` make a fit of such parts."""
        check_settings(self)
        clock, frame = Clock(self.unit), read_frame(X)
        rows, names = row_encoder(self, frame.names)
        place = {name: i for i, name in enumerate(frame.names)}
        when = frame.column(place[self.time])
        state = clock.partial(self.time, when)
        times = clock.finalize(self.time, state).encode(when)
        entities = read_entities(frame.column(place[self.entity]), self.entity)
        kept, dropped = self._present(entities.codes, times)
        columns = {name: frame.column(place[name]) for name in names}
        if kept is not None:
            columns = {name: array.filter(kept) for name, array in columns.items()}
            entities, times = Entities(entities.keys, entities.codes[kept]), times[kept]
        table = rows.partial(columns) if columns else None
        return SequenceState(frame.names, frame.named, table, state, entities, times, dropped)

    def merge(self, a: SequenceState, b: SequenceState) -> SequenceState:
        """What the rows of both say; neither changes."""
        return merge_states(a, b, self.entity, self.time)

    def finalize(self, state: SequenceState) -> SequenceEncoder:
        """Give out ids, centres and scales, and measure the gaps between rows."""
        if not len(state.times):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: got 0 rows")
        table = None
        if state.table is not None:
            table = row_encoder(self, state.names)[0].finalize(state.table)
        self.table_encoder_ = table
        self.time_axis_ = Clock(self.unit).finalize(self.time, state.clock)
        rows = TableSchema(len(state.times), ()) if table is None else table.schema_
        self.schema_ = describe(state, rows, tuple(self.observed), self.ties, self.max_events)
        self.feature_names_in_ = np.array(state.names, dtype=object)
        self.n_features_in_ = len(state.names)
        self._named = state.named
        return self

    def transform(self, X: Any, cutoff: Any = None) -> SequenceBatch:
        """Encode rows; the table given is never changed."""
        check_is_fitted(self, "schema_")
        frame = read_frame(X)
        place = self._places(frame)
        times = self.time_axis_.encode(frame.column(place[self.time]))
        entities = read_entities(frame.column(place[self.entity]), self.entity)
        codes, row = entities.codes, None
        kept, dropped = self._present(codes, times)
        if kept is not None:
            row = np.flatnonzero(kept)
            codes, times = codes[row], times[row]
        order = sorted_order(codes, times)
        codes, times = codes[order], times[order]
        order = order if row is None else row[order]
        if self.table_encoder_ is None:
            rows = no_columns(len(order))
        else:
            names = self.table_encoder_.feature_names_in_
            batch = self.table_encoder_.transform({name: frame.column(place[name]) for name in names})
            lanes, lists = {name: getattr(batch, name) for name in LANES}, batch.lists
            del batch
            rows = lay_out(lanes, lists, torch.from_numpy(order))
        starts = starts_of(codes)
        elapsed, gap = elapsed_and_gap(times, starts)
        keys = entities.keys.take(codes[starts[:-1]])
        return SequenceBatch(
            rows,
            cu_seqlens=torch.from_numpy(starts.astype(np.int32)),
            entities=keys.to_numpy(zero_copy_only=False),
            times=torch.from_numpy(times),
            elapsed=torch.from_numpy(elapsed),
            gap=torch.from_numpy(gap),
            row=torch.from_numpy(order),
            n_input=frame.n_rows,
        )

    @property
    def kinds_(self) -> dict[str, str]:
        """Kind of every column of a row: categorical, continuous, datetime or list."""
        return {} if self.table_encoder_ is None else self.table_encoder_.kinds_

    @property
    def categories_(self) -> dict[str, np.ndarray]:
        """Known values of every categorical column; position i has the id 3 + i."""
        return {} if self.table_encoder_ is None else self.table_encoder_.categories_

    def _present(self, codes: np.ndarray, times: np.ndarray) -> tuple[np.ndarray | None, dict[str, int]]:
        """Which rows have an entity and a time (None: all of them), and how many lack which."""
        missing = {self.entity: codes < 0, self.time: times == MISSING_TIME}
        counts = {name: int(gone.sum()) for name, gone in missing.items()}
        if not any(counts.values()):
            return None, counts
        if self.on_missing == "error":
            name, count = next((n, c) for n, c in counts.items() if c)
            raise ValueError(
                f"column {name!r}: must not be missing, got {count} of {len(codes)} rows without it; "
                "on_missing='drop' leaves them out"
            )
        return ~(missing[self.entity] | missing[self.time]), counts

    def _places(self, frame: Frame) -> dict[str, int]:
        names, needed = set(frame.names), {self.entity, self.time}
        if self.table_encoder_ is not None:
            needed |= set(self.table_encoder_.feature_names_in_)
        if frame.named and (self._named or needed <= names):
            for name in sorted(needed - names):
                raise ValueError(f"column {name!r}: must be in the table, which has {list(frame.names)}")
            return {name: i for i, name in enumerate(frame.names)}
        if len(frame.names) != self.n_features_in_:
            raise ValueError(
                f"X has {len(frame.names)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return {name: i for i, name in enumerate(self.feature_names_in_)}
