"""Groups of rows of parquet files, one after the other a line of rows that ranks and workers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from tabembed.table.parquet import file_fragments, open_dataset, readable


@dataclass(frozen=True)
class RowGroups:
    """Where the groups of rows of some parquet files are; rows are read when they are asked for.

    Args:
        files: a fragment a file.
        places: file and number of every group that has rows.
        n_rows: rows of every group.
        schema: the columns that are read.
    """

    files: tuple[Any, ...]
    places: tuple[tuple[int, int], ...]
    n_rows: np.ndarray
    schema: pa.Schema

    @classmethod
    def of(cls, source: Any, columns: Sequence[str], text: Sequence[str] = ()) -> RowGroups:
        """The groups of a source, as their footers tell them.

        Args:
            source: what ``open_dataset`` takes.
            columns: names of the columns to read.
            text: those that come as codes of their distinct values where they are text: a file holds them
                that way, and no text need be written out.

        Raises: as ``open_dataset``; TypeError for a dataset of other files.
        """
        dataset = open_dataset(source, columns)
        kinds = {name: dataset.schema.field(name).type for name in columns}
        coded = [n for n in text if pa.types.is_string(kinds[n]) or pa.types.is_large_string(kinds[n])]
        kinds |= dict.fromkeys(coded, pa.dictionary(pa.int32(), pa.string()))
        form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=coded))
        files: list[Any] = []
        places, n_rows = [], []
        for fragment in file_fragments(dataset):
            for group in fragment.row_groups:
                if group.num_rows:
                    places.append((len(files), group.id))
                    n_rows.append(group.num_rows)
            where = (fragment.path, fragment.filesystem, fragment.partition_expression)
            files.append(form.make_fragment(*where))
        return cls(tuple(files), tuple(places), np.array(n_rows, np.int64), pa.schema(list(kinds.items())))

    def read(self, group: int) -> pa.Table:
        """The rows of one group.

        Raises: ValueError where the file turns out to be damaged or gone.
        """
        file, number = self.places[group]
        with readable():
            part = self.files[file].subset(row_group_ids=[number])
            return part.to_table(schema=self.schema, columns=self.schema.names)

    def cut(self, order: np.ndarray, borders: np.ndarray) -> Iterator[pa.Table]:
        """The rows between every two borders; of all others, those of the last group read are held.

        Args:
            order: numbers of all groups, in the order of the line.
            borders: places on the line that rise; a group that lies across one is read once.
        """
        starts = np.append(0, np.cumsum(self.n_rows[order]))
        group = int(np.searchsorted(starts, borders[0], "right")) - 1
        begin, held = int(starts[group]), self.schema.empty_table()
        for low, high in pairwise(borders):
            stop = int(np.searchsorted(starts, high, "left"))
            more = [self.read(order[i]) for i in range(group, stop)]
            held = pa.concat_tables([held, *more]).slice(low - begin)
            begin, group = low, max(group, stop)
            yield held.slice(0, high - low)


def batch_borders(n_rows: int, batch_size: int, shard: tuple[int, int], drop_last: bool) -> np.ndarray:
    """Where the batches of one rank begin on the line of all rows, and where the last one ends.

    Ranks own neighbouring parts of the line, as equal as can be, and get equally many batches: one that has a
    row less than another, and so would have a batch less, cuts its last batch in two. With ``drop_last`` all
    batches are full.

    Args:
        n_rows: rows of all ranks.
        batch_size: most rows of a batch.
        shard: the rank and the number of ranks.
        drop_last: leave out the rows that fill no batch.

    Shape:
        - output: ``(n_batches + 1,)`` int64

    Raises: ValueError where ranks cannot have equally many batches.

    >>> [batch_borders(9, 2, (rank, 2), False).tolist() for rank in range(2)]
    [[0, 2, 3, 4], [4, 6, 8, 9]]
    >>> [batch_borders(9, 2, (rank, 2), True).tolist() for rank in range(2)]
    [[0, 2, 4], [4, 6, 8]]
    """
    rank, n_ranks = shard
    low, high = rank * n_rows // n_ranks, (rank + 1) * n_rows // n_ranks
    if drop_last:
        return low + np.arange(n_rows // n_ranks // batch_size + 1) * batch_size
    if n_rows < n_ranks:
        raise ValueError(f"source must have at least one row a rank, got {n_rows} rows for {n_ranks}")
    n_batches = -(-n_rows // n_ranks // batch_size)
    if batch_size == 1 and n_rows % n_ranks:
        raise ValueError(
            f"batch_size must be at least 2 for {n_rows:,} rows to be equally many batches on each of "
            f"{n_ranks} ranks, got 1: use drop_last=True"
        )
    borders = low + np.minimum(np.arange(n_batches + 1) * batch_size, high - low)
    if n_batches > 1 and borders[-2] == high:
        borders[-2] -= 1
    return borders


def part_of(n: int, part: int, n_parts: int) -> tuple[int, int]:
    """Where one of some neighbouring parts of ``n`` things begins and ends; the first are the longer ones.

    >>> [part_of(5, part, 3) for part in range(3)]
    [(0, 2), (2, 4), (4, 5)]
    """
    each, rest = divmod(n, n_parts)
    begin = part * each + min(part, rest)
    return begin, begin + each + (part < rest)
