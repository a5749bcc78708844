"""JSON that somebody else may have written: read within a bound of memory, and said only once."""

from __future__ import annotations

import json
import math
from typing import Any, BinaryIO

DEPTH = 32
"""Levels of lists and dicts; what is written here has fewer than ten."""
_LONGEST = 64 * 2**20
"""Bytes of JSON in one file; a table of ten thousand columns has 5 MB."""
_BYTES_A = {"{": 200, "[": 88, ",": 44, '"': 28}
"""What Python holds at most for every one of these characters: half a text for a quotation mark."""
_A_LARGE_DICT, _ITS_ENTRY = 6, 160


class Allowance:
    """Bytes that may still be spent on objects.

    Args:
        left: how many.
    """

    def __init__(self, left: int) -> None:
        self.left = left


def exactly(file: BinaryIO, length: int) -> bytes:
    """So many bytes of JSON, and no more of a file that grows.

    Args:
        file: read from where it stands.
        length: number of bytes.

    Raises: ValueError for more than 64 MB, and for a file that ends before.

    >>> import io
    >>> exactly(io.BytesIO(b'{"width": 2} and more'), 12)
    b'{"width": 2}'
    """
    if length > _LONGEST:
        raise ValueError(f"{length:,} bytes of JSON, more than {_LONGEST:,}")
    content = file.read(length)
    if len(content) != length:
        raise ValueError(f"its end after {len(content)} bytes")
    return content


def parse(raw: bytes, allowance: Allowance) -> Any:
    """The value of a JSON text, where it keeps the rules of JSON to the letter.

    Args:
        raw: the text in UTF-8.
        allowance: what its objects may take, by an upper estimate that is made before they are built, and
            that is taken off.

    Raises: ValueError for what is no JSON, a key twice, numbers that are not finite, half of a surrogate
        pair, more levels than 32, and for more objects than the allowance.

    >>> parse(b'{"width": 2}', Allowance(1000))
    {'width': 2}
    """
    # Beside text that is not ASCII stand up to four bytes a character while it is read.
    needed = cost(raw) + (0 if raw.isascii() else 4 * len(raw))
    if needed > allowance.left:
        raise ValueError(f"objects of up to {needed:,} bytes, where {allowance.left:,} are allowed")
    allowance.left -= needed
    text = raw.decode("utf-8")
    del raw
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"more than {DEPTH} levels") from None
    _check_depth(value)
    if "\\u" in text:  # the one way to write half a pair
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def cost(raw: bytes) -> int:
    """Bytes that Python's objects for a JSON text take, at most."""
    counts = {sign: raw.count(sign.encode()) for sign in _BYTES_A}
    entries = raw.count(b":") - _A_LARGE_DICT * counts["{"]
    return sum(counts[sign] * size for sign, size in _BYTES_A.items()) + _ITS_ENTRY * max(entries, 0)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"the key {twice[:60]!r} twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:60]}, which is too large")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"the number {text}")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        if (depth := depth + 1) > DEPTH + 1:
            raise ValueError(f"more than {DEPTH} levels")
        level = [
            child
            for one in level
            if isinstance(one, dict | list)
            for child in (one.values() if isinstance(one, dict) else one)
        ]
