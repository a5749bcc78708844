"""What is warned of on the way, said once, at the line that called the package."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from tabembed.table.warn import warn_user

_LOCK = threading.Lock()
"""Filters of warnings belong to the whole process: two threads that change them must not overlap."""


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
