"""A model on disk: a folder with ``config.json`` and ``model.safetensors``, and no pickle.

This file knows no class. What it reads it has checked first: version, class, names, dtypes,
shapes, size and hash, all before an array is allocated. Nothing outside the folder is read: files
that are links are refused. What a folder makes of memory is bounded by its size.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import reprlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tabembed._folder import left_aside, opened, replace
from tabembed._json import Allowance, parse

FORMAT, FORMAT_VERSION = "tabembed", 1
CONFIG, MODEL = "config.json", "model.safetensors"

_DTYPES = {
    "bool": "BOOL",
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}
_ROOM = 56 * 2**20
"""Bytes that a reader may take beyond what follows from the size of the files."""
_LONGEST = 64 * 2**20
"""Bytes of JSON in one file; a table of ten thousand columns has 5 MB."""
_KEYS: dict[str, type] = {
    "class": str,
    "tabembed_version": str,
    "config": dict,
    "arrays": dict,
    "sha256": str,
    "config_sha256": str,
}


_AXES = 32
"""Most axes of an array; numpy has no more than 64."""
_REPR = reprlib.Repr()
_REPR.maxlist = _REPR.maxdict = 20
_REPR.maxstring = _REPR.maxother = 80


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
        raise _error(path, str(error)) from None
    except Exception as error:  # whatever stumbles over a config that no save has written
        raise _error(path, f"{CONFIG} must describe a complete {name}, got {error!r:.300}") from None


def _read(
    path: str | os.PathLike[str], classes: Sequence[str]
) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    with _opened(path) as (config, model):
        allowance = _allowance(config, model)
        content = _described(path, config, classes, allowance)
        places = _places(path, model, content["arrays"], allowance)
        arrays, found = _arrays(path, model, places)
    if found != content["sha256"]:
        raise _error(path, f"sha256 of {MODEL} must be {content['sha256']:.64}, got {found}")
    if _digest(content) != content["config_sha256"]:
        raise _error(path, f"{CONFIG} must be as it was written, got a changed one")
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
            raise _error(path, f"{error.filename} must be there, got a folder without it") from None
        older = left_aside(Path(path))
        text = "nothing there"
        if older is not None:
            text += f" but {older.name!r}, the older model of a save that was killed: rename it"
        raise _error(path, f"must be a folder, got {text}") from None
    except NotADirectoryError:
        raise _error(path, "must be a folder, got a file") from None
    except OSError as error:
        name = error.filename if error.filename in (CONFIG, MODEL) else "it"
        raise _error(path, f"{name} must be readable, got {error.strerror or error}") from None
    except MemoryError:
        raise _error(path, "it must fit into memory, got one that does not") from None
    except ValueError as error:
        raise _error(path, f"it must be readable, got {error}") from None


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
        content = parse(_exactly(file, _size(file)), allowance)
    except (OSError, ValueError) as error:
        raise _error(path, f"{CONFIG} must be readable JSON, got {error!s:.300}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _error(path, f"{CONFIG} must describe a tabembed model, got something else")
    version = content.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise _error(path, f"format_version must be {FORMAT_VERSION}, got {_short(version)}")
    for key, kind in _KEYS.items():
        if not isinstance(content.get(key), kind):
            got = _short(content.get(key))
            raise _error(path, f"{key} in {CONFIG} must be a {kind.__name__}, got {got}")
    if content["class"] not in classes:
        raise _error(path, f"class must be one of {list(classes)}, got {_short(content['class'])}")
    return content


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


def _check_replaceable(folder: Path, named: Path) -> None:
    """Only what ``write`` made may be removed: these two files, and the mark of the format."""
    try:
        ours = {entry.name for entry in folder.iterdir()} == {CONFIG, MODEL}
        with _opened(folder) as (config, model):
            content = parse(_exactly(config, _size(config)), _allowance(config, model))
        ours = ours and content["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError):
        ours = False
    if not ours:
        raise _error(named, "path must be new or hold only a tabembed model, got something else")


def _places(
    path: Any, file: BinaryIO, arrays: dict[str, Any], allowance: Allowance
) -> list[tuple[int, str, str, list[int]]]:
    """Where every array begins, its name, dtype and shape, in the order of the file.

    The header is compared with the config and with the size of the file: nothing is left over.
    """
    size = _size(file)
    length = int.from_bytes(file.read(8), "little") if size >= 8 else size
    if 8 + length > size:
        raise _error(path, f"{MODEL} must hold its header, got {size} bytes")
    try:
        header = parse(_exactly(file, length), allowance)
        header.pop("__metadata__", None)
        found = {n: (e["dtype"], e["shape"], e["data_offsets"]) for n, e in header.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise _error(path, f"{MODEL} must have a readable header, got a damaged one") from None
    if found.keys() != arrays.keys():
        wanted, got = _short(sorted(arrays)), _short(sorted(found))
        raise _error(path, f"{MODEL} must hold the arrays {wanted}, got {got}")
    places = []
    for name, entry in arrays.items():
        dtype, shape = _declared(path, name, entry)
        if found[name][:2] != (_DTYPES[dtype], shape):
            got = f"{_short(found[name][0])[1:-1]} {_short(found[name][1])}"
            raise _error(path, f"array {_short(name)} must be {dtype} {_short(shape)}, got {got}")
        places.append((found[name][2], name, dtype, shape))
    n_bytes = sum(_n_bytes(dtype, shape) for _, _, dtype, shape in places)
    if 8 + length + n_bytes != size:
        raise _error(path, f"{MODEL} must have {_short(8 + length + n_bytes)} bytes, got {size}")
    return _in_order(path, places)


def _in_order(
    path: Any, places: list[tuple[Any, str, str, list[int]]]
) -> list[tuple[int, str, str, list[int]]]:
    """Every array begins where the one before it ends: none overlaps another, and no byte is hidden."""
    end, found = 0, []
    try:
        places = sorted(places, key=lambda place: (place[0][0], place[0][1], place[1]))
        for (first, last), name, dtype, shape in places:
            if type(first) is not int or first != end or last != end + _n_bytes(dtype, shape):
                raise ValueError
            found.append((first, name, dtype, shape))
            end = last
    except (TypeError, ValueError, IndexError, KeyError):
        raise _error(path, f"{MODEL} must be readable, got offsets that do not fit its arrays") from None
    return found


def _arrays(
    path: Any, file: BinaryIO, places: list[tuple[int, str, str, list[int]]]
) -> tuple[dict[str, np.ndarray], str]:
    """The arrays and the hash of the file: what is hashed is what is given back, whoever writes to it."""
    digest, arrays = hashlib.sha256(), {}
    header = file.tell()
    file.seek(0)
    digest.update(_exactly(file, header))
    for _, name, dtype, shape in places:
        array = arrays[name] = np.empty(shape, dtype)
        content = array.reshape(-1).view(np.uint8)
        if file.readinto(content) != array.nbytes:  # type: ignore[attr-defined]
            raise _error(path, f"{MODEL} must be readable, got its end too early")
        digest.update(content.data)
        if dtype == "bool" and content.max(initial=0) > 1:
            raise _error(path, f"array {_short(name)} must hold only 0 and 1, got {content.max()}")
    return arrays, digest.hexdigest()


def _exactly(file: BinaryIO, length: int) -> bytes:
    """So many bytes, and no more of a file that grows."""
    if length > _LONGEST:
        raise ValueError(f"{length:,} bytes of JSON, more than {_LONGEST:,}")
    content = file.read(length)
    if len(content) != length:
        raise ValueError(f"its end after {len(content)} bytes")
    return content


def _n_bytes(dtype: str, shape: list[int]) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def _declared(path: Any, name: str, entry: Any) -> tuple[str, list[int]]:
    dtype, shape = (entry.get("dtype"), entry.get("shape")) if isinstance(entry, dict) else (None, None)
    if (
        isinstance(dtype, str)
        and dtype in _DTYPES
        and isinstance(shape, list)
        and len(shape) <= _AXES
        and all(type(n) is int and 0 <= n < 2**63 for n in shape)
    ):
        return dtype, shape
    raise _error(path, f"array {_short(name)} must be described by a dtype and a shape, got {_short(entry)}")


def _short(value: Any) -> str:
    """A value in a message, however large or deep it is."""
    return _REPR.repr(value)


def _error(path: Any, text: str) -> ArtifactError:
    return ArtifactError(f"model folder {str(path)!r}: {text}")
