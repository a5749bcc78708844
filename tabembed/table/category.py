"""A column of categories: one value a row, one id a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tabembed.artifact import ArtifactError
from tabembed.schema import FIRST_KNOWN, MISSING, UNKNOWN, CategoricalColumn
from tabembed.table.canonical import canonical, common_type, family
from tabembed.table.distinct import Distinct
from tabembed.table.parts import merge_all
from tabembed.table.vocabulary import Vocabulary
from tabembed.table.warn import warn_user

_AT_A_TIME = 1 << 21
"""Rows that are counted at once: a table of many more distinct values takes several times their memory."""


@dataclass(frozen=True)
class CategoryState:
    """Counts of a categorical column over the rows seen so far.

    Args:
        distinct: its values and their counts.
        n_missing: rows without a value.
        declared: the order that the data declared for its values.
        is_ranked: the values lie in the order of their ids.
    """

    distinct: Distinct
    n_missing: int
    declared: pa.Array | None = None
    is_ranked: bool = False

    def ranked(self) -> CategoryState:
        """The same with its values in the order of their ids: a vocabulary shares their memory."""
        return self if self.is_ranked else replace(self, distinct=self.distinct.ranked(), is_ranked=True)


@dataclass(frozen=True)
class Categorical:
    """Spec of a column of categories.

    Args:
        min_frequency: rows (int) or share of the rows (float) that a value needs to be known;
            rarer values share the unknown id. ``None`` takes the encoder's setting.
        max_categories: most values that are known, the most frequent ones.
            ``None`` takes the encoder's setting.

    Raises: ValueError when a setting is out of range.

    >>> Categorical(min_frequency=5)
    Categorical(min_frequency=5, max_categories=None)
    """

    min_frequency: int | float | None = None
    max_categories: int | None = None

    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        check_frequency(self.min_frequency, self.max_categories)

    @staticmethod
    def accepts(kind: pa.DataType) -> bool:
        """Text, booleans and dictionaries are categories without a word."""
        return pa.types.is_dictionary(kind) or pa.types.is_null(kind) or family(kind) in ("text", "booleans")

    def with_defaults(self, encoder: Any) -> Categorical:
        """The same spec, settings left open taken from the encoder."""
        return replace(
            self,
            min_frequency=encoder.min_frequency if self.min_frequency is None else self.min_frequency,
            max_categories=encoder.max_categories if self.max_categories is None else self.max_categories,
        )

    def partial(self, name: str, array: pa.Array) -> CategoryState:
        """Count the values of one column."""
        declared = None
        if pa.types.is_dictionary(array.type):
            if array.type.ordered:
                declared = canonical(array.dictionary, name)
            array = array.dictionary_decode()
        n = max(len(array), 1)
        parts = (array.slice(begin, _AT_A_TIME) for begin in range(0, n, _AT_A_TIME))
        states = (CategoryState(_counted(part, name), part.null_count, declared) for part in parts)
        return merge_all(states, partial(self.merge, name))

    def merge(self, name: str, a: CategoryState, b: CategoryState) -> CategoryState:
        """Counts over the rows of both."""
        kind = common_type(a.distinct.values.type, b.distinct.values.type, name)
        try:
            ours, theirs = (replace(s.distinct, values=_exactly(s.distinct.values, kind)) for s in (a, b))
        except pa.ArrowInvalid as error:
            raise ValueError(f"column {name!r}: its parts must fit one type of number ({error})") from None
        declared = _one_order(a.declared, b.declared)
        return CategoryState(ours.merge(theirs), a.n_missing + b.n_missing, declared)

    def finalize(self, name: str, state: CategoryState, n_rows: int) -> CategoryEncoder:
        """Give out the ids: by falling count, ties by value."""
        known, counts = rank(self, name, state, n_rows)
        vocabulary = Vocabulary(known, name)
        ordered = None
        if state.declared is not None and len(state.declared):
            ids = vocabulary.encode(state.declared)
            ordered = tuple(ids[ids >= FIRST_KNOWN].tolist())
        return CategoryEncoder(vocabulary, CategoricalColumn(name, counts, ordered))


@dataclass(frozen=True)
class CategoryEncoder:
    """A fitted column of categories."""

    vocabulary: Vocabulary
    column: CategoricalColumn

    lane: ClassVar[str] = "ids"
    kind: ClassVar[str] = "categorical"

    def encode(self, array: pa.Array) -> np.ndarray:
        """Ids of one column's values."""
        return self.vocabulary.encode(array)

    def decode(self, ids: np.ndarray) -> pa.Array:
        """Values of ids; missing and unknown both become null."""
        return self.vocabulary.decode(ids)

    def to_artifact(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON and arrays that ``from_artifact`` turns back into this column."""
        kind, arrays = self.vocabulary.to_artifact()
        ordered = list(self.column.ordered) if self.column.ordered is not None else None
        return {"type": kind, "ordered": ordered}, {
            **arrays,
            "counts": np.array(self.column.counts, np.int64),
        }

    @classmethod
    def from_artifact(
        cls, name: str, config: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> CategoryEncoder:
        """Rebuild what ``to_artifact`` gave."""
        ordered = tuple(config["ordered"]) if config["ordered"] is not None else None
        vocabulary, counts = load_vocabulary(name, config, arrays)
        return cls(vocabulary, CategoricalColumn(name, counts, ordered))


def check_frequency(min_frequency: Any, max_categories: Any) -> None:
    """Check the two settings that decide which values are known."""
    for name, number, kind in (
        ("min_frequency", min_frequency, Real),
        ("max_categories", max_categories, Integral),
    ):
        if number is not None and (isinstance(number, bool) or not isinstance(number, kind)):
            raise TypeError(
                f"{name} must be None or {'an int' if kind is Integral else 'a number'}, got {number!r}"
            )
    if min_frequency is not None and not isinstance(min_frequency, Integral) and not 0 < min_frequency < 1:
        raise ValueError(f"min_frequency must lie between 0 and 1 as a share of rows, got {min_frequency}")
    if isinstance(min_frequency, Integral) and min_frequency < 1:
        raise ValueError(f"min_frequency must be at least 1 as a number of rows, got {min_frequency}")
    if max_categories is not None and max_categories < 1:
        raise ValueError(f"max_categories must be at least 1, got {max_categories}")


def rank(spec: Any, name: str, state: CategoryState, n_rows: int) -> tuple[pa.Array, tuple[int, ...]]:
    """Known values by falling count, ties by value, and the counts of every id."""
    needed = spec.min_frequency or 1
    needed = needed if isinstance(needed, Integral) else needed * n_rows
    distinct = state.ranked().distinct
    counts = distinct.counts
    n_known = int((counts >= needed).sum())
    n_known = n_known if spec.max_categories is None else min(n_known, spec.max_categories)
    reserved = np.zeros(FIRST_KNOWN, np.int64)
    reserved[MISSING], reserved[UNKNOWN] = state.n_missing, counts[n_known:].sum() + distinct.n_left_out
    if distinct.n_left_out:
        n, error = distinct.n_estimated()
        warn_user(
            f"column {name!r}: has about {n:,.0f} values (± {error:.2%}), more than the {len(counts):,} "
            f"that are counted; the {distinct.n_left_out:,} of its cells with the others count as unknown"
        )
    known = distinct.values.slice(0, n_known)
    return known, _as_tuple(np.concatenate([reserved, counts[:n_known]]))


def load_vocabulary(
    name: str, config: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[Vocabulary, tuple[int, ...]]:
    """Vocabulary and counts of a saved column."""
    vocabulary = Vocabulary.from_artifact(name, config["type"], arrays)
    if len(arrays["counts"]) != FIRST_KNOWN + len(vocabulary):
        raise ArtifactError(f"column {name!r}: must have one count an id, got {len(arrays['counts'])}")
    return vocabulary, _as_tuple(arrays["counts"])


def _as_tuple(counts: np.ndarray) -> tuple[int, ...]:
    """Counts as Python's numbers, a part at a time: a list of them all would stand beside the tuple."""
    parts = (counts[begin : begin + _AT_A_TIME] for begin in range(0, len(counts), _AT_A_TIME))
    return tuple(chain.from_iterable(part.tolist() for part in parts))


def _counted(array: pa.Array, name: str) -> Distinct:
    return Distinct.of(canonical(array, name).drop_null())


def _exactly(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values in another type; Arrow refuses every whole number beyond 2**53 as float64."""
    if not pa.types.is_float64(kind) or not pa.types.is_integer(values.type):
        return values.cast(kind)
    whole = values.to_numpy()
    floats = whole.astype(np.float64)
    with np.errstate(invalid="ignore"):
        lost = whole[floats.astype(whole.dtype) != whole]
    if len(lost):
        raise pa.ArrowInvalid(f"float64 cannot hold {lost[0]}")
    return pa.array(floats)


def _one_order(a: pa.Array | None, b: pa.Array | None) -> pa.Array | None:
    """Orders that contradict each other leave none: an empty one, which contradicts all that follow."""
    if a is None or b is None:
        return a if b is None else b
    return a if a.equals(b) else a.slice(0, 0)
