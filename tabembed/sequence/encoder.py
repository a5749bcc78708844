"""A table of events in, sequences out: the rows of every entity in time order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from tabembed.artifact import load, write
from tabembed.schema import SequenceSchema, TableSchema
from tabembed.sequence.batch import SequenceBatch
from tabembed.sequence.build import append, build, check_appendable, counts_cut, keep_last, say_cut
from tabembed.sequence.missing import LeftOut, present
from tabembed.sequence.order import Entities, read_entities, sorted_order
from tabembed.sequence.rows import LANES, no_columns, take_rows, without_cells
from tabembed.sequence.saved import from_artifact, to_artifact
from tabembed.sequence.settings import Rule, check_settings, row_encoder
from tabembed.sequence.state import SequenceParts, describe, merge_states
from tabembed.sequence.stream import SequenceStreaming
from tabembed.sequence.ties import merge_ties, refuse_ties
from tabembed.sequence.time_axis import Clock, TimeAxis
from tabembed.table import TableEncoder
from tabembed.table.canonical import family
from tabembed.table.frame import Frame, places_in, read_frame
from tabembed.table.in_html import ColumnsInHtml, fitted_columns
from tabembed.table.report import DriftReport, report


class SequenceEncoder(SequenceStreaming, ColumnsInHtml, BaseEstimator):
    """Turn a table of events into sequences: the rows of every entity, sorted by time.

    Equal times keep the order of the table. Entities need not be known from the fit, and nothing
    is learned of any of them.

    Args:
        entity: column that says whose row it is: text, numbers, booleans, dates or times.
        time: column that says when it happened: dates, times or numbers.
        columns: columns of a row, as for ``TableEncoder``, or an unfitted ``TableEncoder``. Entity
            and time are left out unless they are named.
        observed: columns that are known only after the row has happened, as a delay or an outcome. A
            row's vector holds the observed cells of the row before it, never its own.
        ties: what becomes of rows of one entity at one time. ``"stable"`` keeps them in the order of
            the table, and the later one sees the earlier, observed cells and all. With a clock as
            coarse as days that is a leak: use ``"strict"``, rows that do not see each other.
            ``"merge"`` makes one row of them, of every column the last cell that is not missing;
            ``"error"`` refuses them.
        max_events: most rows of an entity, counted back from its last row in the table; a warning says
            how many are left out. Where the cut lies depends on the rows that follow, so vectors of
            rows would know how many do: use it for one vector an entity.
        on_missing: ``"error"`` refuses rows without entity or time, ``"drop"`` leaves them out and
            warns of their number.
        unit: what a number in ``time`` counts: ``"ns"``, ``"us"``, ``"ms"``, ``"s"``, ``"m"``,
            ``"h"`` or ``"D"``.

    Raises:
        ValueError: for columns that are not there, missing entities and times, refused ties, times
            that do not fit int64 nanoseconds, a time zone where the fit had none.
        TypeError: for a time that is text, keys that are lists, values of another type than in the fit.

    >>> import pandas as pd
    >>> from tabembed import SequenceEncoder
    >>> table = pd.DataFrame({"who": ["b", "a", "b"], "day": [3, 5, 1], "city": ["Rome", "Oslo", "Oslo"]})
    >>> encoder = SequenceEncoder("who", "day", unit="D").fit(table)
    >>> batch = encoder.transform(table)
    >>> batch.entities.tolist(), batch.row.tolist(), batch.gap.tolist()
    (['a', 'b'], [1, 2, 0], [nan, nan, 172800.0])
    """

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

    def partial(self, X: Any) -> SequenceParts:
        """What some of the rows say; ``merge_states`` and ``finalize`` make a fit of such parts."""
        check_settings(self)
        clock, frame = Clock(self.unit), read_frame(X)
        rows, names = row_encoder(self, frame.names)
        place = {name: i for i, name in enumerate(frame.names)}
        when = frame.column(place[self.time])
        state = clock.partial(self.time, when)
        times = clock.finalize(self.time, state).encode(when)
        entities = read_entities(frame.column(place[self.entity]), self.entity)
        kept, missing = present(entities.codes, times, (self.entity, self.time), self.on_missing)
        columns = {name: frame.column(place[name]) for name in names}
        times = times.copy() if kept is None else times[kept]  # they may be the table's own memory
        if kept is not None:
            columns = {name: array.take(kept) for name, array in columns.items()}
            entities = Entities(entities.keys, entities.codes[kept])
        table = rows.partial(columns) if columns else None
        return SequenceParts(frame.names, frame.named, table, state, entities, times, missing)

    def merge_states(self, a: SequenceParts, b: SequenceParts) -> SequenceParts:
        """What the rows of both say; neither changes."""
        return merge_states(a, b, self.entity, self.time)

    def finalize(self, state: SequenceParts) -> SequenceEncoder:
        """Give out ids, centres and scales, and measure the gaps between rows."""
        state.missing.say()
        if not len(state.times):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: got 0 rows")
        table = None
        if state.table is not None:
            table = row_encoder(self, state.names)[0].finalize(state.table)
        axis = Clock(self.unit).finalize(self.time, state.clock)
        rows = TableSchema(len(state.times), ()) if table is None else table.schema_
        kind = family(state.entities.keys.type)
        schema = describe(state, rows, axis, self)
        self._set_fitted(table, axis, kind, schema, Rule.of(self), state.names, state.named)
        self._state = state if table is None else replace(state, table=table._state)  # one memory for both
        return self

    def transform(self, X: Any, cutoff: Any = None) -> SequenceBatch:
        """Encode rows; the table given is never changed.

        Args:
            X: a table with the columns of the fit, in any order; others are ignored. A table
                without names goes by position.
            cutoff: a moment on the clock, a date, a time, a numpy datetime64 or a number: later rows are
                left out, and the observed cells of rows at that moment are missing, so that the batch
                holds what was known then, to the instant: of a clock of days, before that day's outcomes.

        Raises: ValueError and TypeError as ``fit``, and for a cutoff that is no moment on the clock.
        """
        check_is_fitted(self, "schema_")
        return self._finish(self._encode(X, None if cutoff is None else self._moment(cutoff)))

    def append(self, batch: SequenceBatch, X: Any) -> SequenceBatch:
        """Add rows to a batch: what encoding all rows at once would give, X after the others.

        Rows may belong to any entity and come at any time. Of rows that ``max_events`` has cut away, a
        batch knows two times alone: of the first (as exactly as float64 holds seconds) and the last.

        Args:
            batch: what this encoder made, every entity once.
            X: further rows.

        Raises: ValueError for a batch of other columns, or one that holds an entity twice.
        """
        check_is_fitted(self, "schema_")
        new = self._encode(X, None)
        check_appendable(batch, new)
        return self._finish(append(batch.to("cpu"), new, self._rule.entity)).to(batch.times.device)

    def grow(self, categories: Mapping[str, Any]) -> SequenceEncoder:
        """A fitted encoder that knows more categories, as ``TableEncoder.grow`` gives it.

        Args:
            categories: values by the name of their column.

        Raises: as ``TableEncoder.grow``.
        """
        check_is_fitted(self, "schema_")
        table = self.table_encoder_
        if table is None:
            raise ValueError(f"categories must be of columns, got {list(categories)} where there are none")
        table, encoder = table.grow(categories), clone(self)
        schema, names = replace(self.schema_, rows=table.schema_), self.feature_names_in_.tolist()
        parts = (self.time_axis_, self.entity_family_, schema, self._rule, names, self._named)
        encoder._set_fitted(table, *parts)
        return encoder

    def report(self, X: Any) -> DriftReport:
        """How the columns of a table's rows differ from those of the fit; entity and time are not looked at.

        Args:
            X: as for ``TableEncoder.report``.

        Raises: ValueError when rows have no columns.
        """
        check_is_fitted(self, "schema_")
        if self.table_encoder_ is None:
            raise ValueError(f"report must be of columns, got {type(self).__name__} of entity and time alone")
        return report(self.table_encoder_, X, owner=self)

    @property
    def kinds_(self) -> dict[str, str]:
        """Kind of every column of a row: categorical, continuous, datetime or list."""
        return {} if self.table_encoder_ is None else self.table_encoder_.kinds_

    @property
    def categories_(self) -> dict[str, np.ndarray]:
        """Known values of every categorical column; position i has the id 3 + i."""
        return {} if self.table_encoder_ is None else self.table_encoder_.categories_

    def save(self, path: Any) -> None:
        """Write a folder with ``config.json`` and ``model.safetensors``."""
        write(path, type(self).__name__, *self.to_artifact())

    @classmethod
    def load(cls, path: Any) -> SequenceEncoder:
        """Read what ``save`` wrote.

        Raises: ArtifactError when the folder is damaged or is not a saved encoder.
        """
        return load(path, {cls.__name__: cls.from_artifact})

    def to_artifact(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The fitted encoder as JSON and named arrays."""
        check_is_fitted(self, "schema_")
        return to_artifact(self)

    @classmethod
    def from_artifact(cls, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> SequenceEncoder:
        """Rebuild what ``to_artifact`` gave."""
        return from_artifact(cls, config, arrays)

    def _set_fitted(
        self,
        table: TableEncoder | None,
        axis: TimeAxis,
        entity_family: str,
        schema: SequenceSchema,
        rule: Rule,
        names: Sequence[str],
        named: bool,
    ) -> None:
        self.table_encoder_ = table
        self.time_axis_ = axis
        self.entity_family_ = entity_family
        self.schema_ = schema
        self._rule = rule
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        self._named = named

    def _columns_shown(self) -> Any:
        if getattr(self, "table_encoder_", None) is None:
            return None
        columns = fitted_columns(self.table_encoder_)
        observed = columns["column"].isin(self.schema_.observed)
        columns.insert(2, "becomes known", observed.map({True: "after the row", False: "with the row"}))
        return columns

    def _encode(self, X: Any, cutoff: int | None) -> SequenceBatch:
        """Rows in order, ties and all."""
        frame = read_frame(X)
        names = [column.name for column in self.schema_.rows.columns]
        place = places_in(frame, (self._rule.entity, self._rule.time, *names), self)
        entities, times, row, missing = self._present(frame, place)
        missing.say()
        if cutoff is not None:
            row = np.flatnonzero(times <= cutoff) if row is None else row[times[row] <= cutoff]
        codes, times = (entities.codes, times) if row is None else (entities.codes[row], times[row])
        order = sorted_order(codes, times)
        codes, times = codes[order], times[order]
        order = order if row is None else row[order]
        rows = no_columns(len(order))
        if self.table_encoder_ is not None:
            batch = self.table_encoder_.transform({name: frame.column(place[name]) for name in names})
            lanes, lists = {name: getattr(batch, name) for name in LANES}, batch.lists
            del batch  # its columns are let go one by one
            rows = take_rows(lanes, lists, torch.from_numpy(order))
        if cutoff is not None:
            at = torch.from_numpy(times == cutoff)
            rows = without_cells(rows, self.schema_.rows, self.schema_.observed, at)
        return build(rows, Entities(entities.keys, codes), times, order, frame.n_rows)

    def _present(
        self, frame: Frame, place: Mapping[str, int]
    ) -> tuple[Entities, np.ndarray, np.ndarray | None, LeftOut]:
        """Whose rows they are, when they happened, which of them have both, and how many lack which."""
        rule = self._rule
        times = self.time_axis_.encode(frame.column(place[rule.time]))
        entities = read_entities(frame.column(place[rule.entity]), rule.entity, self.entity_family_)
        return entities, times, *present(entities.codes, times, (rule.entity, rule.time), rule.on_missing)

    def _finish(self, batch: SequenceBatch) -> SequenceBatch:
        """What becomes of ties, and of early rows."""
        batch, most = self._settled(batch), self._rule.max_events
        if most is None:
            return batch
        say_cut(most, *counts_cut(batch, most))
        return keep_last(batch, most)

    def _settled(self, batch: SequenceBatch) -> SequenceBatch:
        if self._rule.ties == "error":
            codes = np.repeat(np.arange(len(batch)), batch.lengths)
            refuse_ties(batch.entities, codes, batch.times.numpy(), self.time_axis_)
        if self._rule.ties == "merge":
            batch = merge_ties(batch)
        return batch

    def _moment(self, cutoff: Any) -> int:
        try:
            return self.time_axis_.instant(cutoff)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"cutoff must be a moment on the clock of the table, got {cutoff!r} ({error})"
            ) from None
