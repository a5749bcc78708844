"""Models and frames from paths and to paths."""

from __future__ import annotations

from collections.abc import Sequence
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

    Raises: ValueError when a column is not there, or stands twice.
    """
    from tabembed.cli.files import read_table
    from tabembed.table.frame import to_pandas

    table = read_table(path, text)
    for name in needs:
        if name not in table.column_names:
            raise ValueError(f"column {name!r}: not in {path}, which has {table.column_names}")
    twice = {name for name in table.column_names if table.column_names.count(name) > 1}
    if twice:
        raise ValueError(f"column {min(twice)!r}: given twice in {path}")
    return to_pandas({name: table[name].combine_chunks() for name in table.column_names})


def write_frame(frame: pandas.DataFrame, path: Path) -> None:
    """Write a frame, an index with a name as its first column, and say so."""
    import pyarrow

    from tabembed.cli.files import write_table

    frame = frame if frame.index.name is None else frame.reset_index()
    write_table(pyarrow.Table.from_pandas(frame, preserve_index=False), path)
    typer.echo(f"wrote {len(frame):,} rows x {frame.shape[1]} columns to {path}")
