"""Tables from files and to files; every message names the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".csv", ".parquet", ".arrow", ".feather")


def check_suffix(path: Path) -> str:
    """The suffix of a table file in lower case.

    Raises: ValueError when it is none that can be read and written.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: must end in one of {', '.join(SUFFIXES)}, got {path.suffix!r}")
    return suffix


def check_output(path: Path) -> None:
    """Refuse a place for a result that cannot be written, before the work starts.

    Raises: ValueError when the suffix is unknown, the folder is missing, or the path is a folder.
    """
    check_suffix(path)
    check_parent(path)
    if path.is_dir():
        raise ValueError(f"{path}: must be a file, got a folder")


def check_apart(paths: Mapping[str, Path | None]) -> None:
    """Refuse one path in two roles: a result would overwrite what it comes from, or another result.

    Raises: ValueError naming both roles.
    """
    roles: dict[Path, str] = {}
    for role, path in paths.items():
        if path is not None and roles.setdefault(path.resolve(), role) != role:
            raise ValueError(f"{role} must be another path than {roles[path.resolve()]}, got {path} for both")


def check_parent(path: Path) -> None:
    """Refuse a path whose folder is not there.

    Raises: ValueError when the folder is missing.
    """
    parent = path.absolute().parent
    if not parent.is_dir():
        raise ValueError(f"{path}: must be in a folder that exists, got {parent}")


def read_table(path: Path, text: Sequence[str] = ()) -> pyarrow.Table:
    """Read a CSV, parquet, Arrow or feather file, chosen by its suffix.

    Args:
        path: the file. In a CSV file an empty cell is missing, in columns of text too.
        text: columns that a CSV file's digits stay text in, so that 007 keeps its zeros.

    Raises: ValueError when the file is absent, empty of columns, truncated, or not what its suffix says.
    """
    import pyarrow

    read = _READERS[check_suffix(path)]
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        table = _read_csv(path, text) if read is _read_csv else read(path)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as {path.suffix.lower()[1:]}: {error}") from error
    if table.num_columns == 0:
        raise ValueError(f"{path}: has no columns")
    return table


def write_table(table: pyarrow.Table, path: Path) -> None:
    """Write beside the target, then rename: a reader never sees half a file."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        _WRITERS[check_suffix(path)](table, part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _read_csv(path: Path, text: Sequence[str] = ()) -> pyarrow.Table:
    import pyarrow
    from pyarrow import csv

    # One block, so that a column's type is inferred from all of its rows and not from the first megabyte.
    block = min(max(path.stat().st_size, 1 << 20), 2**31 - 2)
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(block_size=block),
        convert_options=csv.ConvertOptions(
            strings_can_be_null=True, column_types={name: pyarrow.string() for name in text}
        ),
    )
    for field in table.schema:
        if pyarrow.types.is_binary(field.type):  # what Arrow makes of bytes that are no UTF-8
            raise pyarrow.ArrowInvalid(f"column {field.name!r} is not UTF-8 text")
    return table


def _read_parquet(path: Path) -> pyarrow.Table:
    from pyarrow import parquet

    return parquet.ParquetFile(path).read()


def _read_arrow(path: Path) -> pyarrow.Table:
    from pyarrow import ipc

    with path.open("rb") as file:
        is_file = file.read(6) == b"ARROW1"  # the stream format starts with a length instead
        file.seek(0)
        return (ipc.open_file if is_file else ipc.open_stream)(file).read_all()


def _write_csv(table: pyarrow.Table, path: Path) -> None:
    from pyarrow import csv

    csv.write_csv(table, path)


def _write_parquet(table: pyarrow.Table, path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(table, path)


def _write_arrow(table: pyarrow.Table, path: Path) -> None:
    from pyarrow import feather

    feather.write_feather(table, path, compression="uncompressed")


_READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
}
_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".feather": _write_arrow,
}
