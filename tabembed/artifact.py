"""A model on disk: a folder with ``config.json`` and ``model.safetensors``, and no pickle.

This file knows no class. What it reads it has checked first: version, class, names, dtypes,
shapes, size and hash, all before an array is allocated.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FORMAT, FORMAT_VERSION = "tabembed", 1
CONFIG, MODEL = "config.json", "model.safetensors"

_DTYPES = {
    "bool": "BOOL",
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}
_KEYS: dict[str, type] = {
    "class": str,
    "tabembed_version": str,
    "config": dict,
    "arrays": dict,
    "sha256": str,
    "config_sha256": str,
}


class ArtifactError(ValueError):
    """A folder is not a complete model that this version can read, or may not be replaced by one."""


def write(path: str | os.PathLike[str], class_name: str, config: dict, arrays: dict[str, np.ndarray]) -> None:
    """Write a model folder: complete or not at all, in the place of an older model if there is one.

    Args:
        path: the folder. Its parents are made; a model that is there is replaced.
        class_name: the class to which a reader gives ``config`` and ``arrays``.
        config: plain JSON values, numbers finite.
        arrays: bool, integer and float arrays by name; shapes are free.

    Raises: ArtifactError when ``path`` exists and is not a model folder; ValueError when ``config``
    is not plain JSON; TypeError when an array has another dtype.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/model", "Thing", {"width": 2}, {"weight": np.ones((1, 2), dtype="float32")})
    ...     config, arrays = read(f"{folder}/model", classes=["Thing"])
    >>> config, arrays["weight"].tolist()
    ({'width': 2}, [[1.0, 1.0]])
    """
    arrays = {name: _plain(name, array) for name, array in arrays.items()}
    target = Path(os.path.realpath(path))  # a link keeps pointing at the model
    if target.exists():
        _check_replaceable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        beside.mkdir()
        _write_files(beside, class_name, config, arrays)
        _put_in_place(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def read_config(path: str | os.PathLike[str], classes: Sequence[str]) -> dict[str, Any]:
    """Read and check ``config.json`` of a model folder.

    Args:
        path: the folder.
        classes: names of the classes that the caller can build.

    Raises: ArtifactError when the folder, the file, the version or the class is not as it must be.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ArtifactError(f"model folder {str(folder)!r}: must be a folder, got {_what_is(folder)}")
    try:
        content = json.loads((folder / CONFIG).read_bytes().decode("utf-8"), parse_constant=_no_constant)
    except FileNotFoundError:
        raise _error(folder, f"{CONFIG} must be there, got a folder without it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _error(folder, f"{CONFIG} must be readable JSON, got {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _error(folder, f"{CONFIG} must describe a tabembed model, got something else")
    version = content.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise _error(folder, f"format_version must be {FORMAT_VERSION}, got {version!r}")
    for key, kind in _KEYS.items():
        if not isinstance(content.get(key), kind):
            raise _error(folder, f"{key} in {CONFIG} must be a {kind.__name__}, got {content.get(key)!r:.60}")
    if content["class"] not in classes:
        raise _error(folder, f"class must be one of {list(classes)}, got {content['class']!r}")
    return content


def read(
    path: str | os.PathLike[str], classes: Sequence[str]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model folder that ``write`` wrote: its config and its arrays.

    Args:
        path: the folder.
        classes: names of the classes that the caller can build.

    Raises: ArtifactError when anything in the folder is not as it was written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    content, folder = read_config(path, classes), Path(path)
    try:
        _check_header(folder, content["arrays"])
        with open(folder / MODEL, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != content["sha256"]:
            raise _error(folder, f"sha256 of {MODEL} must be {content['sha256']:.64}, got {found}")
        arrays = load_file(folder / MODEL)
        if _digest(content) != content["config_sha256"]:
            raise _error(folder, f"{CONFIG} must be as it was written, got a changed one")
        return content["config"], arrays
    except FileNotFoundError:
        raise _error(folder, f"{MODEL} must be there, got a folder without it") from None
    except (OSError, SafetensorError) as error:
        raise _error(folder, f"{MODEL} must be readable, got {error}") from None


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.name not in _DTYPES or name == "__metadata__":
        raise TypeError(f"array {name!r} must be one of {list(_DTYPES)}, got {array.dtype}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _write_files(folder: Path, class_name: str, config: dict, arrays: dict[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    from tabembed import __version__

    save_file(arrays, folder / MODEL)
    with open(folder / MODEL, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "class": class_name,
        "tabembed_version": __version__,
        "sha256": digest,
        "arrays": {n: {"dtype": a.dtype.name, "shape": list(a.shape)} for n, a in arrays.items()},
        "config": config,
    }
    try:
        content["config_sha256"] = _digest(content)
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise ValueError(f"config must be plain JSON with finite numbers, got {error}") from None
    with open(folder / CONFIG, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    shutil.copymode(folder / CONFIG, folder / MODEL)  # safetensors leaves it readable by its owner alone


def _digest(content: dict[str, Any]) -> str:
    """Hash of what the config says, however its JSON is laid out."""
    said = {key: value for key, value in content.items() if key != "config_sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _put_in_place(beside: Path, target: Path) -> None:
    if not target.exists():
        os.rename(beside, target)
        return
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    os.rename(target, aside)
    try:
        os.rename(beside, target)
    except OSError:
        os.rename(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _check_replaceable(target: Path) -> None:
    """Only what ``write`` made may be removed: these two files, and the mark of the format."""
    try:
        ours = {entry.name for entry in target.iterdir()} == {CONFIG, MODEL}
        ours = ours and json.loads((target / CONFIG).read_bytes())["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        ours = False
    if not ours:
        raise _error(target, "path must be new or hold only a tabembed model, got something else")


def _check_header(folder: Path, arrays: dict[str, Any]) -> None:
    """Compare the header of the arrays' file with the config and with the size of the file."""
    with open(folder / MODEL, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little") if size >= 8 else size
        if 8 + length > size:
            raise _error(folder, f"{MODEL} must hold its header, got {size} bytes")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            found = {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise _error(folder, f"{MODEL} must have a readable header, got a damaged one") from None
    if found.keys() != arrays.keys():
        raise _error(folder, f"{MODEL} must hold the arrays {sorted(arrays)}, got {sorted(found)}")
    n_bytes = 0
    for name, entry in arrays.items():
        dtype, shape = _declared(folder, name, entry)
        if found[name] != (_DTYPES[dtype], shape):
            raise _error(
                folder, f"array {name!r} must be {dtype} {shape}, got {found[name][0]} {found[name][1]}"
            )
        n_bytes += math.prod(shape) * np.dtype(dtype).itemsize
    if 8 + length + n_bytes != size:
        raise _error(folder, f"{MODEL} must have {8 + length + n_bytes} bytes, got {size}")


def _declared(folder: Path, name: str, entry: Any) -> tuple[str, list[int]]:
    dtype = entry.get("dtype") if isinstance(entry, dict) else None
    shape = entry.get("shape") if isinstance(entry, dict) else None
    sound = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not isinstance(dtype, str) or dtype not in _DTYPES or not sound:
        raise _error(folder, f"array {name!r} must be described by a dtype and a shape, got {entry!r:.60}")
    return dtype, shape  # type: ignore[return-value]


def _no_constant(text: str) -> float:
    raise ValueError(f"the number {text}")


def _what_is(path: Path) -> str:
    return "a file" if path.exists() else "nothing there"


def _error(folder: Path, text: str) -> ArtifactError:
    return ArtifactError(f"model folder {str(folder)!r}: {text}")
