"""Any table as named Arrow columns: the only file that knows a dataframe library.

``None``, ``NaN``, ``NaT`` and ``pd.NA`` become one null here, and only here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabembed.table.objects import object_column


@dataclass(frozen=True)
class Frame:
    """Named columns, converted when they are asked for.

    Args:
        names: column names, all different.
        n_rows: number of rows.
        named: False when the table carried no names and the columns count by position.
        get: the column at a position, as an Arrow array or a chunked one.
    """

    names: tuple[str, ...]
    n_rows: int
    named: bool
    get: Callable[[int], Any]

    def column(self, position: int) -> pa.Array:
        """One column as a single Arrow array in which every gap is null."""
        name = self.names[position]
        try:
            array = self.get(position)
        except UnicodeError as error:
            raise ValueError(
                f"column {name!r}: must be text that UTF-8 can hold, got a lone surrogate ({error})"
            ) from None
        except (
            pa.ArrowInvalid,
            pa.ArrowTypeError,
            pa.ArrowNotImplementedError,
            OverflowError,
            ValueError,
        ) as error:
            raise TypeError(
                f"column {name!r}: must hold values of one type that Arrow knows, got a mix ({error})"
            ) from None
        array = _one_chunk(array)
        if isinstance(array.type, pa.BaseExtensionType):
            raise TypeError(
                f"column {name!r}: must be of a plain type, got {array.type}: cast it to text or times"
            )
        return _nan_to_null(_plain_text(array))


def read_frame(table: Any) -> Frame:
    """Open a table.

    Args:
        table: pandas, polars, pyarrow or any other object with ``__arrow_c_stream__``; a dict of
            columns; a two-dimensional array or list of rows, whose columns are called x0, x1, ….

    Raises:
        ValueError: when a name stands twice, or an array is not two-dimensional.
        TypeError: when it is not a table.
    """
    frame = _open(table)
    for name in frame.names:
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(f"column {name!r}: must have a name that UTF-8 can hold, got a lone surrogate")
    twice = sorted(name for name, n in Counter(frame.names).items() if n > 1)
    if twice:
        raise ValueError(
            f"column {twice[0]!r}: must be there once, got it {frame.names.count(twice[0])} times"
        )
    return frame


def places_in(frame: Frame, needed: Collection[str], encoder: Any) -> dict[str, int]:
    """Place of every column in a table: by name, or by position where either has no names.

    Args:
        frame: the table.
        needed: names of the columns that must be there.
        encoder: a fitted encoder, which knows the columns of its table.

    Raises: ValueError for a column that is not there, or another number of columns.
    """
    names = set(frame.names)
    if frame.named and (encoder._named or names.issuperset(needed)):
        for name in needed:
            if name not in names:
                raise ValueError(f"column {name!r}: must be in the table, which has {list(frame.names)}")
        return {name: i for i, name in enumerate(frame.names)}
    if len(frame.names) != encoder.n_features_in_:
        raise ValueError(
            f"X has {len(frame.names)} features, but {type(encoder).__name__} is expecting "
            f"{encoder.n_features_in_} features as input"
        )
    return {name: i for i, name in enumerate(encoder.feature_names_in_)}


def _open(table: Any) -> Frame:
    library = type(table).__module__.partition(".")[0]
    if library == "pandas" and hasattr(table, "columns"):
        return _open_pandas(table)
    if library == "polars":
        return _open_polars(table)
    if hasattr(table, "__arrow_c_stream__") and library != "pandas":
        return _open_arrow(table if isinstance(table, pa.Table) else pa.table(table))
    if isinstance(table, pa.RecordBatch):
        return _open_arrow(pa.Table.from_batches([table]))
    if isinstance(table, dict):
        return _open_dict(table)
    return _open_array(table)


def _open_arrow(table: pa.Table) -> Frame:
    return Frame(tuple(table.column_names), table.num_rows, True, table.column)


def _open_polars(table: Any) -> Frame:
    if not hasattr(table, "get_columns"):
        call = ".collect()" if hasattr(table, "collect") else ".to_frame()"
        raise TypeError(f"table must be a frame, got a polars {type(table).__name__}: call {call} first")
    columns = (
        table.get_columns()
    )  # one by one, so that a type that Arrow lacks is an error of its column alone
    return Frame(
        tuple(table.columns), table.height, True, lambda position: pa.chunked_array(columns[position])
    )


def _open_pandas(table: Any) -> Frame:
    names = tuple(map(str, table.columns))
    return Frame(names, len(table), True, lambda position: _pandas_column(table._ixs(position, axis=1)))


def _open_dict(table: dict[Any, Any]) -> Frame:
    columns = list(table.values())
    for name, column in table.items():
        if (
            isinstance(column, str | bytes | Set | Mapping)
            or not np.iterable(column)
            or not hasattr(column, "__len__")
        ):
            got = type(column).__name__
            raise TypeError(f"column {str(name)!r}: must be a list or an array of values, got {got}")
    lengths = {str(name): len(column) for name, column in table.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must have equally many rows, got {lengths}")
    return Frame(tuple(lengths), next(iter(lengths.values()), 0), True, lambda i: _array_column(columns[i]))


def _open_array(table: Any) -> Frame:
    if hasattr(table, "toarray"):
        raise TypeError("table must be dense, got a sparse matrix: use .toarray() if it fits into memory")
    if (
        not isinstance(table, np.ndarray)
        and not isinstance(table, Sequence)
        and not hasattr(table, "__array__")
    ):
        raise TypeError(
            f"table must be a dataframe, an Arrow table or a 2-D array, got {type(table).__name__}"
        )
    if isinstance(table, str):
        raise TypeError("table must be a dataframe, an Arrow table or a 2-D array, got str")
    array = np.asanyarray(table) if np.ma.isMaskedArray(table) else np.asarray(table)
    if array.dtype.kind in "US" and not isinstance(table, np.ndarray):
        array = np.asarray(table, dtype=object)  # numpy would turn the numbers of a mixed list into text
    if np.iscomplexobj(array):
        raise ValueError("Complex data not supported: table must hold real values")
    if array.ndim != 2:
        hint = "Reshape your data: one column is X.reshape(-1, 1), one row is X.reshape(1, -1)"
        raise ValueError(f"Expected 2D array, got {array.ndim}D array instead. {hint}")
    names = tuple(f"x{i}" for i in range(array.shape[1]))
    return Frame(names, len(array), False, lambda position: _array_column(array[:, position]))


def _pandas_column(column: Any) -> Any:
    """A series or one of pandas' own arrays."""
    if column.dtype == object:
        return object_column(column.to_numpy())
    values = getattr(column, "array", column)
    if isinstance(column.dtype, np.dtype) or hasattr(values, "sp_values"):
        return _numpy_column(np.asarray(values))
    return pa.array(values, from_pandas=True)


