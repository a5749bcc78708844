"""Values and their ids: where a column of anything becomes a column of ids."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabembed.artifact import ArtifactError
from tabembed.schema import FIRST_KNOWN, MISSING, UNKNOWN
from tabembed.table.canonical import canonical, family
from tabembed.table.hashes import hashes, repeats

_FEW_ROWS = 64
"""Up to here a Python loop is faster than starting Arrow's hash kernels."""

_AS_THEY_ARE = ("text", "numbers", "booleans")
"""Families whose values Python compares rightly whatever Arrow type they come in."""
_MANY_TIMES = 16
_MANY_VALUES = 65_536
"""From here on hashing a batch's own values first costs more than hashing the known ones again."""
_MOST_IN_DICT = 1 << 20
"""Up to here a few rows are looked up in a dict: 0.3 ms faster than by hash, for 200 bytes a value."""


class Vocabulary:
    """Known values in the order of their ids, the first one being id 3.

    Args:
        values: distinct canonical values, no null among them.
        name: name of the column, for messages.
    """

    def __init__(self, values: pa.Array, name: str) -> None:
        self.values = values
        self.name = name

    def __len__(self) -> int:
        return len(self.values)

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values, "name": self.name}  # indexes are built again where they are needed

    @cached_property
    def family(self) -> str:
        """What the known values can be compared with."""
        return family(self.values.type)

    @cached_property
    def _index(self) -> dict[Any, int]:
        """Python's equality is exact across int, float and Decimal; Arrow's hash tables are per type."""
        index = dict(
            zip(_plain(self.values).to_pylist(), range(FIRST_KNOWN, FIRST_KNOWN + len(self)), strict=True)
        )
        index[None] = MISSING
        return index

    @cached_property
    def _by_hash(self) -> tuple[np.ndarray, np.ndarray]:
        """Hashes of the values, rising, and whose they are: of many, a tenth of what the dict takes."""
        keys = hashes(_plain(self.values))
        order = np.argsort(keys).astype(np.int32 if len(keys) < 2**31 else np.int64)
        return keys[order], order

    @cached_property
    def _dense(self) -> tuple[int, np.ndarray] | None:
        """Whole numbers that lie close together: ids by position, unknown at both borders."""
        if not pa.types.is_int64(self.values.type) or len(self) == 0:
            return None
        values = self.values.to_numpy()
        low, high = int(values.min()) - 1, int(values.max()) + 1
        if high - low > max(4 * len(self), 65_536) or low < -(2**62) or high > 2**62:
            return None
        table = np.full(high - low + 1, UNKNOWN)
        table[values - low] = np.arange(FIRST_KNOWN, FIRST_KNOWN + len(self))
        return low, table

    def encode(self, array: pa.Array) -> np.ndarray:
        """Ids of values, int64.

        Raises: TypeError when the values are of another family than those of the fit.
        """
        self._check_family(array)
        if pa.types.is_dictionary(array.type):
            if len(array.dictionary) > len(array):
                return self.encode(array.cast(array.type.value_type))
            return _spread(self.encode(array.dictionary), array)
        if len(array) <= _FEW_ROWS and len(self) <= _MOST_IN_DICT:
            get = self._index.get
            values = array if self.family in _AS_THEY_ARE else self._comparable(array)
            return np.array([get(v, UNKNOWN) for v in values.to_pylist()], dtype=np.int64)
        if self._dense is not None and pa.types.is_integer(array.type) and not pa.types.is_uint64(array.type):
            return self._encode_dense(array)
        values = self._comparable(array)
        few, many = _MANY_TIMES * len(self) <= len(values), _MANY_VALUES <= len(self) <= len(values)
        if (few or many) and values.type == _plain_type(self.values.type):
            return self._encode_at_once(values)
        encoded = values.dictionary_encode()
        return _spread(self._encode_distinct(encoded.dictionary), encoded)

    def decode(self, ids: np.ndarray) -> pa.Array:
        """Values of ids, null where an id is reserved.

        Raises: ValueError when an id is beyond the vocabulary.
        """
        if len(ids) and (ids.min() < 0 or ids.max() >= FIRST_KNOWN + len(self)):
            raise ValueError(
                f"column {self.name!r}: ids must lie in 0..{FIRST_KNOWN + len(self) - 1}, "
                f"got {ids.min()}..{ids.max()}"
            )
        return self.values.take(pa.array(ids - FIRST_KNOWN, mask=ids < FIRST_KNOWN))

    def as_objects(self) -> np.ndarray:
        """The known values as Python objects, times as times."""
        if pa.types.is_temporal(self.values.type):
            return self.values.to_pandas().astype(object).to_numpy()
        return self.values.to_numpy(zero_copy_only=False).astype(object)

    def _check_family(self, array: pa.Array) -> None:
        if array.null_count == len(array) or pa.types.is_null(self.values.type):
            return
        ours, theirs = self.family, family(array.type)
        if ours != theirs:
            raise TypeError(f"column {self.name!r}: must hold {ours} as in the fit, got {theirs}")

    def _comparable(self, array: pa.Array) -> pa.Array:
        """Python compares numbers of any type exactly; the rest goes by its canonical form."""
        return array if family(array.type) == "numbers" else _plain(canonical(array, self.name))

    def _encode_dense(self, array: pa.Array) -> np.ndarray:
        low, table = self._dense  # type: ignore[misc]
        values = (array.fill_null(0) if array.null_count else array).to_numpy()
        # The difference may wrap around, but only the values between the borders land between them.
        ids = table.take(values.astype(np.int64, copy=False) - low, mode="clip")
        if array.null_count:
            ids[array.is_null().to_numpy(zero_copy_only=False)] = MISSING
        return ids

    def _encode_at_once(self, values: pa.Array) -> np.ndarray:
        """Look the rows themselves up: beside so many, hashing the known values again costs nothing."""
        if pa.types.is_floating(values.type):
            values = pc.add(values, 0.0)  # −0.0 is 0.0, but hashes as another number
        position = pc.index_in(values, value_set=_plain(self.values))
        position = position.fill_null(UNKNOWN - FIRST_KNOWN) if position.null_count else position
        ids = np.add(position.to_numpy(), FIRST_KNOWN, dtype=np.int64)
        if values.null_count:
            ids[values.is_null().to_numpy(zero_copy_only=False)] = MISSING
        return ids

    def _encode_distinct(self, values: pa.Array) -> np.ndarray:
        if len(values) == 0:
            return np.zeros(0, np.int64)
        if len(self) >= _MANY_VALUES and not pa.types.is_decimal(values.type):
            alike = canonical(values, self.name)
            if alike.type == _plain_type(self.values.type) or self.family == "numbers":
                return self._find(alike)
        get = self._index.get
        return np.array([get(v, UNKNOWN) for v in values.to_pylist()], dtype=np.int64)

    def _find(self, values: pa.Array) -> np.ndarray:
        """Ids by hash: next to the first known value of that hash, or among those that follow."""
        keys, order = self._by_hash
        known, wanted = _plain(self.values), hashes(values)
        if values.type != known.type:  # where hashes are equal, numbers that are equal as floats are the same
            known, values = (array.cast(pa.float64(), safe=False) for array in (known, values))
        ids = np.full(len(values), UNKNOWN)
        rows = np.arange(len(values))
        place = np.searchsorted(keys, wanted)
        while len(rows):
            there = keys.take(place, mode="clip") == wanted[rows]
            there &= place < len(keys)
            rows, place = rows[there], place[there]
            candidates = order[place]
            same = pc.equal(values.take(pa.array(rows)), known.take(pa.array(candidates)))
            same = same.to_numpy(zero_copy_only=False)
            ids[rows[same]] = candidates[same] + FIRST_KNOWN
            rows, place = rows[~same], place[~same] + 1
        return ids

    def to_artifact(self) -> tuple[str, dict[str, np.ndarray]]:
        """The Arrow type in words, and the values as flat arrays."""
        values = self.values
        kind = str(values.type)
        if pa.types.is_large_string(values.type):
            _, offsets, data = values.buffers()
            ends = np.frombuffer(offsets, np.int64) if offsets else np.zeros(1, np.int64)
            ends = ends[values.offset : values.offset + len(values) + 1]
            text = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
            return kind, {"offsets": ends - ends[0], "bytes": text[ends[0] : ends[-1]].copy()}
        if pa.types.is_null(values.type):
            return kind, {}
        flat = _plain(values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else values)
        return kind, {"values": flat.to_numpy(zero_copy_only=False).copy()}

    @classmethod
    def from_artifact(cls, name: str, kind: str, arrays: dict[str, np.ndarray]) -> Vocabulary:
        """Rebuild what ``to_artifact`` gave.

        Raises: ArtifactError when the arrays are not what they say.
        """
        try:
            if kind == "large_string":
                offsets, text = arrays["offsets"], arrays["bytes"]
                if (offsets.dtype, offsets.ndim, text.dtype, text.ndim) != (np.int64, 1, np.uint8, 1):
                    raise pa.ArrowInvalid("offsets must be int64 and bytes uint8")
                if int(offsets[0]) != 0 or int(offsets[-1]) != len(text):
                    raise pa.ArrowInvalid("the last offset is not the number of bytes")
                buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
                values = pa.Array.from_buffers(pa.large_string(), len(arrays["offsets"]) - 1, buffers)
                values.validate(full=True)
            elif kind == "null":
                values = pa.nulls(0)
            else:
                values = pa.array(arrays["values"]).cast(_TYPES[kind])
                _check_range(values)
            if values.null_count:
                raise pa.ArrowInvalid("a value is missing in it")
            if repeats(values):
                raise pa.ArrowInvalid("a value stands in it twice")
        except (pa.ArrowException, KeyError, IndexError, ValueError) as error:
            raise ArtifactError(f"column {name!r}: the saved vocabulary is damaged ({error})") from None
        return cls(values, name)


