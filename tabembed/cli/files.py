"""Tables from files and to files; every message names the file."""

from __future__ import annotations

import os
import stat
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

    Raises: ValueError when the file is absent, no regular file, empty, without columns, truncated, damaged,
        larger than memory, or not what its suffix says.
    """
    import pyarrow

    read = _READERS[check_suffix(path)]
    _check_regular(path)
    try:
        table = _read_csv(path, text) if read is _read_csv else read(path)
        "".join(table.column_names).encode()  # names that are no UTF-8 are found here
        table.validate(full=True)  # offsets that lead outside of a file would end the process later on
    except (pyarrow.ArrowException, OSError, UnicodeError, MemoryError, RecursionError) as error:
        what = str(error) or type(error).__name__
        raise ValueError(f"{path}: cannot be read as {path.suffix.lower()[1:]}: {what:.500}") from error
    if table.num_columns == 0:
        raise ValueError(f"{path}: has no columns")
    return table


def _check_regular(path: Path) -> None:
    """Refuse what is no regular file before it is opened: a pipe would wait for its writer for ever."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: a zero byte in the path
        raise ValueError(f"{path}: no such file") from None
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe"}
        got = kinds.get(stat.S_IFMT(found.st_mode), "a device or a socket")
        raise ValueError(f"{path}: must be a regular file, got {got}")
    if found.st_size == 0:
        raise ValueError(f"{path}: must hold a table, got an empty file")


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

    with parquet.ParquetFile(path) as file:
        _check_fits(file.metadata)
        return file.read()


def _check_fits(footer: Any) -> None:
    """A few bytes can say a billion equal values: refuse more values than this machine has bytes."""
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    if any(group.num_rows < 0 for group in groups) or sum(g.num_rows for g in groups) != footer.num_rows:
        raise OSError("its groups of rows must hold the rows of its footer")
    pages = sum(max(group.total_byte_size, 0) for group in groups)
    needed, there = max(pages, footer.num_rows * footer.num_columns), _bytes_of_memory()
    if needed > there:
        raise MemoryError(f"it says to take at least {needed:,} bytes, more than the {there:,} of memory")


def _bytes_of_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # a system that does not say
        return 2**63


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
