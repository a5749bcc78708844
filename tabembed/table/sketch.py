"""Quantiles of numbers that arrive in parts, in any order.

A float64 maps to an int64 that sorts like it. The sketch counts those keys; only when more than
``CAPACITY`` distinct ones are there are low bits dropped, as few as will do. How many is a property
of all the numbers together, so the same sketch comes out whatever the parts and their order.
Up to ``CAPACITY`` distinct values quantiles are exact; beyond, a value is off by at most half of a
bucket, whose relative width is ``2**(shift - 52)`` (5e-4 for five million normal numbers).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

CAPACITY = 65_536


@dataclass(frozen=True)
class Sketch:
    """Counts of the sorted keys of numbers, their lowest ``shift`` bits dropped."""

    keys: np.ndarray
    counts: np.ndarray
    shift: int = 0

    @classmethod
    def of(cls, values: np.ndarray) -> Sketch:
        """Sketch of finite float64 numbers."""
        keys = np.sort(_keys(values))
        return _fit(keys, np.ones(len(keys), np.int64), 0)

    def merge(self, other: Sketch) -> Sketch:
        """Sketch of the numbers of both; neither changes."""
        shift = max(self.shift, other.shift)
        keys = np.concatenate([self.keys >> (shift - self.shift), other.keys >> (shift - other.shift)])
        order = np.argsort(keys, kind="stable")
        return _fit(keys[order], np.concatenate([self.counts, other.counts])[order], shift)

    def points(self, n_points: int) -> tuple[np.ndarray, np.ndarray]:
        """Values that span the numbers, and how many numbers each stands for.

        All values where they are few; else ``n_points`` quantiles at evenly spaced levels, where a value
        counts as one ``n_points - 1``-th part of all at most, so that it takes one of them. A point
        stands for the numbers above the point before it, up to and with itself.
        """
        values = self._values()
        if len(values) <= n_points:
            return values, self.counts
        capped = replace(self, counts=np.minimum(self.counts, self._cap(n_points - 1)))
        points = np.unique(capped.quantiles(np.linspace(0, 1, n_points)))
        points[-1] = values[-1]
        place = np.searchsorted(points, values)
        return points, np.bincount(place, weights=self.counts, minlength=len(points)).astype(np.int64)

    def _cap(self, n_parts: int) -> int:
        """The largest count that stays within one of ``n_parts`` equal parts when no count exceeds it."""
        counts = np.sort(self.counts)
        capped_total = counts.cumsum() + counts * np.arange(len(counts) - 1, -1, -1)
        return int(counts[counts * n_parts <= capped_total].max())

    def _values(self) -> np.ndarray:
        """The middle of every bucket; the value itself where nothing was dropped."""
        return _floats((self.keys << self.shift) + ((1 << self.shift) >> 1))

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Values at levels in [0, 1], linear between neighbouring numbers as ``numpy.quantile``."""
        values, ends = self._values(), self.counts.cumsum()
        rank = levels * (ends[-1] - 1)
        below = values[np.searchsorted(ends, np.floor(rank), side="right")]
        above = values[np.searchsorted(ends, np.ceil(rank), side="right")]
        with np.errstate(over="ignore", invalid="ignore"):
            between = below + (above - below) * (rank - np.floor(rank))
        return np.where(below == above, below, np.where(np.isfinite(between), between, below))


def _keys(values: np.ndarray) -> np.ndarray:
    bits = (values + 0.0).view(np.int64)  # −0.0 counts as 0.0
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def _floats(keys: np.ndarray) -> np.ndarray:
    return (keys ^ ((keys >> 63) & np.int64(2**63 - 1))).view(np.float64)


def _n_distinct(keys: np.ndarray, shift: int) -> int:
    coarse = keys >> shift
    return int(np.count_nonzero(coarse[1:] != coarse[:-1])) + 1


def _fit(keys: np.ndarray, counts: np.ndarray, shift: int) -> Sketch:
    if len(keys) == 0:
        return Sketch(keys, counts, shift)
    low, high = 0, 63
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _n_distinct(keys, middle) <= CAPACITY else (middle + 1, high)
    keys = keys >> low
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    return Sketch(keys[first], np.add.reduceat(counts, first), shift + low)
