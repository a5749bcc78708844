"""A model on disk: a folder with ``config.json`` and ``model.safetensors``, and no pickle.

This file knows no class. What it reads it has checked first: version, class, names, dtypes,
shapes, size and hash, all before an array is allocated. Nothing outside the folder is read: files
that are links are refused. What a folder makes of memory is bounded by its size.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tabembed.artifact.arrays_file import DTYPES, places_of, read_arrays
from tabembed.artifact.inside import opened
from tabembed.artifact.plain_json import Allowance, exactly, parse
from tabembed.artifact.refusal import CONFIG, MODEL, ArtifactError, refusal, short
from tabembed.artifact.replacing import left_aside, replace

FORMAT, FORMAT_VERSION = "tabembed", 1

_ROOM = 56 * 2**20
"""Bytes that a reader may take beyond what follows from the size of the files."""
_KEYS: dict[str, type] = {
    "class": str,
    "tabembed_version": str,
    "config": dict,
    "arrays": dict,
    "sha256": str,
    "config_sha256": str,
}


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
    fill = partial(_write_files, class_name=class_name, config=config, arrays=arrays)
    replace(target, fill, partial(_check_replaceable, named=target))


def read_config(path: str | os.PathLike[str], classes: Sequence[str]) -> dict[str, Any]:
    """Read and check ``config.json`` of a model folder.

    Args:
        path: the folder.
        classes: names of the classes that the caller can build.

    Raises: ArtifactError when the folder, the file, the version or the class is not as it must be.
    """
    with _opened(path) as (config, model):
        return _described(path, config, classes, _allowance(config, model))


def read(
    path: str | os.PathLike[str], classes: Sequence[str]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model folder that ``write`` wrote: its config and its arrays.

    Args:
        path: the folder.
        classes: names of the classes that the caller can build.

    Raises: ArtifactError when anything in the folder is not as it was written.
    """
    return _read(path, classes)[1:]


def load(
    path: str | os.PathLike[str], builders: Mapping[str, Callable[[dict, dict[str, np.ndarray]], Any]]
) -> Any:
    """Read a model folder and build what it holds.

    Args:
        path: the folder.
        builders: what makes an object of a config and arrays, by the name of its class.

    Raises: ArtifactError when anything in the folder is not as it was written, or makes no object.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/model", "Thing", {"width": 2}, {})
    ...     load(f"{folder}/model", {"Thing": lambda config, arrays: config["width"]})
    2
    """
    name, config, arrays = _read(path, list(builders))
    try:
        return builders[name](config, arrays)
    except ArtifactError as error:
        raise refusal(path, str(error)) from None
    except Exception as error:  # whatever stumbles over a config that no save has written
        raise refusal(path, f"{CONFIG} must describe a complete {name}, got {error!r:.300}") from None


def _read(
    path: str | os.PathLike[str], classes: Sequence[str]
) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    with _opened(path) as (config, model):
        allowance = _allowance(config, model)
        content = _described(path, config, classes, allowance)
        places = places_of(path, model, content["arrays"], allowance)
        arrays, found = read_arrays(path, model, places)
    if found != content["sha256"]:
        raise refusal(path, f"sha256 of {MODEL} must be {content['sha256']:.64}, got {found}")
    if _digest(content) != content["config_sha256"]:
        raise refusal(path, f"{CONFIG} must be as it was written, got a changed one")
    return content["class"], content["config"], {name: arrays[name] for name in content["arrays"]}


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[list[BinaryIO]]:
    """Both files of a model; whatever goes wrong with them on the way is the one error."""
    try:
        with opened(path, [CONFIG, MODEL]) as files:
            yield files
    except ArtifactError:
        raise
    except FileNotFoundError as error:
        if error.filename in (CONFIG, MODEL):
            raise refusal(path, f"{error.filename} must be there, got a folder without it") from None
        older = left_aside(Path(path))
        text = "nothing there"
        if older is not None:
            text += f" but {older.name!r}, the older model of a save that was killed: rename it"
        raise refusal(path, f"must be a folder, got {text}") from None
    except NotADirectoryError:
        raise refusal(path, "must be a folder, got a file") from None
    except OSError as error:
        name = error.filename if error.filename in (CONFIG, MODEL) else "it"
        raise refusal(path, f"{name} must be readable, got {error.strerror or error}") from None
    except MemoryError:
        raise refusal(path, "it must fit into memory, got one that does not") from None
    except ValueError as error:
        raise refusal(path, f"it must be readable, got {error}") from None


def _allowance(config: BinaryIO, model: BinaryIO) -> Allowance:
    """What the objects of both files' JSON may take: the texts and the arrays come on top."""
    return Allowance(_ROOM + 2 * _size(config) + 4 * _size(model))


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _described(
    path: str | os.PathLike[str], file: BinaryIO, classes: Sequence[str], allowance: Allowance
) -> dict[str, Any]:
    """What the config says, in the form that every config has."""
    try:
        content = parse(exactly(file, _size(file)), allowance)
    except (OSError, ValueError) as error:
        raise refusal(path, f"{CONFIG} must be readable JSON, got {error!s:.300}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise refusal(path, f"{CONFIG} must describe a tabembed model, got something else")
    version = content.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise refusal(path, f"format_version must be {FORMAT_VERSION}, got {short(version)}")
    for key, kind in _KEYS.items():
        if not isinstance(content.get(key), kind):
            got = short(content.get(key))
            raise refusal(path, f"{key} in {CONFIG} must be a {kind.__name__}, got {got}")
    if content["class"] not in classes:
        raise refusal(path, f"class must be one of {list(classes)}, got {short(content['class'])}")
    return content


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.name not in DTYPES or name == "__metadata__":
        raise TypeError(f"array {name!r} must be one of {list(DTYPES)}, got {array.dtype}")
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


def _check_replaceable(folder: Path, named: Path) -> None:
    """Only what ``write`` made may be removed: these two files, and the mark of the format."""
    try:
        ours = {entry.name for entry in folder.iterdir()} == {CONFIG, MODEL}
        with _opened(folder) as (config, model):
            content = parse(exactly(config, _size(config)), _allowance(config, model))
        ours = ours and content["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError):
        ours = False
    if not ours:
        raise refusal(named, "path must be new or hold only a tabembed model, got something else")
