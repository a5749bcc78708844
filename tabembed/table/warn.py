"""Warnings at the line that called the package, from however deep inside, and each said once."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import sklearn

_PACKAGES = (Path(__file__).parents[1], Path(sklearn.__file__).parent)
_INNER = (*(f"{folder}{os.sep}" for folder in _PACKAGES), contextmanager.__code__.co_filename)
"""Beginnings of the files between a user's line and a warning: those of the package, and of what wraps it."""

_HELD: ContextVar[list[str] | None] = ContextVar("held", default=None)
"""Texts that are to be said later, in this thread. Filters of warnings belong to the whole process."""


def warn_user(text: str) -> None:
    """Warn at the line that called the package: a fit may have been called by the user, or by an estimator.

    Args:
        text: what a ``UserWarning`` says.
    """
    held = _HELD.get()
    if held is not None:
        held.append(text)
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)


@contextmanager
def said_once() -> Iterator[None]:
    """What ``warn_user`` is told inside is said afterwards, each text once.

    >>> with warnings.catch_warnings(record=True, action="always") as said:
    ...     with said_once():
    ...         warn_user("one row is left out")
    ...         warn_user("one row is left out")
    >>> len(said)
    1
    """
    with held() as texts:
        yield
    for text in dict.fromkeys(texts):
        warn_user(text)


@contextmanager
def silent() -> Iterator[None]:
    """What ``warn_user`` is told inside is not said: it has been said of more rows."""
    with held():
        yield


@contextmanager
def held() -> Iterator[list[str]]:
    """Warnings of the block, kept instead of given."""
    texts: list[str] = []
    token = _HELD.set(texts)
    try:
        yield texts
    finally:
        _HELD.reset(token)
