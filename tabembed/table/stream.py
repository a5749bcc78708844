"""Fits and transforms of tables larger than memory: batch after batch, of rows in any order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tabembed._checks import check_integer
from tabembed._progress import progress
from tabembed.table.encoded import encoded_schema, encoded_table
from tabembed.table.out_file import beside_of, check_out
from tabembed.table.parquet import BATCH_ROWS, open_dataset, tables_of
from tabembed.table.parts import merge_all
from tabembed.table.warn import said_once


class Streaming:
    """Fits by parts, for an encoder with ``partial``, ``finalize`` and states that merge."""

    _state: Any

    def partial(self, X: Any) -> Any:
        """What some of the rows say."""
        raise NotImplementedError

    def finalize(self, state: Any) -> Self:
        """The fit of what a state says."""
        raise NotImplementedError

    def merge_states(self, a: Any, b: Any) -> Any:
        """What the rows of both states say; neither changes."""
        return a.merge(b)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from more rows: afterwards the fit is that of all rows so far, whatever their order.

        The ids of known values change as counts do. Every call ends in a whole fit, which takes a time
        that grows with the number of categories: for many small parts use ``fit_parquet``, or
        ``partial``, ``merge_states`` and one ``finalize``.

        Args:
            X: a table with the columns of the rows so far.
            y: ignored.

        Raises: ValueError for other columns than so far, and of an encoder that was loaded or grown.

        >>> from tabembed import TableEncoder
        >>> encoder = TableEncoder().partial_fit({"city": ["Oslo", "Rome"]})
        >>> encoder.partial_fit({"city": ["Rome", None]}).categories_["city"].tolist()
        ['Rome', 'Oslo']
        """
        state = self.partial(X)
        if hasattr(self, "schema_"):
            state = self.merge_states(self._rows_so_far("partial_fit"), state)
        return self.finalize(state)

    def merge(self, other: Any) -> Self:
        """A new encoder, fitted to the rows of both; neither of the two changes.

        Args:
            other: a fitted encoder with the same settings and columns.

        Raises:
            ValueError: for other settings or columns, and where one was loaded or grown.
            TypeError: for another kind of encoder.

        >>> from tabembed import TableEncoder
        >>> a, b = (TableEncoder().fit({"n": numbers}) for numbers in ([1.0, 2.0], [6.0]))
        >>> a.merge(b).schema_["n"].mean
        3.0
        """
        name = type(self).__name__
        if type(other) is not type(self):
            raise TypeError(f"{name}.merge must be given a {name}, got {type(other).__name__}")
        ours, theirs = _settings(self), _settings(other)
        for key in sorted({*ours, *theirs}):
            one, two = ours.get(key), theirs.get(key)
            if one != two:
                raise ValueError(f"{name}.merge must be given the same {key}, got {one!r} and {two!r}")
        states = [encoder._rows_so_far("merge") for encoder in (self, other)]
        merged = clone(self)
        return merged.finalize(merged.merge_states(*states))

    def fit_parquet(
        self,
        source: Any,
        *,
        columns: Sequence[str] | None = None,
        batch_size: int = BATCH_ROWS,
        verbose: bool = False,
    ) -> Self:
        """Learn from parquet files that need not fit into memory: the fit of all their rows at once.

        Args:
            source: path of a file or of a folder, whose files are all read but for those that begin with
                ``_`` or ``.``; a list of paths of files; or a ``pyarrow.dataset.Dataset``. Types that
                differ between files are brought together.
            columns: names of the columns that the table has; ``None`` for all.
            batch_size: rows that are in memory at a time.
            verbose: show a bar.

        Raises:
            FileNotFoundError: when there is no such file or folder.
            ValueError: for what is no parquet, columns that are not in every file, no rows.
            TypeError: for columns whose types do not go together.

        >>> import tempfile, pyarrow.parquet as pq
        >>> from tabembed import TableEncoder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pq.write_table(pa.table({"city": ["Oslo", "Rome", "Rome"]}), f"{folder}/a.parquet")
        ...     encoder = TableEncoder().fit_parquet(folder)
        >>> encoder.categories_["city"].tolist()
        ['Rome', 'Oslo']
        """
        check_integer(batch_size=batch_size)
        dataset = open_dataset(source, columns)
        with said_once(), rows_done("fit", dataset, verbose) as advance:
            states = (self._counted(table, advance) for table in tables_of(dataset, columns, batch_size))
            return self.finalize(merge_all(states, self.merge_states))

    def _counted(self, table: pa.Table, advance: Callable[[int], None]) -> Any:
        state = self.partial(table)
        advance(table.num_rows)
        return state

    def _rows_so_far(self, method: str) -> Any:
        check_is_fitted(self, "schema_")
        if getattr(self, "_state", None) is None:
            name = f"{type(self).__name__}.{method}"
            raise ValueError(f"{name} must continue a fit, got an encoder that was loaded or grown")
        return self._state


