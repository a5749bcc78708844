"""Models and frames from paths and to paths."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas


def load_model(path: Path) -> Any:
    """Read a model folder.

    Raises: ValueError when there is no such folder.
    """
    import tabembed

    if not path.is_dir():
        raise ValueError(f"{path}: no such folder")
    return tabembed.load(path)


def read_frame(path: Path, needs: Sequence[str] = (), text: Sequence[str] = ()) -> pandas.DataFrame:
    """Read a table file as a frame.

    Args:
        path: the file.
        needs: columns that must be there.
        text: columns that a CSV file's digits stay text in.

    Raises: ValueError when a column is not there, stands twice, or has values that no frame holds.
    """
    import pyarrow

    from tabembed.cli.files import read_table
    from tabembed.table.frame import to_pandas

    table = read_table(path, text)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name in needs:
        if name not in columns:
            raise ValueError(f"column {name!r}: not in {path}, which has {_short(columns)}")
    if len(columns) < table.num_columns:
        twice = [name for name, times in Counter(table.column_names).items() if times > 1]
        raise ValueError(f"column {min(twice)!r:.100}: given twice in {path}")
    try:
        return to_pandas({name: column.combine_chunks() for name, column in columns.items()})
    except (
        pyarrow.ArrowException,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        MemoryError,
    ) as error:
        raise ValueError(f"{path}: must hold values of a frame, got {error!s:.500}") from error


def _short(names: Iterable[str]) -> str:
    """Names of columns in a message, however many there are."""
    few = reprlib.Repr()
    few.maxlist, few.maxstring = 50, 100
    return few.repr(list(names))


def write_frame(frame: pandas.DataFrame, path: Path) -> None:
    """Write a frame, an index with a name as its first column, and say so."""
    import pyarrow

    from tabembed.cli.files import write_table

    frame = frame if frame.index.name is None else frame.reset_index()
    write_table(pyarrow.Table.from_pandas(frame, preserve_index=False), path)
    typer.echo(f"wrote {len(frame):,} rows x {frame.shape[1]} columns to {path}")
