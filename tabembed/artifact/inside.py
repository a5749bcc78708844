"""Files of a folder, read inside of it: a link, a pipe or a device in the place of a file is refused."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from tabembed.artifact.replacing import ATTEMPTS, left_aside

_BY_FOLDER = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_FLAGS = os.O_RDONLY | sum(
    getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)


class _GoneError(FileNotFoundError):
    """A file is not there in a folder that was.

    Args:
        error: what the system said.
        replaced: whether another folder stands in its place by now.
    """

    def __init__(self, error: FileNotFoundError, replaced: bool) -> None:
        super().__init__(error.errno, error.strerror, error.filename)
        self.replaced = replaced


@contextmanager
def opened(path: str | os.PathLike[str], names: Sequence[str]) -> Iterator[list[BinaryIO]]:
    """Files of a folder, all of them of one moment: a writer that replaces the folder changes none.

    Args:
        path: the folder; a link to one is followed.
        names: the files.

    Raises: NotADirectoryError or FileNotFoundError for the folder or a file that is not there, OSError for
        a file that is a link, a pipe, a device or a folder.
    """
    for attempt in range(ATTEMPTS):
        with ExitStack() as stack:
            try:
                files = [stack.enter_context(file) for file in _files(path, names)]
            except FileNotFoundError as error:
                # Replaced before all files were open: those of the newer folder are as good.
                if attempt == ATTEMPTS - 1 or not _may_come(path, error):
                    raise
            else:
                yield files
                return
        time.sleep(0.002)


def _files(path: str | os.PathLike[str], names: Sequence[str]) -> Iterator[BinaryIO]:
    if not _BY_FOLDER:
        for name in names:
            yield _regular(os.path.join(path, name), name, None)
        return
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            yield _regular(name, name, folder)
    except FileNotFoundError as error:
        raise _GoneError(error, _is_replaced(folder, path)) from None
    finally:
        os.close(folder)


def _regular(path: str, name: str, folder: int | None) -> BinaryIO:
    """Open a regular file and nothing else; a device is not even opened."""
    _check_regular(os.stat(path, dir_fd=folder, follow_symlinks=False), name)
    handle = os.open(path, _FLAGS, dir_fd=folder)
    try:
        _check_regular(os.fstat(handle), name)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def _check_regular(found: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe"}
        what = kinds.get(stat.S_IFMT(found.st_mode), "a device or a socket")
        raise OSError(errno.EINVAL, what, name)


def _is_replaced(folder: int, path: str | os.PathLike[str]) -> bool:
    try:
        return not os.path.samestat(os.fstat(folder), os.stat(path))
    except FileNotFoundError:
        return True


def _may_come(path: str | os.PathLike[str], error: OSError) -> bool:
    """What was not there may be there a moment later: it has been replaced, or is between two renames."""
    if isinstance(error, _GoneError):
        return error.replaced
    return os.path.lexists(path) or left_aside(Path(path)) is not None
