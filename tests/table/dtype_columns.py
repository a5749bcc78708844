"""One column of values in every dtype of every library; pandas is imported only where it is asked for."""

from __future__ import annotations

import datetime as dt

VALUES = {
    "text": ["b", "a", None, "a", "c", "a", "b"],
    "ints": [2, 1, None, 1, 3, 1, 2],
    "booleans": [False, True, None, True, True, True, False],
    "dates": [dt.datetime(2024, 1, d) if d else None for d in (2, 1, None, 1, 3, 1, 2)],
}
IDS = {
    "text": [4, 3, 1, 3, 5, 3, 4],
    "ints": [4, 3, 1, 3, 5, 3, 4],
    "booleans": [4, 3, 1, 3, 3, 3, 4],
    "dates": [4, 3, 1, 3, 5, 3, 4],
}
UNSEEN = {"text": "zz", "ints": 9, "booleans": None, "dates": dt.datetime(2030, 1, 1)}
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def known(values):
    """Values without the gap, for dtypes that have none."""
    return [value for value in values if value is not None]


def ids(family, dtype):
    """What a column of this dtype must become; a dtype without gaps leaves the missing row out."""
    return [i for i in IDS[family] if i != 1] if dtype in NO_GAPS else IDS[family]


NO_GAPS = {*INTS, "bool"}


def _pandas_columns(family):
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    values = VALUES[family]
    if family == "text":
        return {
            "object": pd.Series(values, dtype=object),
            "object with NaN": pd.Series([np.nan if v is None else v for v in values], dtype=object),
            "str": pd.Series(values, dtype="str"),
            "string": pd.Series(values, dtype="string"),
            "string[python]": pd.Series(values, dtype="string[python]"),
            "string[pyarrow]": pd.Series(values, dtype="string[pyarrow]"),
            "category": pd.Series(pd.Categorical(values, categories=["c", "unused", "b", "a"])),
            "category of string": pd.Series(values, dtype="string").astype("category"),
            "ArrowDtype": pd.Series(values, dtype=pd.ArrowDtype(pa.large_string())),
            "ArrowDtype dictionary": pd.Series(
                values, dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))
            ),
        }
    if family == "ints":
        plain = {dtype: pd.Series(known(values), dtype=dtype) for dtype in INTS}
        nullable = {dtype: pd.Series(values, dtype=dtype) for dtype in ("Int8", "Int64", "UInt8", "UInt64")}
        floats = {
            dtype: pd.Series(values, dtype=dtype) for dtype in ("float16", "float32", "float64", "Float64")
        }
        return {
            **plain,
            **nullable,
            **floats,
            "object": pd.Series(values, dtype=object),
            "category": pd.Series(values, dtype="Int64").astype("category"),
            "category of float": pd.Series(values, dtype="float64").astype("category"),
            "ArrowDtype": pd.Series(values, dtype="int32[pyarrow]"),
        }
    if family == "booleans":
        return {
            "bool": pd.Series(known(values), dtype=bool),
            "boolean": pd.Series(values, dtype="boolean"),
            "object": pd.Series(values, dtype=object),
            "ArrowDtype": pd.Series(values, dtype="bool[pyarrow]"),
            "category": pd.Series(values, dtype=object).astype("category"),
        }
    dates = [None if v is None else v.date() for v in values]
    return {
        **{f"datetime64[{u}]": pd.Series(values).astype(f"datetime64[{u}]") for u in ("s", "ms", "us", "ns")},
        "object": pd.Series(values, dtype=object),
        "object of date": pd.Series(dates, dtype=object),
        "date32[pyarrow]": pd.Series(dates, dtype="date32[pyarrow]"),
        "category": pd.Series(values).astype("category"),
    }


def _polars_columns(family):
    import polars as pl

    values = VALUES[family]
    if family == "text":
        return {
            "String": pl.Series(values),
            "Categorical": pl.Series(values, dtype=pl.Categorical),
            "Enum": pl.Series(values, dtype=pl.Enum(["c", "unused", "b", "a"])),
            "sliced": pl.Series(["q", *values, "r"]).slice(1, len(values)),
        }
    if family == "ints":
        return {
            **{
                str(dtype): pl.Series(values, dtype=dtype)
                for dtype in (
                    pl.Int8,
                    pl.Int16,
                    pl.Int32,
                    pl.Int64,
                    pl.UInt8,
                    pl.UInt16,
                    pl.UInt32,
                    pl.UInt64,
                )
            },
            "Float64": pl.Series(values, dtype=pl.Float64),
            "Float32 with NaN": pl.Series(
                [float("nan") if v is None else v for v in values], dtype=pl.Float32
            ),
        }
    if family == "booleans":
        return {"Boolean": pl.Series(values)}
    return {
        **{f"Datetime({u})": pl.Series(values, dtype=pl.Datetime(u)) for u in ("ms", "us", "ns")},
        "Date": pl.Series(values, dtype=pl.Datetime("us")).cast(pl.Date),
    }


def _arrow_columns(family):
    import pyarrow as pa

    values = VALUES[family]
    if family == "text":
        narrow, wide = pa.array(values), pa.array(values, pa.large_string())
        return {
            "string": narrow,
            "large_string": wide,
            "string_view": pa.array(values, pa.string_view()),
            "dictionary": narrow.dictionary_encode(),
            "dictionary int8, large": wide.dictionary_encode().cast(
                pa.dictionary(pa.int8(), pa.large_string())
            ),
            "dictionary with a null value": pa.DictionaryArray.from_arrays(
                pa.array([1, 0, 2, 0, 3, 0, 1], pa.int32()), pa.array(["a", "b", None, "c"])
            ),
            "dictionary with a value twice": pa.DictionaryArray.from_arrays(
                pa.array([1, 0, None, 3, 2, 0, 1], pa.int8()), pa.array(["a", "b", "c", "a"])
            ),
            "sliced": pa.array(["q", *values, "r"]).slice(1, len(values)),
            "chunked dictionaries": pa.chunked_array(
                [pa.array(values[:3]).dictionary_encode(), pa.array(values[3:]).dictionary_encode()]
            ),
        }
    if family == "ints":
        types = [getattr(pa, name)() for name in (*INTS, "float16", "float32", "float64")]
        return {
            **{f"{kind} with nulls": pa.array(values, pa.int64()).cast(kind) for kind in types},
            "decimal": pa.array(values, pa.int64()).cast(pa.decimal128(20, 0)),
            "dictionary": pa.array(values).dictionary_encode(),
            "float64 with NaN": pa.array([float("nan") if v is None else float(v) for v in values]),
        }
    if family == "booleans":
        return {"bool with nulls": pa.array(values), "sliced": pa.array([True, *values]).slice(1)}
    return {
        **{f"timestamp[{u}]": pa.array(values, pa.timestamp(u)) for u in ("s", "ms", "us", "ns")},
        "date32": pa.array(values, pa.timestamp("s")).cast(pa.date32()),
        "date64": pa.array(values, pa.timestamp("s")).cast(pa.date64()),
        "dictionary": pa.array(values, pa.timestamp("s")).dictionary_encode(),
    }


COLUMNS = {"pandas": _pandas_columns, "polars": _polars_columns, "pyarrow": _arrow_columns}


def frame(library, column):
    """A table of the library with the one column ``x``."""
    if library == "pandas":
        import pandas as pd

        return pd.DataFrame({"x": column})
    if library == "polars":
        import polars as pl

        return pl.DataFrame({"x": column})
    import pyarrow as pa

    return pa.table({"x": column})
