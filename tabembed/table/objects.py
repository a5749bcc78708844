"""A list of Python objects as one Arrow array, or an error: never a guess."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def object_column(values: Any) -> pa.Array:
    """Objects of Python as an Arrow array, what is missing as null.

    Arrow would let pass a boolean among floats, a time among dates and zones beside none, and would cut the
    nanoseconds off times of pandas.

    Args:
        values: a list or an array of them.

    Raises: ValueError, or what Arrow raises, when they are not of one kind.

    >>> object_column([1.5, None, float("nan")]).null_count
    2
    """
    try:
        array = pa.array(values, from_pandas=True)
    except OverflowError:
        return pa.array(values, from_pandas=True, type=pa.uint64())
    if pa.types.is_floating(array.type) or pa.types.is_temporal(array.type):
        kinds = {type(value) for value in values if value is not None and value == value}
        booleans = kinds & {bool, np.bool_}
        dates = {kind for kind in kinds if kind.__name__ == "date"}
        if (booleans or dates) and kinds - booleans - dates - {type(None)}:
            raise ValueError(" and ".join(sorted(kind.__name__ for kind in kinds)))
    if pa.types.is_timestamp(array.type):
        known = (value for value in values if value is not None and value == value)
        if len({getattr(value, "tzinfo", None) is None for value in known}) > 1:
            raise ValueError("times with a zone and times without one")
    return _with_nanoseconds(array, values)


def _with_nanoseconds(array: pa.Array, values: Any) -> pa.Array:
    """Arrow takes a time of pandas for one of Python, which ends at microseconds."""
    kind = array.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)) or kind.unit != "us":
        return array
    if not any(getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0) for value in values):
        return array
    exact = pa.timestamp("ns", kind.tz) if pa.types.is_timestamp(kind) else pa.duration("ns")
    return pa.array(values, from_pandas=True, type=exact)
