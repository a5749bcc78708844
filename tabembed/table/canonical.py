"""One Arrow type for values that are equal, however they are stored."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def family(kind: pa.DataType) -> str:
    """What values of an Arrow type can be compared with, in words that a message can use."""
    if pa.types.is_dictionary(kind):
        return family(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_boolean(kind):
        return "booleans"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "times with a zone"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "times without a zone"
    if pa.types.is_time(kind):
        return "times of day"
    return f"{kind} values"


def canonical(array: pa.Array, name: str) -> pa.Array:
    """The one Arrow type that stands for a family, so that equal values are equal bytes.

    Text is ``large_string``; whole numbers, however stored, are ``int64`` (``uint64`` beyond);
    other numbers ``float64``; dates and times nanoseconds, UTC where they have a zone.
    """
    kind = array.type
    try:
        match family(kind):
            case "text":
                return array.cast(pa.large_string())
            case "booleans":
                return array
            case "times with a zone":
                return array.cast(pa.timestamp("ns", "UTC"))
            case "times without a zone":
                return array.cast(pa.timestamp("ns"))
            case "times of day":
                return array.cast(pa.time64("ns"))
            case "numbers":
                return _whole(array)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"column {name!r}: must fit a category's type, or be cast to text, got {kind} ({error})"
        ) from None
    if pa.types.is_null(kind):
        return array
    raise TypeError(
        f"column {name!r}: must hold text, numbers, booleans or times, got {kind}: cast it to text"
    )


def _whole(array: pa.Array) -> pa.Array:
    if pa.types.is_decimal(array.type):
        return array.cast(pa.int64())  # a fraction raises: a rounded one could meet its neighbour
    if not pa.types.is_floating(array.type):
        wide = pa.types.is_uint64(array.type) and (pc.max(array).as_py() or 0) >= 2**63
        return array if wide else array.cast(pa.int64())
    numbers = pc.add(array.cast(pa.float64()), 0.0)  # −0.0 is 0.0
    known = numbers.drop_null().to_numpy(zero_copy_only=False)
    inside = bool(np.all((known >= -(2.0**63)) & (known < 2.0**63)))
    return numbers.cast(pa.int64()) if inside and bool(np.all(known == np.floor(known))) else numbers


def common_type(a: pa.DataType, b: pa.DataType, name: str) -> pa.DataType:
    """The canonical type that holds the values of both, for joining two counts."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if family(a) != family(b):
        raise TypeError(f"column {name!r}: must hold values of one type, got {family(a)} and {family(b)}")
    return pa.float64() if pa.types.is_float64(a) or pa.types.is_float64(b) else pa.uint64()
