"""A folder of a few files that is replaced as one, whoever else writes or is killed."""

from __future__ import annotations

import ctypes
import errno
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

ATTEMPTS = 100
"""How often a reader or a writer that another writer was faster than tries again."""
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.ENOENT)


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
    beside, lock = new_beside(target)
    ours = os.stat(beside)
    try:
        fill(beside)
        names = os.listdir(beside)
        _put_in_place(beside, target, names, check)
        _remove(beside, names)
        for left in stale(target):
            with suppress(OSError):  # removed by another
                if set(os.listdir(left)) <= set(names):
                    _remove(left, names)
    except BaseException:
        if beside.exists() and os.path.samestat(ours, os.stat(beside)):
            _remove(beside, os.listdir(beside))
        raise
    finally:
        if lock is not None:
            os.close(lock)


def new_beside(target: Path) -> tuple[Path, int | None]:
    """A hidden folder beside a target, and the lock that says its writer lives: a process that ends loses it.

    Args:
        target: what is to be written, in a folder that is there.

    Returns: the folder, and the lock to close at the end; ``None`` where the system has no such locks.
    """
    while True:
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        beside.mkdir()
        lock = _lock(beside)
        if beside.exists():  # else another writer has found it before it had its lock
            return beside, lock
        if lock is not None:
            os.close(lock)


def stale(target: Path) -> Iterator[Path]:
    """Hidden folders that killed writers have left beside a target, each locked while it is looked at.

    Args:
        target: what they were to write. Where the system has no locks there is nothing to tell by, so none.
    """
    for left in _hidden(target):
        lock = _lock(left)
        if lock is None:
            continue
        try:
            yield left
        finally:
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


def _put_in_place(beside: Path, target: Path, names: Sequence[str], check: Callable[[Path], None]) -> None:
    for attempt in range(ATTEMPTS):
        try:
            if not os.path.lexists(target):
                os.rename(beside, target)
            elif not exchange(beside, target):
                _in_two_steps(beside, target, names, check)
            else:
                _check_taken_out(beside, target, check)
            return
        except OSError as error:  # another writer was there between the look and the step
            if error.errno not in _TAKEN or attempt == ATTEMPTS - 1 or not beside.exists():
                raise
            _check_steady(target, check)


def _check_steady(target: Path, check: Callable[[Path], None]) -> None:
    """Check what is there, if anything; again where another writer changed it while it was looked at."""
    for attempt in range(ATTEMPTS):
        before = _mark(target)
        if before is None:
            return
        try:
            return check(target)
        except Exception:
            if attempt == ATTEMPTS - 1 or _mark(target) == before:
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


def _remove(folder: Path, names: Sequence[str]) -> None:
    """Remove a folder that holds nothing but these files; other things stay, and it with them."""
    with suppress(OSError):
        for name in names:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
