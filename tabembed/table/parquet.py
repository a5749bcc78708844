"""Parquet files as one table that is read batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tabembed.table.canonical import family

BATCH_ROWS = 2**17
"""Rows that are in memory at a time where nobody has said how many."""


def open_dataset(source: Any, columns: Sequence[str] | None = None) -> ds.Dataset:
    """One dataset of parquet files, every column of one type; of the files it reads their footers alone.

    A column that is empty in one file and has a type in another gets that type, whole numbers beside
    floats become float64, beside decimals decimals, texts one kind of text, zones of time UTC. Names of
    folders such as ``year=2013`` are a column. Files may hold their columns in any order; that of the first
    one counts.

    Args:
        source: path of a file or a folder, a list of paths of files, or a ``pyarrow.dataset.Dataset``,
            which is taken as it is.
        columns: names of the columns that are needed; ``None`` for all.

    Raises:
        FileNotFoundError: when there is no such file or folder.
        ValueError: for a file that is no parquet, a folder or list without files, a column that is not
            in every file, ``columns`` that name none or one twice.
        TypeError: for another kind of source, and for a column whose types do not go together.

    >>> import tempfile, pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"n": [1, 2], "city": ["Oslo", None]}), f"{folder}/a.parquet")
    ...     pq.write_table(pa.table({"city": ["Rome"], "n": [0.5]}), f"{folder}/b.parquet")
    ...     dataset = open_dataset(folder)
    ...     dataset.count_rows(), dataset.schema.names, str(dataset.schema.field("n").type)
    (3, ['n', 'city'], 'double')
    """
    if columns is not None:
        _check_columns(columns)
    dataset = source if isinstance(source, ds.Dataset) else _opened(source)
    for name in columns or ():
        if name not in dataset.schema.names:
            raise ValueError(f"column {name!r}: must be in the table, which has {dataset.schema.names}")
    if dataset is source:
        return dataset
    fragments, schema = list(dataset.get_fragments()), _one_schema(dataset, columns)
    return ds.FileSystemDataset(fragments, schema, dataset.format, dataset.filesystem)


def record_batches(
    dataset: ds.Dataset, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Batches of a dataset's rows, in its order; nothing is read ahead.

    Args:
        dataset: what ``open_dataset`` gave.
        columns: names of the columns to read; ``None`` for all.
        batch_size: most rows of a batch; a group of rows of a file ends one, too.

    Raises: ValueError where a file turns out to be damaged, or numbers do not fit the column's type.

    >>> dataset = ds.dataset(pa.table({"n": [1, 2, 3]}))
    >>> [batch.num_rows for batch in record_batches(dataset, ["n"], batch_size=2)]
    [2, 1]
    """
    names = list(dataset.schema.names if columns is None else columns)
    with readable():
        yield from (batch for batch in _batches(dataset, names, batch_size) if batch.num_rows)


def tables_of(dataset: ds.Dataset, columns: Sequence[str] | None, batch_size: int) -> Iterator[pa.Table]:
    """Tables of about ``batch_size`` rows, however small the groups of rows of the files; one at least."""
    names = list(columns or dataset.schema.names)
    waiting: list[pa.RecordBatch] = []
    n_rows, n_tables = 0, 0
    for batch in record_batches(dataset, names, batch_size):
        if waiting and n_rows + batch.num_rows > batch_size:
            yield pa.Table.from_batches(waiting)
            waiting, n_rows, n_tables = [], 0, n_tables + 1
        waiting.append(batch)
        n_rows += batch.num_rows
    if waiting or not n_tables:
        schema = waiting[0].schema if waiting else pa.schema([dataset.schema.field(name) for name in names])
        yield pa.Table.from_batches(waiting, schema)


def file_fragments(dataset: ds.Dataset) -> list[ds.ParquetFileFragment]:
    """The parquet files of a dataset, a fragment each.

    Raises: TypeError for a dataset of something else.
    """
    fragments = list(dataset.get_fragments())
    if not all(isinstance(fragment, ds.ParquetFileFragment) for fragment in fragments):
        raise TypeError(f"source must be parquet files, got {type(dataset).__name__}")
    return fragments


@contextmanager
def readable() -> Iterator[None]:
    """What turns out to be damaged or gone while the block reads it is a ValueError."""
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"source must be parquet that can be read, got {error}") from None


def _batches(dataset: ds.Dataset, names: list[str], batch_size: int) -> Iterator[pa.RecordBatch]:
    """A scanner reads up to a gigabyte ahead of a slow reader: only what is filtered goes by one."""
    is_filtered = getattr(dataset, "_scan_options", True)
    fragments = [] if is_filtered else list(dataset.get_fragments())
    if fragments and all(isinstance(fragment, ds.ParquetFileFragment) for fragment in fragments):
        for fragment in fragments:
            yield from _of_file(fragment, dataset.schema, names, batch_size)
        return
    scanner = dataset.scanner(columns=names, batch_size=batch_size, batch_readahead=1, fragment_readahead=1)
    yield from scanner.to_batches()


