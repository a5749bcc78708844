"""Sequences from files larger than memory: rows are brought to those of their entity, bucket after bucket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.utils.validation import check_is_fitted

from tabembed._checks import check_integer
from tabembed.schema import TableSchema
from tabembed.sequence.batch import SequenceBatch
from tabembed.sequence.buckets import Buckets, borders_of, bucket_of
from tabembed.sequence.build import counts_cut, keep_last, say_cut
from tabembed.sequence.order import Entities, read_entities
from tabembed.table.encoded import encoded_schema, encoded_table
from tabembed.table.frame import places_in, read_frame
from tabembed.table.out_file import beside_of, check_out
from tabembed.table.parquet import open_dataset, tables_of
from tabembed.table.stream import Streaming, rows_done
from tabembed.table.warn import said_once

_BATCH = 262_144


class SequenceStreaming(Streaming):
    """What ``Streaming`` gives, and the encoding of parquet files of events.

    A fit by parts keeps an entity and a time a row, 12 bytes, as gaps between the rows of different parts are
    known only at the end; rows may come in any order, by entity or by time.
    """

    def transform_parquet(
        self, source: Any, out: str | os.PathLike[str], *, batch_size: int = _BATCH, verbose: bool = False
    ) -> None:
        """Encode parquet files of events that need not fit into memory, however their rows are ordered.

        Written are, by entity and time: both as they are in the source; ``row``, the place in the source, of
        all files one after the other; ``elapsed`` and ``gap`` in seconds, a first row's gap null; then the
        columns of the fit as ``TableEncoder.transform_parquet`` writes them. Ties, missing entities and times
        and ``max_events`` are as in ``transform``; of rows that ``ties="merge"`` makes one, ``row`` is the
        last.

        The source is read twice: the entities alone, to share them among buckets of about ``batch_size``
        rows, and all of it, to bring rows to their bucket. Buckets are files in a folder beside ``out`` that
        is removed in the end, also after an error; they take about the room of the table in memory. ``out``
        has its name only once it is whole.

        Args:
            source: path of a parquet file or a folder, a list of paths, or a ``pyarrow.dataset.Dataset``.
            out: a file, which is replaced where it exists.
            batch_size: rows that are in memory at a time, but that those of an entity are together. Very
                large tables take more, as there are at most 256 buckets.
            verbose: show a bar.

        Raises:
            FileNotFoundError: when there is no such source, or no folder to write into.
            FileExistsError: when ``out`` is a folder.
            ValueError: as ``transform``; for what is no parquet, for an ``out`` that is the source or lies in
                it, and for columns of the fit that are called as one of the five above.

        >>> import tempfile
        >>> from tabembed import SequenceEncoder
        >>> table = pa.table({"who": ["b", "a", "b"], "day": [3, 5, 1], "city": ["Rome", "Oslo", "Oslo"]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pq.write_table(table, f"{folder}/a.parquet")
        ...     encoder = SequenceEncoder("who", "day", unit="D").fit_parquet(f"{folder}/a.parquet")
        ...     encoder.transform_parquet(f"{folder}/a.parquet", f"{folder}/out.parquet")
        ...     found = pq.read_table(f"{folder}/out.parquet")
        >>> found["who"].to_pylist(), found["row"].to_pylist(), found["gap"].to_pylist()
        (['a', 'b', 'b'], [1, 2, 0], [None, None, 172800.0])
        """
        check_is_fitted(self, "schema_")
        check_integer(batch_size=batch_size)
        encoder: Any = self
        rule, rows = encoder._rule, encoder.schema_.rows
        needed = list(dict.fromkeys((rule.entity, rule.time, *(column.name for column in rows.columns))))
        dataset = open_dataset(source, needed if encoder._named else None)
        check_out(Path(out), getattr(dataset, "files", ()), False)
        place = places_in(read_frame(dataset.schema.empty_table()), needed, encoder)
        given = [dataset.schema.names[place[name]] for name in needed]
        kinds = _written(dataset.schema.empty_table().select(given), rule, encoded_schema(rows))

        def parts(n: int) -> Iterator[pa.Table]:
            """The source's first columns, under the names of the fit."""
            return (t.rename_columns(needed[:n]) for t in tables_of(dataset, given[:n], batch_size))

        with (
            said_once(),
            rows_done("transform", dataset, verbose) as advance,
            beside_of(Path(out), False) as target,
        ):
            keys = (read_frame(part).column(0) for part in parts(1))
            entities = (read_entities(array, rule.entity, encoder.entity_family_) for array in keys)
            borders = borders_of(entities, rule.entity, batch_size)
            with Buckets(target.parent, len(borders)) as buckets, pq.ParquetWriter(target, kinds) as writer:
                _split(parts(len(needed)), encoder, borders, buckets)
                n_rows = n_entities = 0
                for table in buckets.tables():
                    batch = encoder._settled(encoder._encode(table.select(range(len(needed))), None))
                    if rule.max_events is not None:
                        cut = counts_cut(batch, rule.max_events)
                        n_rows, n_entities = n_rows + cut[0], n_entities + cut[1]
                        batch = keep_last(batch, rule.max_events)
                    writer.write_table(_encoded(table, batch, kinds, rows))
                    advance(table.num_rows)
            if rule.max_events is not None:
                say_cut(rule.max_events, n_rows, n_entities)


def _split(parts: Iterator[pa.Table], encoder: Any, borders: pa.Array, buckets: Buckets) -> None:
    """Bring every row with its place in the source to the bucket of its entity."""
    begin, lacking = 0, []
    for table in parts:
        place = {name: i for i, name in enumerate(table.column_names)}
        entities, _, kept, missing = encoder._present(read_frame(table), place)
        lacking.append(missing)
        kept = np.arange(len(table)) if kept is None else kept
        held = Entities(entities.keys, entities.codes[kept])
        places = pa.array(np.arange(begin, begin + len(table)))
        buckets.add(table.append_column("", places), kept, bucket_of(borders, held, encoder._rule.entity))
        begin += len(table)
    reduce(add, lacking).say()


def _written(empty: pa.Table, rule: Any, encoded: pa.Schema) -> pa.Schema:
    """Types of all columns that are written.

    Args:
        empty: of the source, its entity and time first.
        rule: of the encoder.
        encoded: types of the encoded columns.

    Raises: ValueError when two of them have one name.
    """
    own = [
        (name, _decoded(read_frame(empty).column(i)).type) for i, name in enumerate((rule.entity, rule.time))
    ]
    own += [("row", pa.int64()), ("elapsed", pa.float64()), ("gap", pa.float64())]
    names = [name for name, _ in own] + encoded.names
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"column {name!r}: must have another name, as transform_parquet writes a {name!r}"
            )
    return pa.schema([*(pa.field(name, kind) for name, kind in own), *encoded])


def _encoded(table: pa.Table, batch: SequenceBatch, kinds: pa.Schema, rows: TableSchema) -> pa.Table:
    """The rows of a batch of a bucket, as they are written."""
    frame, at = read_frame(table.select([0, 1])), pa.array(batch.row.numpy())
    own = [_decoded(frame.column(i)).take(at) for i in range(2)]
    gap = batch.gap.numpy()
    seconds = [pa.array(batch.elapsed.numpy()), pa.array(gap, mask=np.isnan(gap))]
    cells = encoded_table(batch.rows, rows) if rows.columns else pa.table({})
    return pa.table(
        [*own, table.column(table.num_columns - 1).take(at), *seconds, *cells.columns], schema=kinds
    )


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
