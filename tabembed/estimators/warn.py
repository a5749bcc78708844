"""Warnings of estimators: at the line of the caller, and each said once."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sklearn

import tabembed

_OWN = tuple(str(Path(module.__file__ or "").parent) for module in (tabembed, sklearn))
_INNER = (*_OWN, contextmanager.__code__.co_filename)
"""Beginnings of the files between a user's line and a warning: those of the package, and of what wraps it."""
_LOCK = threading.Lock()
"""Filters of warnings belong to the whole process: two threads that change them must not overlap."""


def warn_user(message: str | Warning) -> None:
    """Warn at the line that called the package.

    Args:
        message: a text, which is a ``UserWarning``, or a warning.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, None if isinstance(message, Warning) else UserWarning, stacklevel=level)


@contextmanager
def said_once() -> Iterator[None]:
    """What is warned of inside is said afterwards, at the line that called the package, each text once.

    >>> with warnings.catch_warnings(record=True, action="always") as said:
    ...     with said_once():
    ...         warnings.warn("one row is left out")
    ...         warnings.warn("one row is left out")
    >>> len(said)
    1
    """
    with _LOCK, warnings.catch_warnings(record=True, action="always") as said:
        yield
    for message in {str(warning.message): warning.message for warning in said}.values():
        warn_user(message)


@contextmanager
def silent() -> Iterator[None]:
    """Nothing is warned of inside: it has been said of more rows."""
    with _LOCK, warnings.catch_warnings(action="ignore"):
        yield