def _of_file(
    fragment: ds.ParquetFileFragment, schema: pa.Schema, names: list[str], batch_size: int
) -> Iterator[pa.RecordBatch]:
    folders = ds.get_partition_keys(fragment.partition_expression)
    kinds = {name: schema.field(name).type for name in names}
    groups = [group.id for group in fragment.row_groups]
    with pq.ParquetFile(fragment.open(), pre_buffer=False) as file:
        there = set(file.schema_arrow.names) - set(folders)
        needed = [name for name in names if name in there] or file.schema_arrow.names[:1]
        for batch in file.iter_batches(batch_size, row_groups=groups, columns=needed):
            columns = [
                _cast(batch.column(name), kinds[name], name)
                if name in there
                else pa.repeat(pa.scalar(folders.get(name), kinds[name]), batch.num_rows)
                for name in names
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(kinds.items())))


def _cast(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"column {name!r}: must fit {kind}, its type over all files, got {array.type} ({error})"
        ) from None


def _check_columns(columns: Sequence[str]) -> None:
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got {columns!r}")
    if not len(columns):
        raise ValueError(f"columns must name a column, got {columns!r}")
    for name in columns:
        if list(columns).count(name) > 1:
            raise ValueError(f"column {name!r}: must be named once in columns, got {list(columns)}")


def _opened(source: Any) -> ds.Dataset:
    given: Any
    if isinstance(source, str | os.PathLike):
        paths, given = [Path(source)], str(source)
    elif isinstance(source, Sequence) and all(isinstance(path, str | os.PathLike) for path in source):
        paths, given = [Path(path) for path in source], [str(path) for path in source]
    else:
        raise TypeError(f"source must be a path, a list of paths or a dataset, got {type(source).__name__}")
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"source must be there, got {str(path)!r}, which is not")
        if path.is_dir() and not isinstance(given, str):
            raise ValueError(
                f"source must be a folder or a list of files, got the folder {str(path)!r} in one"
            )
    try:
        dataset = ds.dataset(given, format="parquet", partitioning="hive") if paths else None
    except (pa.ArrowInvalid, OSError) as error:
        if "duplicate field names" in str(error):
            _say_twice(paths)
        raise ValueError(f"source must be parquet files, got {given!r} ({error})") from None
    if dataset is None or not dataset.files:
        raise ValueError(f"source must hold parquet files, got {given!r} without one")
    return dataset


def _say_twice(paths: Sequence[Path]) -> None:
    """Name the column that Arrow refuses without its name."""
    for path in paths:
        for file in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
            names = pq.read_schema(file).names
            for name in names:
                _check_once(name, names, str(file))


def _check_once(name: str, names: Sequence[str], file: str) -> None:
    times = list(names).count(name)
    if times != 1:
        raise ValueError(f"column {name!r}: must be there once, got it {times} times in {file!r}")


def _one_schema(dataset: ds.Dataset, columns: Sequence[str] | None) -> pa.Schema:
    """The types of all files together, their footers read one after the other."""
    kinds: dict[str, pa.DataType] = {}
    needed = dict.fromkeys(columns or dataset.schema.names)
    for fragment in dataset.get_fragments():
        try:
            schema = fragment.physical_schema
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"source must be parquet files, got {fragment.path!r} ({error})") from None
        folders = ds.get_partition_keys(fragment.partition_expression)
        more = [] if columns else [name for name in schema.names if name not in needed]
        if more:
            raise ValueError(f"column {more[0]!r}: must be in every file, got it in {fragment.path!r} alone")
        for name in needed:
            if name in folders:
                kinds[name] = dataset.schema.field(name).type
                continue
            _check_once(name, schema.names, fragment.path)
            kind = schema.field(name).type
            try:
                kinds[name] = _joined(name, kinds.get(name, kind), kind)
            except TypeError as error:
                raise TypeError(f"{error} in {fragment.path!r}") from None
    return pa.schema(list(kinds.items()))


def _joined(name: str, a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type that holds the values of both."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_dictionary(a) or pa.types.is_dictionary(b):
        plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (a, b)]
        return _joined(name, *plain)
    if {family(a), family(b)} == {"text"}:
        return pa.large_string()
    if {family(a), family(b)} == {"times with a zone"}:
        return pa.timestamp("ns", "UTC")
    if {family(a), family(b)} == {"times without a zone"}:
        return pa.timestamp("ns")
    for one, other in ((a, b), (b, a)):
        if pa.types.is_decimal(one) and pa.types.is_integer(other):  # which may have 20 digits
            digits = max(one.precision - one.scale, 20) + one.scale
            return (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, one.scale)
    try:
        both = [pa.schema([(name, kind)]) for kind in (a, b)]
        return pa.unify_schemas(both, promote_options="permissive").field(name).type
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        raise TypeError(f"column {name!r}: must be of one type in every file, got {a} and {b}") from None