_TYPES: dict[str, pa.DataType] = {
    str(kind): kind
    for kind in (
        pa.int64(),
        pa.uint64(),
        pa.float64(),
        pa.bool_(),
        pa.null(),
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.time64("ns"),
    )
}


def _check_range(values: pa.Array) -> None:
    """NaN is missing and no value, a time of day lies within one."""
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        raise pa.ArrowInvalid("NaN is among its values")
    if pa.types.is_time(values.type) and len(values):
        ends = pc.min_max(values.cast(pa.int64()))
        if ends["min"].as_py() < 0 or ends["max"].as_py() >= 86_400 * 10**9:
            raise pa.ArrowInvalid("a time lies outside of the day")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_temporal(kind) else kind


def _plain(array: pa.Array) -> pa.Array:
    """Times as their nanoseconds, which compare and hash faster than objects do."""
    return array.cast(pa.int64()) if pa.types.is_temporal(array.type) else array


def _spread(ids: np.ndarray, encoded: pa.DictionaryArray) -> np.ndarray:
    """Ids of a dictionary's values, spread over the rows that point at them."""
    with_missing = np.append(ids, MISSING)
    indices = encoded.indices
    if encoded.null_count:
        indices = indices.cast(pa.int64()).fill_null(len(ids))
    return with_missing.take(indices.to_numpy(zero_copy_only=False))
