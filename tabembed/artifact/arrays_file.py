"""The file of arrays in a model folder: its header is compared before an array is allocated."""

from __future__ import annotations

import hashlib
import math
import os
from typing import Any, BinaryIO

import numpy as np

from tabembed.artifact.plain_json import Allowance, exactly, parse
from tabembed.artifact.refusal import MODEL, refusal, short

DTYPES = {
    "bool": "BOOL",
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}
_AXES = 32
"""Most axes of an array; numpy has no more than 64."""


def places_of(
    path: Any, file: BinaryIO, arrays: dict[str, Any], allowance: Allowance
) -> list[tuple[int, str, str, list[int]]]:
    """Where every array begins, its name, dtype and shape, in the order of the file.

    The header is compared with the config and with the size of the file: nothing is left over.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little") if size >= 8 else size
    if 8 + length > size:
        raise refusal(path, f"{MODEL} must hold its header, got {size} bytes")
    try:
        header = parse(exactly(file, length), allowance)
        header.pop("__metadata__", None)
        found = {n: (e["dtype"], e["shape"], e["data_offsets"]) for n, e in header.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise refusal(path, f"{MODEL} must have a readable header, got a damaged one") from None
    if found.keys() != arrays.keys():
        wanted, got = short(sorted(arrays)), short(sorted(found))
        raise refusal(path, f"{MODEL} must hold the arrays {wanted}, got {got}")
    places = []
    for name, entry in arrays.items():
        dtype, shape = _declared(path, name, entry)
        if found[name][:2] != (DTYPES[dtype], shape):
            got = f"{short(found[name][0])[1:-1]} {short(found[name][1])}"
            raise refusal(path, f"array {short(name)} must be {dtype} {short(shape)}, got {got}")
        places.append((found[name][2], name, dtype, shape))
    n_bytes = sum(_n_bytes(dtype, shape) for _, _, dtype, shape in places)
    if 8 + length + n_bytes != size:
        raise refusal(path, f"{MODEL} must have {short(8 + length + n_bytes)} bytes, got {size}")
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
        raise refusal(path, f"{MODEL} must be readable, got offsets that do not fit its arrays") from None
    return found


def read_arrays(
    path: Any, file: BinaryIO, places: list[tuple[int, str, str, list[int]]]
) -> tuple[dict[str, np.ndarray], str]:
    """The arrays and the hash of the file: what is hashed is what is given back, whoever writes to it."""
    digest, arrays = hashlib.sha256(), {}
    header = file.tell()
    file.seek(0)
    digest.update(exactly(file, header))
    for _, name, dtype, shape in places:
        array = arrays[name] = np.empty(shape, dtype)
        content = array.reshape(-1).view(np.uint8)
        if file.readinto(content) != array.nbytes:  # type: ignore[attr-defined]
            raise refusal(path, f"{MODEL} must be readable, got its end too early")
        digest.update(content.data)
        if dtype == "bool" and content.max(initial=0) > 1:
            raise refusal(path, f"array {short(name)} must hold only 0 and 1, got {content.max()}")
    return arrays, digest.hexdigest()


def _n_bytes(dtype: str, shape: list[int]) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def _declared(path: Any, name: str, entry: Any) -> tuple[str, list[int]]:
    dtype, shape = (entry.get("dtype"), entry.get("shape")) if isinstance(entry, dict) else (None, None)
    if (
        isinstance(dtype, str)
        and dtype in DTYPES
        and isinstance(shape, list)
        and len(shape) <= _AXES
        and all(type(n) is int and 0 <= n < 2**63 for n in shape)
    ):
        return dtype, shape
    raise refusal(path, f"array {short(name)} must be described by a dtype and a shape, got {short(entry)}")
