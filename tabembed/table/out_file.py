"""Where a result goes: refused at once, or written beside and renamed when it is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabembed.artifact.replacing import new_beside, stale


def check_out(out: Path, sources: Iterable[Any], is_folder: bool) -> None:
    """Check a place for a result: it overwrites nothing of the source, and can be written.

    Args:
        out: the place.
        sources: paths of the files and folders that are read.
        is_folder: the result is a folder of files.

    Raises:
        ValueError: when it is in the source.
        FileNotFoundError: when its folder is not there.
        FileExistsError: for a folder in the place of a file, and for anything in the place of a folder, but
            an empty one.
    """
    if any(out.resolve().is_relative_to(Path(source).resolve()) for source in sources):
        raise ValueError(f"out must not be the source or lie in it, got {str(out)!r}")
    if not out.resolve().parent.is_dir():
        raise FileNotFoundError(f"out must lie in a folder that is there, got {str(out)!r}")
    if not is_folder and out.is_dir():
        raise FileExistsError(f"out must be a file, as the source is one table, got the folder {str(out)!r}")
    if is_folder and (out.is_file() or (out.is_dir() and any(out.iterdir()))):
        raise FileExistsError(f"out must be a folder that is empty or not there yet, got {str(out)!r}")


@contextmanager
def beside_of(out: Path, is_folder: bool) -> Iterator[Path]:
    """A place beside the target, renamed when the block has ended, removed when it fails.

    What a killed process has left there is removed, too.

    Args:
        out: the target.
        is_folder: it is a folder of files.
    """
    out = out.resolve()
    for left in stale(out):
        shutil.rmtree(left, ignore_errors=True)
    beside, lock = new_beside(out)
    try:
        target = beside / out.name
        if is_folder:
            target.mkdir()
        yield target
        os.replace(target, out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if lock is not None:
            os.close(lock)