def _numpy_column(values: np.ndarray) -> Any:
    if values.dtype == np.longdouble and values.dtype != np.float64:
        values = values.astype(np.float64)
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    return pa.array(np.ascontiguousarray(native), from_pandas=True)


def _array_column(values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if np.ma.isMaskedArray(values):  # under a mask lies whatever was there before
        return pc.if_else(pa.array(np.ma.getmaskarray(values)), None, _array_column(values.data))
    if type(values).__module__.partition(".")[0] == "pandas":
        return _pandas_column(values)
    if isinstance(values, np.ndarray) and values.dtype != object:
        return _numpy_column(values)
    return object_column(values)


def _one_chunk(array: Any) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks == 1:
            array = array.chunk(0)
        elif pa.types.is_dictionary(array.type):
            array = _one_dictionary(array)
        else:
            array = array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def _one_dictionary(array: pa.ChunkedArray) -> Any:
    try:
        return array.unify_dictionaries().combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a dictionary that holds a null among its values
        return pa.chunked_array([chunk.dictionary_decode() for chunk in array.chunks]).combine_chunks()


def _plain_text(array: pa.Array) -> pa.Array:
    """Views of text, in which polars speaks, lack most of Arrow's kernels."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_dictionary(array.type) and pa.types.is_string_view(array.type.value_type):
        text = array.dictionary.cast(pa.large_string())
        return pa.DictionaryArray.from_arrays(array.indices, text, ordered=array.type.ordered)
    return array


def _nan_to_null(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type) and pa.types.is_floating(array.type.value_type):
        values = _nan_to_null(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=array.type.ordered)
    if not pa.types.is_floating(array.type):
        return array
    if not np.isnan(array.to_numpy(zero_copy_only=False)).any():
        return array
    return pc.if_else(pc.is_nan(array), None, array)


def to_pandas(columns: dict[str, pa.Array]) -> Any:
    """A pandas frame of Arrow columns; whole numbers with gaps stay whole (``Int64``)."""
    import pandas as pd

    def convert(array: pa.Array) -> Any:
        if pa.types.is_integer(array.type) and array.null_count:
            wide = pd.UInt64Dtype() if pa.types.is_uint64(array.type) else pd.Int64Dtype()
            return array.to_pandas(types_mapper={array.type: wide}.get)
        if pa.types.is_nested(array.type):  # one gap would make floats of the whole numbers beside it
            return array.to_pandas(integer_object_nulls=bool(array.flatten().null_count))
        return array.to_pandas()

    return pd.DataFrame({name: convert(array) for name, array in columns.items()})
