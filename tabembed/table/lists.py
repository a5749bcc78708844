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
from tabembed.table.category import Categorical, CategoryState, check_frequency, load_vocabulary, rank
from tabembed.table.vocabulary import Vocabulary, family


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
        cells = split(array, self.separator, name)
        state = Categorical().partial(name, cells.flatten())
        return replace(state, n_missing=state.n_missing + cells.null_count)

    def merge(self, name: str, a: CategoryState, b: CategoryState) -> CategoryState:
        """Counts over the rows of both."""
        return Categorical().merge(name, a, b)

    def finalize(self, name: str, state: CategoryState, n_rows: int) -> ListEncoder:
        """Give out the ids: by falling count, ties by value."""
        known, counts = rank(self, state, n_rows)
        return ListEncoder(Vocabulary(known, name), ListColumn(name, counts), self.separator)


@dataclass(frozen=True)
class ListEncoder:
    """A fitted column of lists."""

    vocabulary: Vocabulary
    column: ListColumn
    separator: str | None

    lane: ClassVar[str] = "lists"

    def encode(self, array: pa.Array) -> Ragged:
        """Ids of all cells, one after the other, and where each cell begins."""
        cells = split(array, self.separator, self.column.name)
        lengths = pc.list_value_length(cells).cast(pa.int64()).fill_null(0).to_numpy()
        offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        missing = cells.is_null().to_numpy(zero_copy_only=False)
        ids = self.vocabulary.encode(cells.flatten())
        return Ragged(*(torch.from_numpy(np.array(a)) for a in (ids, offsets, missing)))

    def decode(self, cells: Ragged) -> pa.Array:
        """Lists of values (text again where a separator was given), null where a cell is missing."""
        values = self.vocabulary.decode(cells.ids.numpy())
        mask = pa.array(cells.missing.numpy())
        if self.separator is not None:
            values = values.fill_null("")
        offsets = pa.array(cells.offsets.numpy())
        lists = pa.LargeListArray.from_arrays(offsets, values, mask=mask if len(mask) else None)
        return lists if self.separator is None else pc.binary_join(lists, self.separator)

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


def split(array: pa.Array, separator: str | None, name: str) -> pa.Array:
    """Cells as Arrow lists."""
    if pa.types.is_null(array.type) or (
        array.null_count == len(array) and not CategoricalList.accepts(array.type)
    ):
        return pa.nulls(len(array), pa.large_list(pa.large_string()))
    if CategoricalList.accepts(array.type):
        values = array.type.value_type
        if pa.types.is_fixed_size_list(array.type) or "view" in str(array.type):
            return array.cast(pa.large_list(values))
        return array
    if family(array.type) != "text":
        raise TypeError(
            f"column {name!r}: must hold lists, or text with a separator, got {family(array.type)}"
        )
    if separator is None:
        raise ValueError(
            f"column {name!r}: must have a separator to be split as text, e.g. CategoricalList(',')"
        )
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    text = array.cast(pa.large_string())
    pieces = pc.split_pattern(text, separator)
    values = pc.utf8_trim_whitespace(pieces.values)
    values = pc.if_else(pc.equal(values, ""), None, values)
    lengths = pc.list_value_length(pieces).fill_null(0).to_numpy()
    empty = pc.equal(pc.utf8_trim_whitespace(text), "").fill_null(False).to_numpy(zero_copy_only=False)
    keep = np.repeat(~empty, lengths)
    offsets = np.concatenate([[0], np.where(empty, 0, lengths).cumsum()]).astype(np.int64)
    mask = text.is_null()
    return pa.LargeListArray.from_arrays(
        pa.array(offsets), values.filter(pa.array(keep)), mask=mask if len(mask) else None
    )
