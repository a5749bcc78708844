"""Whether what a file says of a table can be so: kinds, ranges and orders of everything in a schema."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tabembed.artifact.refusal import ArtifactError
from tabembed.schema import (
    FIRST_KNOWN,
    CategoricalColumn,
    ContinuousColumn,
    DatetimeColumn,
    SequenceSchema,
    TableSchema,
)

_ZONE = re.compile(r"[A-Za-z0-9_+:-]+(/[A-Za-z0-9_+:-]+)*")

_AT_A_TIME = 2**20


def check_table(schema: TableSchema) -> None:
    """Check a table's schema that was read from a file.

    Raises: ArtifactError naming the column and what is wrong with it.

    >>> check_table(TableSchema(4, (CategoricalColumn("city", (0, 0, 1, 3)),)))
    """
    _whole("n_rows", schema.n_rows)
    _names("columns", [column.name for column in schema.columns])
    for column in schema.columns:
        for kind, check in _CHECKS.items():
            if isinstance(column, kind):
                check(column)


def check_sequences(schema: SequenceSchema) -> None:
    """Check a schema of sequences that was read from a file.

    Raises: ArtifactError naming what is wrong with it.
    """
    check_table(schema.rows)
    _names("observed", schema.observed)
    for name in schema.observed:
        _must(any(column.name == name for column in schema.rows.columns), "observed", "name columns", name)
    _must(type(schema.strict) is bool, "strict", "be a bool", schema.strict)
    _whole("n_sequences", schema.n_sequences)
    _whole("longest", schema.longest)
    _numbers(span=schema.span, gaps=schema.gaps)
    _must(schema.span >= 0, "span", "be at least 0", schema.span)
    _must(all(gap >= 0 for gap in schema.gaps), "gaps", "be at least 0", schema.gaps)
    _must(_not_falling(schema.gaps), "gaps", "not fall", schema.gaps)


def check_names(**names: Any) -> None:
    """Lists of names of columns, each of them once.

    Raises: ArtifactError for anything else.
    """
    for what, given in names.items():
        _names(what, given)


def check_clock(column: DatetimeColumn) -> None:
    """Check a column of instants that was read from a file.

    Raises: ArtifactError naming the column and what is wrong with it.
    """
    where = f"column {column.name!r:.80}: "
    _whole(where + "n_values", column.n_values)
    _whole(where + "n_missing", column.n_missing)
    for end in (column.minimum, column.maximum):
        _must(type(end) is int and -(2**63) <= end < 2**63, where + "its range", "be whole nanoseconds", end)
    _must(column.minimum <= column.maximum, where + "its range", "rise", column.minimum)
    zone = column.timezone
    sound = zone is None or (isinstance(zone, str) and len(zone) < 64 and _ZONE.fullmatch(zone))
    _must(bool(sound), where + "its timezone", "be the name of one", zone)


def _categories(column: CategoricalColumn) -> None:
    where = f"column {column.name!r:.80}: "
    _must(len(column.counts) >= FIRST_KNOWN, where + "its counts", "have the reserved ids", column.counts)
    for count in column.counts:
        _whole(where + "its counts", count)
    if (ordered := column.ordered) is not None:
        whole = all(type(one) is int and FIRST_KNOWN <= one < column.n_ids for one in ordered)
        _must(
            whole and len(set(ordered)) == len(ordered), where + "its order", "be one of known ids", ordered
        )


def _numeric(column: ContinuousColumn) -> None:
    where = f"column {column.name!r:.80}: "
    _whole(where + "n_values", column.n_values)
    _whole(where + "n_missing", column.n_missing)
    for name in ("centre", "scale", "minimum", "maximum", "mean", "std", "quantiles", "points"):
        _numbers(**{where + name: getattr(column, name)})
    _must(column.scale > 0, where + "its scale", "be above 0", column.scale)
    _must(column.std >= 0, where + "its std", "be at least 0", column.std)
    _must(column.minimum <= column.maximum, where + "its range", "rise", column.minimum)
    _must(_not_falling(column.quantiles), where + "its quantiles", "not fall", column.quantiles)


def check_same(given: Mapping[str, np.ndarray], again: Mapping[str, np.ndarray]) -> None:
    """The arrays of a file are those that what was made of them would save: none more, of no other dtype.

    Raises: ArtifactError naming one that is not.
    """
    for name in given.keys() ^ again.keys():
        raise ArtifactError(f"array {name!r:.80} must be one of its columns' own, got no use for it")
    for name, array in given.items():
        one, other = (f"{a.dtype} {list(a.shape)}" for a in (array, again[name]))
        _must(one == other, f"array {name!r:.80}", f"be {other}", one)
        parts = zip(_bytes(array), _bytes(again[name]), strict=True)
        same = all(np.array_equal(a, b) for a, b in parts)
        _must(same, f"array {name!r:.80}", "hold what it says", "values that its column changes")


def _bytes(array: np.ndarray) -> Iterator[np.ndarray]:
    """The bytes of an array, a part at a time: what a comparison of them all would take is not small."""
    flat = array.reshape(-1).view(np.uint8)
    return (flat[begin : begin + _AT_A_TIME] for begin in range(0, len(flat), _AT_A_TIME))


_CHECKS: dict[type, Any] = {
    CategoricalColumn: _categories,
    ContinuousColumn: _numeric,
    DatetimeColumn: check_clock,
}


def _names(what: str, given: Any) -> None:
    sound = isinstance(given, Sequence) and all(isinstance(name, str) for name in given)
    _must(sound and not isinstance(given, str), what, "be names", given)
    _must(len(set(given)) == len(given), what, "be named once", given)


def _whole(what: str, number: Any) -> None:
    _must(type(number) is int and 0 <= number < 2**63, what, "be a whole number of at least 0", number)


def _numbers(**given: Any) -> None:
    for what, value in given.items():
        for number in value if isinstance(value, tuple) else (value,):
            _must(_is_finite(number), what, "be finite numbers", number)


def _is_finite(number: Any) -> bool:
    # Neither NaN nor a whole number that no float holds.
    return type(number) in (int, float) and abs(number) <= sys.float_info.max


def _not_falling(values: Iterable[float]) -> bool:
    return all(a <= b for a, b in pairwise(values))


def _must(sound: bool, what: str, rule: str, got: Any) -> None:
    if not sound:
        raise ArtifactError(f"{what} must {rule}, got {got!r:.60}")
