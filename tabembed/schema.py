"""What a fitted encoder knows, as frozen plain data: all that a module is built from.

Ids are reserved here and nowhere else: ``0`` padding, ``1`` missing, ``2`` unknown (rare values
and values never seen share it), and from ``3`` on the known values by falling count.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

PADDING, MISSING, UNKNOWN, FIRST_KNOWN = 0, 1, 2, 3
MISSING_TIME = -(2**63)
"""The int64 that stands for a missing time."""
FILL = {"ids": PADDING, "values": 0.0, "missing": False, "times": MISSING_TIME}
"""What stands where there is no row, by the names of the tensors of a table."""


@dataclass(frozen=True)
class CategoricalColumn:
    """One categorical column.

    Args:
        name: name of the column.
        counts: rows of the fit behind every id, reserved ids included; ``len(counts)`` is the
            number of ids. ``counts[UNKNOWN]`` counts the rare values.
        ordered: the order that the data declared for its values, as ids, or ``None``.
    """

    name: str
    counts: tuple[int, ...] = field(repr=False)
    ordered: tuple[int, ...] | None = None

    @property
    def n_ids(self) -> int:
        """Number of ids, the three reserved ones included."""
        return len(self.counts)

    @property
    def n_values(self) -> int:
        """Number of rows (of values, in a column of lists) that are not missing."""
        return sum(self.counts[UNKNOWN:])

    @property
    def n_known(self) -> int:
        """Number of known values."""
        return len(self.counts) - FIRST_KNOWN


@dataclass(frozen=True)
class ListColumn(CategoricalColumn):
    """One column that holds several values in every cell; counts are counts of values."""


@dataclass(frozen=True)
class ContinuousColumn:
    """One column of numbers; every statistic is over the finite values of the fit.

    Args:
        name: name of the column.
        n_values: number of finite values.
        n_missing: number of missing values.
        centre: what is subtracted, in the unit of the column.
        scale: what is divided by, in the unit of the column, positive.
        minimum: smallest value.
        maximum: largest value.
        mean: mean.
        std: population standard deviation.
        quantiles: values at evenly spaced levels from 0 to 1, not falling.
        points: values that span the column, scaled as ``TableBatch.values`` are, rising: its distinct
            values, or, where there are more than 1001, so many of them that no step between two holds
            more than a thousandth of the rows, heavy values apart.
        counts: rows of the fit that every point stands for: those above the point before it, up to
            and with its own value.
    """

    name: str
    n_values: int
    n_missing: int
    centre: float
    scale: float
    minimum: float
    maximum: float
    mean: float
    std: float
    quantiles: tuple[float, ...] = field(repr=False)
    points: tuple[float, ...] = field(repr=False)
    counts: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True)
class DatetimeColumn:
    """One column of instants; times are int64 nanoseconds since 1970-01-01 UTC.

    Args:
        name: name of the column.
        n_values: number of times.
        n_missing: number of missing times.
        minimum: earliest time.
        maximum: latest time.
        timezone: zone of the fit, ``None`` where the data named none.
    """

    name: str
    n_values: int
    n_missing: int
    minimum: int
    maximum: int
    timezone: str | None


Column = CategoricalColumn | ContinuousColumn | DatetimeColumn


@dataclass(frozen=True)
class TableSchema:
    """The columns of a fitted table, in the order in which a batch lays them out.

    Args:
        n_rows: number of rows of the fit.
        columns: the columns in the order of the table.

    >>> schema = TableSchema(4, (CategoricalColumn("city", (0, 0, 1, 2, 1)),))
    >>> [column.name for column in schema.categorical], schema["city"].n_known
    (['city'], 2)
    """

    n_rows: int
    columns: tuple[Column, ...]

    def __getitem__(self, name: str) -> Any:
        for column in self.columns:
            if column.name == name:
                return column
        raise ValueError(f"column {name!r}: not in the schema, which has {[c.name for c in self.columns]}")

    @property
    def categorical(self) -> tuple[CategoricalColumn, ...]:
        """Columns of ``TableBatch.ids``, in its order."""
        return tuple(c for c in self.columns if type(c) is CategoricalColumn)

    @property
    def continuous(self) -> tuple[ContinuousColumn, ...]:
        """Columns of ``TableBatch.values`` and ``TableBatch.missing``, in their order."""
        return tuple(c for c in self.columns if type(c) is ContinuousColumn)

    @property
    def datetime(self) -> tuple[DatetimeColumn, ...]:
        """Columns of ``TableBatch.times``, in its order."""
        return tuple(c for c in self.columns if type(c) is DatetimeColumn)

    @property
    def lists(self) -> tuple[ListColumn, ...]:
        """Columns of ``TableBatch.lists``, in its order."""
        return tuple(c for c in self.columns if type(c) is ListColumn)

    def select(self, names: Container[str]) -> TableSchema:
        """The same with some of its columns, in their order here."""
        return TableSchema(self.n_rows, tuple(c for c in self.columns if c.name in names))


@dataclass(frozen=True)
class SequenceSchema:
    """What a fitted encoder knows of sequences: the columns of their rows, and the scale of their clock.

    Args:
        rows: the columns of a row.
        observed: names of the columns that are known only after the row has happened.
        strict: rows at one instant do not see each other.
        n_sequences: number of sequences of the fit.
        longest: most rows of a sequence.
        span: longest time between the first and the last row of a sequence, in seconds.
        gaps: time between neighbours, those at one instant left out, in seconds: quantiles at evenly
            spaced levels from 0 to 1; empty where there are none.

    >>> columns = (CategoricalColumn("city", (0, 0, 1, 2, 1)), CategoricalColumn("late", (0, 0, 0, 3, 1)))
    >>> schema = SequenceSchema(TableSchema(4, columns), ("late",), False, 2, 3, 7200.0, (60.0, 3600.0))
    >>> [column.name for column in schema.known.columns], [column.name for column in schema.after.columns]
    (['city'], ['late'])
    """

    rows: TableSchema
    observed: tuple[str, ...]
    strict: bool
    n_sequences: int
    longest: int
    span: float
    gaps: tuple[float, ...] = field(repr=False)

    @property
    def known(self) -> TableSchema:
        """The columns that are known when a row happens."""
        return self.rows.select({column.name for column in self.rows.columns} - set(self.observed))

    @property
    def after(self) -> TableSchema:
        """The columns that are known only after it."""
        return self.rows.select(self.observed)
