"""A folder of a few files that is replaced as one and read as one, whoever else writes or is killed.

What is read is read inside the folder: a link, a pipe or a device in the place of a file is refused.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_ATTEMPTS = 100
"""How often a reader or a writer that another writer was faster than tries again."""
_BY_FOLDER = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_FLAGS = os.O_RDONLY | sum(
    getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.ENOENT)


@contextmanager
def opened(path: str | os.PathLike[str], names: Sequence[str]) -> Iterator[list[BinaryIO]]:
    """Files of a folder, all of them of one moment: a writer that replaces the folder changes none.

    Args:
        path: the folder; a link to one is followed.
        names: the files.

    Raises: NotADirectoryError or FileNotFoundError for the folder or a file that is not there, OSError for
        a file that is a link, a pipe, a device or a folder.
    """
    for attempt in range(_ATTEMPTS):
        files: list[BinaryIO] = []
        try:
            for file in _files(path, names):
                files.append(file)
        except FileNotFoundError as error:
            _close(files)
            # Replaced before all files were open: those of the newer folder are as good.
            if attempt == _ATTEMPTS - 1 or not _may_come(path, error):
                raise
            time.sleep(0.002)
            continue
        except OSError:
            _close(files)
            raise
        try:
            yield files
        finally:
            _close(files)
        return


def replace(target: Path, fill: Callable[[Path], None], check: Callable[[Path], None]) -> None:
    """Put a new folder in the place of another, in one step where the system has one.

    A process killed on the way leaves the old folder or the new one at ``target``, and beside it a hidden
    one that the next call removes. Where two folders cannot change places in one step, a kill between two
    renames leaves the old one aside under a hidden name that ends in ``.old``.

    Args:
        target: the folder. Its parents are made.
        fill: writes the files of the new folder.
        check: raises where the folder that is there must stay.
    """
    _check_steady(target, check)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside, lock = _new_beside(target)
    ours = os.stat(beside)
    try:
        fill(beside)
        names = os.listdir(beside)
        _put_in_place(beside, target, names, check)
        _remove(beside, names)
        for left in _hidden(target):
            _remove_stale(left, names)
    except BaseException:
        if beside.exists() and os.path.samestat(ours, os.stat(beside)):
            _remove(beside, os.listdir(beside))
        raise
    finally:
        if lock is not None:
            os.close(lock)


def left_aside(target: Path) -> Path | None:
    """The older folder that a save killed between two renames has left, where there is no other."""
    if os.path.lexists(target):
        return None
    return next((left for left in _hidden(target) if left.name.endswith(".old")), None)


def exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; False where the system cannot."""
    call = getattr(_libc(), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), ctypes.c_uint(_EXCHANGE)) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):
        return None


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
        error.replaced = _is_replaced(folder, path)  # type: ignore[attr-defined]
        raise
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
    if (replaced := getattr(error, "replaced", None)) is not None:
        return replaced
    return os.path.lexists(path) or left_aside(Path(path)) is not None


def _close(files: Sequence[BinaryIO]) -> None:
    for file in files:
        file.close()


def _put_in_place(beside: Path, target: Path, names: Sequence[str], check: Callable[[Path], None]) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            if not os.path.lexists(target):
                os.rename(beside, target)
            elif not exchange(beside, target):
                _in_two_steps(beside, target, names, check)
            else:
                _check_taken_out(beside, target, check)
            return
        except OSError as error:  # another writer was there between the look and the step
            if error.errno not in _TAKEN or attempt == _ATTEMPTS - 1 or not beside.exists():
                raise
            _check_steady(target, check)


def _check_steady(target: Path, check: Callable[[Path], None]) -> None:
    """Check what is there, if anything; again where another writer changed it while it was looked at."""
    for attempt in range(_ATTEMPTS):
        before = _mark(target)
        if before is None:
            return
        try:
            return check(target)
        except Exception:
            if attempt == _ATTEMPTS - 1 or _mark(target) == before:
                raise


def _mark(path: Path) -> tuple[int, int, int] | None:
    """Which folder this is, and in which state: renaming it and removing its files changes the time."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _check_taken_out(beside: Path, target: Path, check: Callable[[Path], None]) -> None:
    """What another has put there after the first look may have to stay."""
    lock = _lock(beside)
    if lock is None:  # another writer has found it and tidies up
        return
    try:
        if beside.exists() and os.listdir(beside):
            check(beside)
    except Exception:
        exchange(beside, target)
        raise
    finally:
        os.close(lock)


def _in_two_steps(beside: Path, target: Path, names: Sequence[str], check: Callable[[Path], None]) -> None:
    _check_steady(target, check)
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.old")
    os.rename(target, aside)
    try:
        os.rename(beside, target)
    except OSError:
        if not os.path.lexists(target):
            os.rename(aside, target)
        else:
            _remove(aside, names)
        raise
    _remove(aside, names)


def _new_beside(target: Path) -> tuple[Path, int | None]:
    """A hidden folder and the lock that says its writer lives: a process that ends loses it."""
    while True:
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        beside.mkdir()
        lock = _lock(beside)
        if beside.exists():  # else another writer has found it before it had its lock
            return beside, lock
        if lock is not None:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """A lock on a folder, ``None`` where it is taken or there are no such locks."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (ImportError, AttributeError, OSError):
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _hidden(target: Path) -> list[Path]:
    """Hidden folders beside the target that have the name of one of ours."""
    start, found = f".{target.name}.", []
    for path in target.parent.iterdir() if target.parent.is_dir() else ():
        mark = path.name.removeprefix(start).removesuffix(".old")
        if path.name.startswith(start) and len(mark) == 32 and set(mark) <= set("0123456789abcdef"):
            found.append(path)
    return found


def _remove_stale(folder: Path, names: Sequence[str]) -> None:
    """Remove what a killed writer has left: no one holds its lock, and nothing else lies in it."""
    lock = _lock(folder)
    if lock is None:
        return
    try:
        if set(os.listdir(folder)) <= set(names):
            _remove(folder, names)
    except OSError:  # removed by another
        pass
    finally:
        os.close(lock)


def _remove(folder: Path, names: Sequence[str]) -> None:
    """Remove a folder that holds nothing but these files; other things stay, and it with them."""
    try:
        for name in names:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        pass
