"""The one error about model folders, and how it shows what it has found."""

from __future__ import annotations

import reprlib
from typing import Any

CONFIG, MODEL = "config.json", "model.safetensors"
_REPR = reprlib.Repr()
_REPR.maxlist = _REPR.maxdict = 20
_REPR.maxstring = _REPR.maxother = 80


class ArtifactError(ValueError):
    """A folder is not a complete model that this version can read, or may not be replaced by one."""


def refusal(path: Any, text: str) -> ArtifactError:
    """The error about a folder, which it names."""
    return ArtifactError(f"model folder {str(path)!r}: {text}")


def short(value: Any) -> str:
    """A value in a message, however large or deep it is."""
    return _REPR.repr(value)
