"""Distinct values and how often they came, joined from parts in any order, of bounded size.

Values lie in the order of their hashes, those of one hash by value. A state holds at most ``CAPACITY``
of them, the first ones in this order; the rows of the others are only counted. This is free of the
order in which parts come: among the first K of all values, each is among the first K of every part that
holds it, as a part has no value that the whole has not; so no part has dropped it, and its count is
exact. The rest is what remains of the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabembed.table.hashes import hashes

CAPACITY = 2**24
_BLOCK = 1 << 17


@dataclass(frozen=True)
class Distinct:
    """Values with their counts.

    Args:
        values: canonical values, all different.
        counts: rows of each.
        n_left_out: rows of the values beyond ``CAPACITY``.
        hashes: hashes of the values where they lie in this order; ``None`` where they do not.
    """

    values: pa.Array
    counts: np.ndarray
    n_left_out: int = 0
    hashes: np.ndarray | None = None

    @classmethod
    def of(cls, values: pa.Array) -> Distinct:
        """Count canonical values, no null among them."""
        counted = values.value_counts()
        counts = counted.field("counts").to_numpy().astype(np.int64)
        found = cls(counted.field("values"), counts)
        return found if len(counts) <= CAPACITY else found.merge(cls(found.values[:0], counts[:0]))

    def merge(self, other: Distinct) -> Distinct:
        """Counts over the rows of both, whose values are of one type; neither changes."""
        parts, found, n_values, n_left_out = [self._by_hash(), other._by_hash()], [], 0, 0
        for blocks in _cut(parts):  # block by block, as what lies between takes more memory than the result
            block = _joined(blocks)
            kept, n_left = block._first(CAPACITY - n_values), block.counts.sum()
            found.append(kept)
            n_values += len(kept.counts)
            n_left_out += int(n_left - kept.counts.sum())
        return Distinct(
            pa.concat_arrays([block.values for block in found]),
            np.concatenate([block.counts for block in found]),
            self.n_left_out + other.n_left_out + n_left_out,
            np.concatenate([block.hashes for block in found]),
        )

    def _by_hash(self) -> Distinct:
        if self.hashes is not None:
            return self
        keys = hashes(self.values)
        order = np.argsort(keys, kind="stable")
        return Distinct(self.values.take(pa.array(order)), self.counts[order], self.n_left_out, keys[order])

    def _first(self, n: int) -> Distinct:
        return self._between(0, n) if n < len(self.counts) else self

    def _between(self, begin: int, end: int) -> Distinct:
        hashed = self.hashes[begin:end]  # type: ignore[index]
        return Distinct(self.values.slice(begin, end - begin), self.counts[begin:end], 0, hashed)

    def ranked(self) -> Distinct:
        """The same by falling count, ties by value."""
        table = pa.table({"value": self.values, "count": self.counts})
        keys = [("count", "descending"), ("value", "ascending")]
        order = pc.sort_indices(table, sort_keys=keys[: 1 if pa.types.is_null(self.values.type) else 2])
        return Distinct(self.values.take(order), self.counts[order.to_numpy()], self.n_left_out)

    def n_estimated(self) -> tuple[float, float]:
        """About how many values there are with those left out, and the relative standard error of that.

        Source: Bar-Yossef et al. (2002), Counting distinct elements in a data stream, algorithm 2: the
        K-th smallest of D hashes, as a share of their range, lies near K / D.
        """
        n = len(self.counts)
        if not self.n_left_out or n < 3:
            return float(n), 0.0
        largest = hashes(self.values).max() if self.hashes is None else self.hashes[-1]
        return (n - 1) / ((float(largest) + 1) / 2.0**64), 1 / float(np.sqrt(n - 2))


def _cut(parts: list[Distinct]) -> Iterator[list[Distinct]]:
    """Parts in the order of their hashes, cut at the same hashes into blocks."""
    keys = [np.asarray(part.hashes) for part in parts]
    borders = max(keys, key=len)[_BLOCK::_BLOCK]
    edges = [[0, *np.searchsorted(own, borders).tolist(), len(own)] for own in keys]
    for i in range(len(edges[0]) - 1):
        yield [part._between(edge[i], edge[i + 1]) for part, edge in zip(parts, edges, strict=True)]


def _joined(parts: list[Distinct]) -> Distinct:
    values = pa.concat_arrays([part.values for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    keys = np.concatenate([part.hashes for part in parts])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = _firsts(values, order, keys)
    summed = np.add.reduceat(counts[order], first) if len(first) else counts
    return Distinct(values.take(pa.array(order[first])), summed, 0, keys[first])


def _firsts(values: pa.Array, order: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Places of the first of each run of equal values; puts values of one hash in order."""
    twins = keys[1:] == keys[:-1]
    place = np.flatnonzero(twins)
    if len(place):
        twins[place] = equal = _equal(values, order, place)
        if not equal.all():  # another value with the same hash
            group = np.append(keys[1:] == keys[:-1], False)
            group = np.flatnonzero(group | np.append(False, group[:-1]))
            table = pa.table({"key": keys[group], "value": values.take(pa.array(order[group]))})
            by_value = pc.sort_indices(table, sort_keys=[("key", "ascending"), ("value", "ascending")])
            order[group] = order[group][by_value.to_numpy()]
            twins[place] = _equal(values, order, place)
    return np.flatnonzero(~np.append(False, twins)) if len(keys) else place


def _equal(values: pa.Array, order: np.ndarray, place: np.ndarray) -> np.ndarray:
    neighbours = (values.take(pa.array(order[at])) for at in (place, place + 1))
    return pc.equal(*neighbours).to_numpy(zero_copy_only=False)
