"""Warnings at the line that called the package, from however deep inside."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import sklearn

_PACKAGES = (Path(__file__).parents[1], Path(sklearn.__file__).parent)
_INNER = (*(f"{folder}{os.sep}" for folder in _PACKAGES), contextmanager.__code__.co_filename)
"""Beginnings of the files between a user's line and a warning: those of the package, and of what wraps it."""


def warn_user(message: str | Warning) -> None:
    """Warn at the line that called the package: a fit may have been called by the user, or by an estimator.

    Args:
        message: a text, which is a ``UserWarning``, or a warning.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, None if isinstance(message, Warning) else UserWarning, stacklevel=level)
