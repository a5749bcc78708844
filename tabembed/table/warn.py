"""Warnings at the line that called the package, from however deep inside."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


def warn_user(text: str) -> None:
    """Warn at the line that called the package: a fit may have been called by the user, or by an estimator.

    Args:
        text: the warning.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)