class TableStreaming(Streaming):
    """What ``Streaming`` gives, and the encoding of parquet files."""

    def transform_parquet(
        self,
        source: Any,
        out: str | os.PathLike[str],
        *,
        keep: Sequence[str] = (),
        batch_size: int = BATCH_ROWS,
        verbose: bool = False,
    ) -> None:
        """Encode parquet files that need not fit into memory; the rows keep their order.

        Written are the columns of the fit under their names: ids as int32, numbers scaled as float32
        and null where missing, times as nanoseconds in the zone of the fit, lists as lists of ids. It
        is written beside ``out`` and renamed at the end: interrupted, it leaves nothing under that
        name, and starts from the beginning next time.

        Args:
            source: as for ``fit_parquet``.
            out: a file, which is replaced where it exists; for a folder as source a folder that is not
                there yet, which gets a file a file. (A folder that is a column, as ``year=2013``,
                becomes ``year-2013``, as the column is in the files.)
            keep: names of columns that are none of the fit's and go along as they are: a target, or
                the name of a row. They stand last.
            batch_size: rows that are in memory at a time.
            verbose: show a bar.

        Raises:
            FileNotFoundError: when there is no such source, or no folder to write into.
            FileExistsError: when ``out`` is a folder with something in it, or a file for a folder.
            ValueError: for what is no parquet, columns that are not there, kept ones that are of the
                fit, and for an ``out`` that is the source or lies in it.

        >>> import tempfile, pyarrow.parquet as pq
        >>> from tabembed import TableEncoder
        >>> table = pa.table({"city": ["Oslo", "Rome", "Rome"], "late": [True, False, False]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pq.write_table(table, f"{folder}/a.parquet")
        ...     encoder = TableEncoder({"late": "drop"}).fit_parquet(f"{folder}/a.parquet")
        ...     encoder.transform_parquet(f"{folder}/a.parquet", f"{folder}/ids.parquet", keep=["late"])
        ...     pq.read_table(f"{folder}/ids.parquet").to_pydict()
        {'city': [4, 3, 3], 'late': [True, False, False]}
        """
        check_is_fitted(self, "schema_")
        check_integer(batch_size=batch_size)
        encoder: Any = self
        kept = _checked_keep(encoder, keep)
        names = [*encoder.columns_, *kept] if encoder._named else None
        dataset = open_dataset(source, names)
        folder = Path(source) if isinstance(source, str | os.PathLike) and Path(source).is_dir() else None
        read = getattr(dataset, "files", ()) if folder is None else [folder]
        check_out(Path(out), read, folder is not None)
        written = pa.schema(
            [*encoded_schema(encoder.schema_), *(dataset.schema.field(name) for name in kept)]
        )
        with (
            said_once(),
            rows_done("transform", dataset, verbose) as advance,
            beside_of(Path(out), folder is not None) as target,
        ):
            for part, path in _parts(dataset, folder, target):
                path.parent.mkdir(parents=True, exist_ok=True)
                with pq.ParquetWriter(path, written) as writer:
                    for table in tables_of(part, names, batch_size):
                        encoded = encoded_table(encoder.transform(table), encoder.schema_)
                        columns = [*encoded.columns, *(table[name] for name in kept)]
                        writer.write_table(pa.Table.from_arrays(columns, schema=written))
                        advance(table.num_rows)


def _checked_keep(encoder: Any, keep: Sequence[str]) -> list[str]:
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise TypeError(f"keep must be a sequence of names of columns, got {keep!r}")
    if keep and not encoder._named:
        raise ValueError(f"keep must be empty where the fit had no names, got {list(keep)}")
    of_fit = [name for name in keep if name in encoder.columns_]
    if of_fit:
        raise ValueError(f"keep must name columns that are not encoded, got {of_fit[0]!r}")
    return list(keep)


def _settings(encoder: Any) -> dict[str, Any]:
    """Arguments by name, those of an encoder inside by its own; of that one its class."""
    params = encoder.get_params(deep=True)
    return {key: type(value) if hasattr(value, "get_params") else value for key, value in params.items()}


def _parts(dataset: ds.Dataset, folder: Path | None, target: Path) -> Iterator[tuple[ds.Dataset, Path]]:
    """Every part of the source, and where it goes."""
    if folder is None:
        yield dataset, target
        return
    for fragment in dataset.get_fragments():
        part = ds.FileSystemDataset([fragment], dataset.schema, dataset.format, dataset.filesystem)
        place = Path(fragment.path).relative_to(folder.as_posix())
        path = target / str(place).replace("=", "-")
        if path.exists():  # as of a=1 and a-1
            raise ValueError(f"source must have one file for each name in out, got two for {path.name!r}")
        yield part, path


def rows_done(title: str, dataset: ds.Dataset, verbose: bool) -> AbstractContextManager[Callable[..., Any]]:
    """A bar over the rows of a dataset; what it gives is told how many more are done."""
    return progress(title, dataset.count_rows() if verbose else 0, verbose)
