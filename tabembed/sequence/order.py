"""Whose row is it, and which comes first: codes of entities, one stable sort, seconds between rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabembed.table.canonical import canonical, common_type, family


@dataclass(frozen=True)
class Entities:
    """Whose rows they are.

    Args:
        keys: distinct keys, sorted, of one canonical type.
        codes: number of every row's key, −1 where it is missing; int32.
    """

    keys: pa.Array
    codes: np.ndarray


def read_entities(array: pa.Array, name: str, kind: str | None = None) -> Entities:
    """Sort the keys of a column and number its rows by them.

    Args:
        array: text, numbers, booleans, dates or times; whole floats are whole numbers.
        name: name of the column, for messages.
        kind: the family that keys must be of, as ``family`` says it, or None.

    Raises: TypeError when values of the column are no keys, as lists, or are of another family.

    >>> found = read_entities(pa.array(["b", "a", None, "b"]), "who")
    >>> found.keys.to_pylist(), found.codes.tolist()
    (['a', 'b'], [1, 0, -1, 1])
    """
    if array.null_count == len(array):
        return Entities(pa.nulls(0), np.full(len(array), -1, np.int32))
    if kind is not None and family(array.type) != kind:
        raise TypeError(f"column {name!r}: must hold {kind} as in the fit, got {family(array.type)}")
    if not pa.types.is_dictionary(array.type):
        return _sorted(canonical(array, name).dictionary_encode())
    inner = _sorted(canonical(array.dictionary, name).dictionary_encode())
    found = _spread(inner.codes, array.indices)  # values that stand twice in a dictionary become one
    used = np.zeros(len(inner.keys) + 1, bool)
    used[found] = True
    rank = np.append(np.cumsum(used[:-1]) - 1, -1).astype(np.int32)
    return Entities(inner.keys.filter(pa.array(used[:-1])), rank[found])


def join(a: Entities, b: Entities, name: str) -> Entities:
    """The rows of both, those of ``a`` first.

    Raises: TypeError when their keys cannot be compared; ValueError when no number type holds both.
    """
    kind = common_type(a.keys.type, b.keys.type, name)
    try:
        keys = pa.concat_arrays([a.keys.cast(kind), b.keys.cast(kind)])
    except pa.ArrowInvalid as error:
        raise ValueError(f"column {name!r}: its parts must fit one type of number ({error})") from None
    both = _sorted(keys.dictionary_encode())
    codes = [
        np.append(numbers, np.int32(-1))[part.codes]
        for numbers, part in ((both.codes[: len(a.keys)], a), (both.codes[len(a.keys) :], b))
    ]
    return Entities(both.keys, np.concatenate(codes))


def _sorted(encoded: pa.DictionaryArray) -> Entities:
    keys = encoded.dictionary
    order = np.arange(0) if pa.types.is_null(keys.type) else pc.sort_indices(keys).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return Entities(keys.take(pa.array(order)), _spread(rank, encoded.indices))


def _spread(codes: np.ndarray, indices: pa.Array) -> np.ndarray:
    """Codes of a dictionary's values, spread over the rows that point at them."""
    indices = indices.fill_null(len(codes)) if indices.null_count else indices
    return np.append(codes, np.int32(-1)).take(indices.to_numpy(zero_copy_only=False))


def sorted_order(codes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Order by entity, then time; equal ones stay as they are.

    Codes are sorted two bytes at a time, for which numpy has a sort without comparisons; times
    that rise already, as those of most tables, are not sorted at all.

    Shape:
        - codes: ``(n_rows,)`` int32, not negative; times: ``(n_rows,)`` int64
        - output: ``(n_rows,)`` int64

    >>> sorted_order(np.array([1, 0, 1], np.int32), np.array([5, 9, 3])).tolist()
    [1, 2, 0]
    """
    rises = bool((times[1:] >= times[:-1]).all())
    order = np.arange(len(times)) if rises else np.argsort(times, kind="stable")
    for shift in (0, 16):
        digits = (codes >> shift).astype(np.uint16)
        if digits.any():
            order = order[np.argsort(digits[order], kind="stable")]
    return order


def starts_of(codes: np.ndarray) -> np.ndarray:
    """Where runs of equal codes begin, and the number of rows after the last one.

    >>> starts_of(np.array([0, 0, 2])).tolist()
    [0, 2, 3]
    """
    if not len(codes):
        return np.zeros(1, np.int64)
    return np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1, [len(codes)]))


def seconds(later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    """Time from one instant to a later one, float64 seconds; the difference may need 64 bits without sign.

    ``functional.position.since`` gives the same numbers, and those of earlier instants, too; on millions of
    rows it takes eight times as long, and several more columns of memory.
    """
    return (later.view(np.uint64) - earlier.view(np.uint64)).astype(np.float64) / 1e9
