"""A table in, tensors out: every column goes to its own room and comes back as part of a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from tabembed.artifact import load, write
from tabembed.batch import Ragged, TableBatch
from tabembed.schema import TableSchema
from tabembed.table.category import check_frequency
from tabembed.table.frame import places_in, read_frame, to_pandas
from tabembed.table.grow import grown
from tabembed.table.in_html import ColumnsInHtml, fitted_columns
from tabembed.table.kinds import given_specs, spec_by_type
from tabembed.table.saved import from_artifact, to_artifact
from tabembed.table.scaler import check_scaler
from tabembed.table.state import Decided, TableState, Undecided
from tabembed.table.stream import TableStreaming
from tabembed.table.warn import warn_user

if TYPE_CHECKING:
    import pandas as pd

    from tabembed.table.report import DriftReport

_MANY_ROWS = 50_000


class TableEncoder(TableStreaming, ColumnsInHtml, BaseEstimator):
    """Turn tables into tensors, the same way every time.

    Without a word from you the dtype alone decides what a column is: text, booleans and categories
    are ``Categorical``; numbers ``Continuous``; dates and times ``Datetime``; lists
    ``CategoricalList``. ``kinds_`` shows the decision, ``columns`` changes it.

    Args:
        columns: spec by column name; ``"drop"`` leaves a column out. A sequence of names keeps
            only those. Columns that are not named are decided by their dtype.
        min_frequency: rows (int) or share of rows (float) that a category needs to be known.
        max_categories: most categories that are known in a column.
        scaler: ``"squash"`` (median and IQR, smooth clip at ±3), ``"standard"``, ``"quantile"``
            or ``None``. Squash is lossy far out; standard is inverted to 1e-5.

    Raises:
        ValueError: for a table without rows, columns that are missing or stand twice.
        TypeError: for columns of mixed types, or of another type than in the fit.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"city": ["Oslo", "Rome", "Rome", None], "km": [1.0, 2.0, 3.0, None]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.kinds_
    {'city': 'categorical', 'km': 'continuous'}
    >>> encoder.transform(table).ids[:, 0].tolist()
    [4, 3, 3, 1]
    """

    def __init__(
        self,
        columns: Mapping[str, Any] | Sequence[str] | None = None,
        *,
        min_frequency: int | float | None = None,
        max_categories: int | None = None,
        scaler: str | None = "squash",
    ) -> None:
        self.columns = columns
        self.min_frequency = min_frequency
        self.max_categories = max_categories
        self.scaler = scaler

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn vocabularies and statistics; ``y`` is ignored."""
        return self.finalize(self.partial(X))

    def partial(self, X: Any) -> TableState:
        """What some of the rows say; ``merge_states`` and ``finalize`` make a fit of such parts."""
        check_frequency(self.min_frequency, self.max_categories)
        check_scaler(self.scaler, "scaler")
        frame = read_frame(X)
        specs = given_specs(self.columns, frame.names)
        if not specs:
            raise ValueError(
                f"table must have at least one column, got 0 feature(s) (shape=({frame.n_rows}, 0)) "
                "while a minimum of 1 is required."
            )
        place = {name: i for i, name in enumerate(frame.names)}

        def count(name: str) -> Decided | Undecided:
            array = frame.column(place[name])
            spec = (specs[name] or spec_by_type(name, array.type)).with_defaults(self)
            if array.null_count == len(array):
                return Undecided(spec, len(array))
            return Decided(spec, spec.partial(name, array))

        columns = side_by_side(count, list(specs), frame.n_rows)
        return TableState(frame.n_rows, frame.names, frame.named, dict(zip(specs, columns, strict=True)))

    def finalize(self, state: TableState) -> TableEncoder:
        """Give out ids, centres and scales."""
        if state.n_rows == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: got 0 rows")
        state = state.ranked()
        fitted = {name: column.finalize(name, state.n_rows) for name, column in state.columns.items()}
        empty = [f"column {name!r} ({c.kind})" for name, c in fitted.items() if not c.column.n_values]
        if empty:
            warn_user(f"{', '.join(empty)}: no value in the fit, so nothing is known of it")
        self._set_fitted(fitted, state.n_rows, state.names, state.named)
        self._state = state
        return self

    def transform(self, X: Any) -> TableBatch:
        """Encode rows; the table given is never changed.

        Args:
            X: a table with the columns of the fit, in any order; others are ignored. A table
                without names goes by position.
        """
        check_is_fitted(self, "schema_")
        frame = read_frame(X)
        n, schema, place = frame.n_rows, self.schema_, places_in(frame, self.columns_, self)
        ids = np.empty((len(schema.categorical), n), np.int64)
        times = np.empty((len(schema.datetime), n), np.int64)
        values = np.empty((len(schema.continuous), n), np.float32)
        missing = np.empty((len(schema.continuous), n), bool)
        lists: dict[str, Ragged] = {}

        def encode(name: str, row: int) -> None:
            array, column = frame.column(place[name]), self.columns_[name]
            match column.lane:
                case "ids":
                    ids[row] = column.encode(array)
                case "values":
                    values[row], missing[row] = column.encode(array)
                case "times":
                    times[row] = column.encode(array)
                case "lists":
                    lists[name] = column.encode(array)

        rows = self._rows()
        side_by_side(lambda name: encode(name, rows[name]), list(rows), n)
        lists = {column.name: lists[column.name] for column in schema.lists}
        # Columns lie one after the other in memory, as a table's do; the batch is the view by rows.
        lanes = {"ids": ids, "values": values, "missing": missing, "times": times}
        return TableBatch(**{k: torch.from_numpy(lane).T for k, lane in lanes.items()}, lists=lists)  # type: ignore[arg-type]

    def inverse_transform(self, batch: TableBatch) -> pd.DataFrame:
        """The table that a batch came from: missing and unknown categories come back as missing."""
        check_is_fitted(self, "schema_")
        batch = batch.to("cpu")
        lanes = {"ids": batch.ids.numpy(), "times": batch.times.numpy()}
        values, missing, columns = batch.values.numpy(), batch.missing.numpy(), {}
        for name, i in self._rows().items():
            column = self.columns_[name]
            if column.lane == "lists":
                columns[name] = column.decode(batch.lists[name])
            elif column.lane == "values":
                columns[name] = column.decode(values[:, i], missing[:, i])
            else:
                columns[name] = column.decode(lanes[column.lane][:, i])
        return to_pandas(columns)

    def grow(self, categories: Mapping[str, Any]) -> TableEncoder:
        """A fitted encoder that knows more categories; ids of those that are known stay as they are.

        New categories get the ids after them, sorted by value, and a count of 0: no row of the fit was read
        as one. ``min_frequency`` and ``max_categories`` do not hold them back. ``TableEmbedding.grow`` adds
        their rows to a module.

        Args:
            categories: values by the name of their column: lists, or whole columns of a new table. Missing
                ones and those that are known already are passed over.

        Raises: ValueError when a column has no categories. TypeError for values of another type than in the
            fit, and for what is no dict.

        >>> import pandas as pd
        >>> encoder = TableEncoder().fit(pd.DataFrame({"city": ["Oslo", "Rome", "Rome"]}))
        >>> more = encoder.grow({"city": ["Paris", "Rome", "Bergen"]})
        >>> more.categories_["city"].tolist(), more.schema_["city"].counts
        (['Rome', 'Oslo', 'Bergen', 'Paris'], (0, 0, 0, 2, 1, 0, 0))
        """
        check_is_fitted(self, "schema_")
        if not isinstance(categories, Mapping):
            got = type(categories).__name__
            raise TypeError(f"categories must be a dict of values by column, got {got}")
        for name in categories:
            if not hasattr(self.columns_.get(name), "vocabulary"):
                raise ValueError(f"column {name!r}: must have categories to grow by, got {self._what(name)}")
        encoder, more = clone(self), {n: grown(self.columns_[n], v) for n, v in categories.items()}
        names = self.feature_names_in_.tolist()
        encoder._set_fitted({**self.columns_, **more}, self.schema_.n_rows, names, self._named)
        return encoder

    def report(self, X: Any) -> DriftReport:
        """How a table differs from the one of the fit, column by column; what it holds is refused nowhere.

        Args:
            X: a table, as ``transform`` takes it; or the path of a parquet file or a folder of them, or a
                ``pyarrow.dataset.Dataset``, which is read batch by batch.

        >>> import pandas as pd
        >>> encoder = TableEncoder().fit(pd.DataFrame({"city": ["Oslo", "Rome"] * 50, "km": range(100)}))
        >>> now = pd.DataFrame({"city": ["Oslo", "Rom", None, "Oslo"], "km": [0, 9, 99, 400]})
        >>> encoder.report(now).frame[["column", "unseen", "missing", "out_of_range"]]
          column  unseen  missing  out_of_range
        0   city    0.25     0.25           NaN
        1     km     NaN     0.00          0.25
        """
        from tabembed.table.report import report

        check_is_fitted(self, "schema_")
        return report(self, X)

    def _what(self, name: str) -> str:
        kinds = self.kinds_
        return f"a column that is {kinds[name]}" if name in kinds else f"none of {list(kinds)}"

    @property
    def kinds_(self) -> dict[str, str]:
        """Kind of every column: categorical, continuous, datetime or list."""
        return {name: column.kind for name, column in self.columns_.items()}

    @property
    def categories_(self) -> dict[str, np.ndarray]:
        """Known values of every categorical column; position i has the id 3 + i."""
        return {
            name: column.vocabulary.as_objects()
            for name, column in self.columns_.items()
            if hasattr(column, "vocabulary")
        }

    def save(self, path: Any) -> None:
        """Write a folder with ``config.json`` and ``model.safetensors``."""
        write(path, type(self).__name__, *self.to_artifact())

    @classmethod
    def load(cls, path: Any) -> TableEncoder:
        """Read what ``save`` wrote.

        Raises: ArtifactError when the folder is damaged or is not a saved encoder.
        """
        return load(path, {cls.__name__: cls.from_artifact})

    def to_artifact(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The fitted encoder as JSON and named arrays."""
        check_is_fitted(self, "schema_")
        return to_artifact(self)

    @classmethod
    def from_artifact(cls, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> TableEncoder:
        """Rebuild what ``to_artifact`` gave."""
        return from_artifact(cls, config, arrays)

    def _set_fitted(self, fitted: dict[str, Any], n_rows: int, names: Sequence[str], named: bool) -> None:
        self.columns_ = fitted
        self.schema_ = TableSchema(n_rows, tuple(column.column for column in fitted.values()))
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        self._named = named

    def _columns_shown(self) -> pd.DataFrame | None:
        return fitted_columns(self) if hasattr(self, "schema_") else None

    def _rows(self) -> dict[str, int]:
        """Place of every column among those of its lane."""
        count: Counter[str] = Counter()
        rows = {}
        for name, column in self.columns_.items():
            rows[name] = count[column.lane]
            count[column.lane] += 1
        return rows


def side_by_side(function: Callable[[str], Any], names: list[str], n_rows: int) -> list[Any]:
    """Apply a function to every column; Arrow and numpy let go of the interpreter meanwhile."""
    if n_rows < _MANY_ROWS:
        return [function(name) for name in names]
    contexts = [copy_context() for _ in names]  # what holds warnings holds those of threads, too
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return list(pool.map(lambda context, name: context.run(function, name), contexts, names))
