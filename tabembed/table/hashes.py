"""A 64-bit number for every value: equal for equal values, whatever the process and the type of number."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BEYOND = np.uint64(0xD1B54A32D192ED03)
_TAILS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_BYTES = 1 << 22
"""Bytes of text that are worked on at a time."""


def hashes(values: pa.Array) -> np.ndarray:
    """Hashes of canonical values, uint64.

    A whole number has one hash as int64, uint64 and float64. Hashes spread as if drawn at random, but
    can be made to collide by who wants to: who uses them compares the values, too.

    Args:
        values: canonical values, no null among them.

    Source: the finaliser of SplitMix64 (Steele, Lea & Flood 2014), over the words of a text summed.

    >>> hashes(pa.array([2, 3])).tolist() == hashes(pa.array([2.0, 3.0])).tolist()
    True
    >>> len(set(hashes(pa.array(["a", "b", "", "a" * 100], pa.large_string())).tolist()))
    4
    """
    kind = values.type
    if pa.types.is_null(kind):
        return np.zeros(0, np.uint64)
    if pa.types.is_large_string(kind):
        return _text(values)
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int64())
    if pa.types.is_float64(kind):
        return _floats(values.to_numpy(zero_copy_only=False))
    if pa.types.is_uint64(kind):
        return _unsigned(values.to_numpy())
    return _mix(values.view(pa.int64()).to_numpy().view(np.uint64).copy())


def repeats(values: pa.Array) -> bool:
    """Whether a value stands in it twice: sorted hashes take a fraction of a hash table's memory.

    Args:
        values: canonical values, no null among them.

    >>> repeats(pa.array([2, 3])), repeats(pa.array([2, 3, 2]))
    (False, True)
    """
    keys = hashes(values)
    keys.sort()
    alike = keys[1:][keys[1:] == keys[:-1]]
    if not len(alike):
        return False
    same = values.filter(pa.array(np.isin(hashes(values), alike)))
    return len(same.unique()) != len(same)


def _mix(x: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit words, in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x


def _unsigned(x: np.ndarray) -> np.ndarray:
    """Beyond int64 the words are those of negative numbers, and must not be taken for them."""
    return _mix(np.where(x < np.uint64(2**63), x, x ^ _BEYOND))


def _floats(x: np.ndarray) -> np.ndarray:
    words = x.view(np.uint64) + _GOLDEN
    whole = np.floor(x) == x
    inside = whole & (x >= -(2.0**63)) & (x < 2.0**63)
    beyond = whole & (x >= 2.0**63) & (x < 2.0**64)
    words[inside] = x[inside].astype(np.int64).view(np.uint64)
    words[beyond] = x[beyond].astype(np.uint64) ^ _BEYOND
    return _mix(words)


def _text(values: pa.Array) -> np.ndarray:
    result = np.empty(len(values), np.uint64)
    if len(values) == 0:
        return result
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    text = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    begin = 0
    while begin < len(values):
        end = max(int(np.searchsorted(ends, ends[begin] + _BYTES, side="right")) - 1, begin + 1)
        end = min(end, begin + _BYTES // 32)
        part = np.zeros(ends[end] - ends[begin] + 8, np.uint8)  # room for a word at the end
        part[:-8] = text[ends[begin] : ends[end]]
        result[begin:end] = _words(part, ends[begin : end + 1] - ends[begin])
        begin = end
    return result


def _words(text: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Σ mix(word + place · golden) over the 8-byte words of each text, mixed with its length."""
    lengths = np.diff(ends)
    n_words = np.maximum((lengths + 7) // 8, 1)
    last = n_words.cumsum() - 1
    first = last - n_words + 1
    place = np.arange(last[-1] + 1) - np.repeat(first, n_words)
    every_byte = np.ndarray((len(text) - 7,), "<u8", text.data, strides=(1,))
    words = every_byte[np.repeat(ends[:-1], n_words) + 8 * place]
    words[last] &= _TAILS[lengths - 8 * (n_words - 1)]
    words += (place + 1).astype(np.uint64) * _GOLDEN
    sums = np.add.reduceat(_mix(words), first)
    return _mix(sums + lengths.astype(np.uint64) * _BEYOND)
