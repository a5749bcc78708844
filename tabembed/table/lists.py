"""A column with several categories in every cell: ids and offsets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tabembed.batch import Ragged
from tabembed.schema import ListColumn
from tabembed.table.canonical import family
from tabembed.table.category import Categorical, CategoryState, check_frequency, load_vocabulary, rank
from tabembed.table.vocabulary import Vocabulary


@dataclass(frozen=True)
class CategoricalList:
    """Spec of a column of lists of categories.

    Args:
        separator: what stands between the values when a cell is text; values are stripped of
            blanks. Empty text is an empty list, nothing between two separators is a gap.
        min_frequency: occurrences (int) or occurrences per row (float) that a value needs.
        max_categories: most values that are known.

    Raises: ValueError when a setting is out of range.

    >>> CategoricalList(separator="|")
    CategoricalList(separator='|', min_frequency=None, max_categories=None)
    """

    separator: str | None = None
    min_frequency: int | float | None = None
    max_categories: int | None = None

    kind: ClassVar[str] = "list"

    def __post_init__(self) -> None:
        check_frequency(self.min_frequency, self.max_categories)
        if self.separator == "":
            raise ValueError("CategoricalList.separator must not be empty, got ''")

    @staticmethod
    def accepts(kind: pa.DataType) -> bool:
        """Lists of any length type."""
        return (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
            or pa.types.is_list_view(kind)
            or pa.types.is_large_list_view(kind)
        )

    def with_defaults(self, encoder: Any) -> CategoricalList:
        """The same spec, settings left open taken from the encoder."""
        values = Categorical(self.min_frequency, self.max_categories).with_defaults(encoder)
        return replace(self, min_frequency=values.min_frequency, max_categories=values.max_categories)

    def partial(self, name: str, array: pa.Array) -> CategoryState:
        """Count the values inside one column's cells; a missing cell counts as one missing value."""
        values, _, missing = cells(array, self.separator, name)
        state = Categorical().partial(name, values)
        return replace(state, n_missing=state.n_missing + int(missing.sum()))

    def merge(self, name: str, a: CategoryState, b: CategoryState) -> CategoryState:
        """Counts over the rows of both."""
        return Categorical().merge(name, a, b)

    def finalize(self, name: str, state: CategoryState, n_rows: int) -> ListEncoder:
        """Give out the ids: by falling count, ties by value."""
        known, counts = rank(self, name, state, n_rows)
        return ListEncoder(Vocabulary(known, name), ListColumn(name, counts), self.separator)


@dataclass(frozen=True)
class ListEncoder:
    """A fitted column of lists."""

    vocabulary: Vocabulary
    column: ListColumn
    separator: str | None

    lane: ClassVar[str] = "lists"
    kind: ClassVar[str] = "list"

    def encode(self, array: pa.Array) -> Ragged:
        """Ids of all cells, one after the other, and where each cell begins."""
        values, lengths, missing = cells(array, self.separator, self.column.name)
        offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        ids = self.vocabulary.encode(values)
        return Ragged(*(torch.from_numpy(np.array(a)) for a in (ids, offsets, missing)))

    def decode(self, ragged: Ragged) -> pa.Array:
        """Lists of values (text again where a separator was given), null where a cell is missing."""
        values = self.vocabulary.decode(ragged.ids.numpy())
        lists = list_array(values, np.diff(ragged.offsets.numpy()), ragged.missing.numpy())
        if self.separator is None:
            return lists
        text = (
            None if cell is None else self.separator.join(v or "" for v in cell) for cell in lists.to_pylist()
        )
        return pa.array(text, pa.large_string())

    def to_artifact(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON and arrays that ``from_artifact`` turns back into this column."""
        kind, arrays = self.vocabulary.to_artifact()
        config = {"type": kind, "separator": self.separator}
        return config, {**arrays, "counts": np.array(self.column.counts, np.int64)}

    @classmethod
    def from_artifact(cls, name: str, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> ListEncoder:
        """Rebuild what ``to_artifact`` gave."""
        vocabulary, counts = load_vocabulary(name, config, arrays)
        return cls(vocabulary, ListColumn(name, counts), config["separator"])


def cells(array: pa.Array, separator: str | None, name: str) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """Values of all cells one after the other, number of values in each, and where a cell is missing."""
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if missing.all() and not CategoricalList.accepts(array.type):
        return pa.nulls(0), np.zeros(len(array), np.int64), missing
    if not CategoricalList.accepts(array.type):
        array = split(array, separator, name)
    lengths = pc.list_value_length(array).cast(pa.int64()).fill_null(0).to_numpy()
    return array.flatten(), lengths, missing


def split(array: pa.Array, separator: str | None, name: str) -> pa.Array:
    """Text as lists of its parts: empty text is an empty list, an empty part is a gap."""
    if family(array.type) != "text":
        raise TypeError(
            f"column {name!r}: must hold lists, or text with a separator, got {family(array.type)}"
        )
    if separator is None:
        raise TypeError(f"column {name!r}: must have a separator, as CategoricalList(','), got text")
    text = pc.utf8_trim_whitespace(array.cast(pa.large_string()))
    pieces = pc.split_pattern(text, separator)
    parts = pc.utf8_trim_whitespace(pieces.flatten())
    parts = pc.if_else(pc.equal(parts, ""), None, parts)
    lengths = pc.list_value_length(pieces).cast(pa.int64()).fill_null(0).to_numpy()
    empty = pc.equal(text, "").fill_null(False).to_numpy(zero_copy_only=False)
    parts = parts.filter(pa.array(np.repeat(~empty, lengths)))
    return list_array(parts, np.where(empty, 0, lengths), text.is_null().to_numpy(zero_copy_only=False))


def list_array(values: pa.Array, lengths: np.ndarray, missing: np.ndarray) -> pa.LargeListArray:
    """Lists of the given lengths, null where missing."""
    offsets = pa.array(np.concatenate([[0], lengths.cumsum()]).astype(np.int64))
    return pa.LargeListArray.from_arrays(offsets, values, mask=pa.array(missing) if len(missing) else None)
