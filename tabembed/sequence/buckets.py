"""Rows of one entity brought together on disk: keys shared out among buckets, and a file a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tabembed.sequence.order import Entities, join
from tabembed.table.parts import merge_all

_MOST_BUCKETS = 256
"""Files that are open at a time; a process may have some 1,000."""


def borders_of(parts: Iterable[Entities], name: str, n_rows: int) -> pa.Array:
    """The first key of every bucket, so that a bucket has about ``n_rows`` rows, and an entity is in one.

    Buckets follow each other as sorted keys do, so that what is made of them one by one is in order.

    Args:
        parts: whose rows they are, part after part.
        name: name of the entities' column, for messages.
        n_rows: rows of a bucket; more where an entity has more, or where there would be over 256 buckets.

    >>> keys = pa.array(["a", "b", "c", "d"])
    >>> borders_of([Entities(keys, np.array([0, 1, 1, 2, 3, 3, -1], np.int32))], "who", 3).to_pylist()
    ['a', 'c']
    """
    keys, counts = merge_all(map(_counted, parts), lambda a, b: _added(a, b, name))
    size = max(n_rows, -(-int(counts.sum()) // _MOST_BUCKETS))
    bucket = (np.cumsum(counts) - counts) // size
    return keys.take(pa.array(np.flatnonzero(np.append(True, np.diff(bucket) > 0)[: len(bucket)])))


def bucket_of(borders: pa.Array, entities: Entities, name: str) -> np.ndarray:
    """Bucket of every row.

    Args:
        borders: what ``borders_of`` gave.
        entities: whose rows they are, none of them missing.
        name: name of their column, for messages.

    >>> rows = Entities(pa.array(["b", "c", "d"]), np.array([2, 0, 1]))
    >>> bucket_of(pa.array(["a", "c"]), rows, "who").tolist()
    [1, 0, 1]
    """
    n = len(borders)
    both = join(Entities(borders, np.arange(n)), Entities(entities.keys, np.arange(len(entities.keys))), name)
    of_key = np.searchsorted(both.codes[:n], both.codes[n:], "right") - 1
    return of_key[entities.codes]


class Buckets:
    """Tables split among files in a folder.

    Args:
        folder: where the files are written; whoever made it removes it.
        n: number of buckets.
    """

    def __init__(self, folder: Path, n: int) -> None:
        self._files = [folder / f"bucket-{i}" for i in range(n)]
        self._writers: dict[int, Any] = {}

    def __enter__(self) -> Buckets:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """End all files; what was added can be read from then on."""
        while self._writers:
            self._writers.popitem()[1].close()

    def add(self, table: pa.Table, rows: np.ndarray, buckets: np.ndarray) -> None:
        """Add some rows of a table, those of a bucket in their order.

        Args:
            table: with the columns of all others.
            rows: places in the table.
            buckets: bucket of each of them.
        """
        order = np.argsort(buckets, kind="stable")
        table, buckets = table.take(pa.array(rows[order])), buckets[order]
        ends = np.append(np.flatnonzero(np.diff(buckets)) + 1, len(buckets))
        for low, high in zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
            if low < high:
                self._writer(int(buckets[low]), table.schema).write_table(table.slice(low, high - low))

    def tables(self) -> Iterator[pa.Table]:
        """The rows of every bucket that has some; its file is removed afterwards."""
        self.close()
        for file in filter(Path.exists, self._files):
            with pa.OSFile(str(file)) as opened:
                table = pa.ipc.open_stream(opened).read_all()
            yield table
            file.unlink()

    def _writer(self, bucket: int, schema: pa.Schema) -> Any:
        if bucket not in self._writers:
            self._writers[bucket] = pa.ipc.new_stream(str(self._files[bucket]), schema)
        return self._writers[bucket]


def _counted(entities: Entities) -> tuple[pa.Array, np.ndarray]:
    return entities.keys, np.bincount(entities.codes[entities.codes >= 0], minlength=len(entities.keys))


def _added(a: tuple[pa.Array, np.ndarray], b: tuple[pa.Array, np.ndarray], name: str) -> Any:
    """Rows of every key in both."""
    numbered = [Entities(keys, np.arange(len(keys))) for keys, _ in (a, b)]
    both = join(numbered[0], numbered[1], name)
    counts = np.zeros(len(both.keys), np.int64)
    counts[both.codes[: len(a[0])]] += a[1]
    counts[both.codes[len(a[0]) :]] += b[1]
    return both.keys, counts
