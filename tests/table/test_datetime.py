"""Times are int64 nanoseconds since 1970-01-01 UTC, whatever the unit, zone or library."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from tabembed import Categorical, Datetime, TableEncoder
from tabembed.schema import MISSING_TIME

NOON = 1_709_294_400 * 10**9  # 2024-03-01 12:00:00
UNITS = ["s", "ms", "us", "ns"]
STAMPS = ["2024-03-01 12:00:00", None, "2024-03-01 12:00:05"]


def times(encoder, table):
    return encoder.transform(table).times[:, 0].tolist()


def numpy_times(unit):
    return np.array(["2024-03-01T12:00:00", "NaT", "2024-03-01T12:00:05"], f"datetime64[{unit}]")


@pytest.mark.parametrize("fitted", UNITS)
@pytest.mark.parametrize("given", UNITS)
def test_the_unit_changes_nothing(fitted, given):  # H33
    encoder = TableEncoder().fit(pd.DataFrame({"t": numpy_times(fitted)}))
    assert encoder.kinds_ == {"t": "datetime"}
    batch = encoder.transform(pd.DataFrame({"t": numpy_times(given)}))
    assert batch.times.dtype == torch.int64
    assert batch.times[:, 0].tolist() == [NOON, MISSING_TIME, NOON + 5 * 10**9]


TABLES = {
    "pandas": lambda: pd.DataFrame({"t": pd.to_datetime(STAMPS)}),
    "pandas object": lambda: pd.DataFrame(
        {"t": pd.Series([None if s is None else dt.datetime.fromisoformat(s) for s in STAMPS], dtype=object)}
    ),
    "pandas arrow": lambda: pd.DataFrame(
        {"t": pd.array(pd.to_datetime(STAMPS), dtype="timestamp[ms][pyarrow]")}
    ),
    "polars": lambda: pl.DataFrame(
        {"t": [None if s is None else dt.datetime.fromisoformat(s) for s in STAMPS]}
    ),
    "arrow": lambda: pa.table({"t": pa.array(numpy_times("s"))}),
    "dict": lambda: {"t": numpy_times("us")},
}


@pytest.mark.parametrize("fitted", TABLES)
@pytest.mark.parametrize("given", TABLES)
def test_the_library_changes_nothing(fitted, given):
    assert times(TableEncoder().fit(TABLES[fitted]()), TABLES[given]()) == [
        NOON,
        MISSING_TIME,
        NOON + 5 * 10**9,
    ]


def test_nanoseconds_are_kept_to_the_last_one():
    values = np.array([NOON + 1, NOON + 2, -1], "datetime64[ns]")
    encoder = TableEncoder().fit({"t": values})
    assert times(encoder, {"t": values}) == [NOON + 1, NOON + 2, -1]
    column = encoder.schema_["t"]
    assert (column.minimum, column.maximum, column.n_values, column.n_missing) == (-1, NOON + 2, 3, 0)


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_times_of_pandas_among_objects_keep_their_nanoseconds(zone):
    values = [pd.Timestamp(NOON + 1, tz=zone), None, pd.Timestamp(NOON + 2, tz=zone), pd.NaT]
    expected = [NOON + 1, MISSING_TIME, NOON + 2, MISSING_TIME]
    for table in ({"t": values}, pd.DataFrame({"t": pd.Series(values, dtype=object)})):
        assert times(TableEncoder().fit(table), table) == expected
    categories = TableEncoder({"t": Categorical()}).fit({"t": values})
    assert categories.transform({"t": values}).ids[:, 0].tolist() == [3, 1, 4, 1]


def test_durations_of_pandas_among_objects_keep_their_nanoseconds():
    encoder = TableEncoder(scaler="standard").fit({"t": [pd.Timedelta(1), pd.Timedelta(3)]})
    assert (encoder.schema_["t"].mean, encoder.schema_["t"].std) == pytest.approx((2e-9, 1e-9))


def test_one_instant_has_one_number_in_every_zone():
    utc = pd.DataFrame({"t": pd.to_datetime(["2024-03-01 12:00"]).tz_localize("UTC")})
    york = pd.DataFrame({"t": utc["t"].dt.tz_convert("America/New_York")})
    polars = pl.DataFrame({"t": [dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)]})
    for fitted in (utc, york, polars):
        encoder = TableEncoder().fit(fitted)
        assert [times(encoder, given) for given in (utc, york, polars)] == [[NOON]] * 3


def test_the_schema_keeps_the_zone():
    york = pd.DataFrame({"t": pd.to_datetime(["2024-03-01 12:00"]).tz_localize("America/New_York")})
    assert TableEncoder().fit(york).schema_["t"].timezone == "America/New_York"
    assert TableEncoder().fit({"t": numpy_times("s")}).schema_["t"].timezone is None


def test_both_sides_of_a_clock_change_stay_apart():
    local = (
        pd.to_datetime(["2024-11-03 05:30", "2024-11-03 06:30"])
        .tz_localize("UTC")
        .tz_convert("America/New_York")
    )
    a, b = times(TableEncoder().fit({"t": local}), {"t": local})  # 01:30 twice on the wall
    assert b - a == 3600 * 10**9


@pytest.mark.parametrize("fitted_zone", [None, "UTC"])
def test_zone_where_the_fit_had_none_is_an_error_and_the_reverse(fitted_zone):
    index = pd.to_datetime(["2024-03-01 12:00"])
    naive, aware = pd.DataFrame({"when": index}), pd.DataFrame({"when": index.tz_localize("UTC")})
    fitted, given = (naive, aware) if fitted_zone is None else (aware, naive)
    encoder = TableEncoder().fit(fitted)
    with pytest.raises(ValueError, match=r"column 'when': .*zone"):
        encoder.transform(given)


def test_dates_are_their_midnight():
    day = NOON - 12 * 3600 * 10**9
    for table in (
        pa.table({"t": pa.array([dt.date(2024, 3, 1), None])}),
        pl.DataFrame({"t": [dt.date(2024, 3, 1), None]}),
        pd.DataFrame({"t": pd.Series([dt.date(2024, 3, 1), None], dtype=object)}),
        pa.table({"t": pa.array([dt.date(2024, 3, 1), None], pa.date64())}),
    ):
        encoder = TableEncoder().fit(table)
        assert encoder.kinds_ == {"t": "datetime"}
        assert times(encoder, table) == [day, MISSING_TIME]


@pytest.mark.parametrize("year", [1600, 9999])
def test_a_time_beyond_int64_nanoseconds_is_an_error(year):
    table = pa.table({"when": pa.array([dt.datetime(year, 1, 1)], pa.timestamp("us"))})
    with pytest.raises(ValueError, match=r"column 'when': "):
        TableEncoder().fit(table)
    encoder = TableEncoder().fit({"when": numpy_times("ns")})
    with pytest.raises(ValueError, match=r"column 'when': "):
        encoder.transform(table)


@pytest.mark.parametrize(
    "given", [["2024-03-01"], [1, 2], [1.5], [True]], ids=["text", "ints", "floats", "booleans"]
)
def test_values_that_are_no_times_are_an_error(given):
    encoder = TableEncoder().fit({"t": numpy_times("ns")})
    with pytest.raises(TypeError, match=r"column 't': .*got"):
        encoder.transform({"t": given})
    with pytest.raises(TypeError, match=r"column 't': .*got"):
        TableEncoder(columns={"t": Datetime()}).fit({"t": given})


@pytest.mark.parametrize(
    "gaps",
    [pa.nulls(2), pd.Series([None, None], dtype=object), np.array([np.nan, np.nan])],
    ids=["arrow", "object", "float"],
)
def test_all_missing_column_of_any_dtype_is_fine(gaps):
    assert times(TableEncoder().fit({"t": numpy_times("ns")}), {"t": gaps}) == [MISSING_TIME] * 2


def test_all_missing_times_at_fit():
    encoder = TableEncoder().fit({"t": pd.Series([pd.NaT, pd.NaT]), "n": [1, 2]})
    assert encoder.kinds_["t"] == "datetime"
    assert times(encoder, {"t": numpy_times("ms")[:1], "n": [1]}) == [NOON]
    assert times(encoder, {"t": pd.Series([pd.NaT]), "n": [1]}) == [MISSING_TIME]


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
def test_times_come_back_exactly(zone):
    index = pd.DatetimeIndex(np.array([NOON + 1, "NaT", -7], "datetime64[ns]"), tz=zone)
    frame = pd.DataFrame({"t": index})
    encoder = TableEncoder().fit(frame)
    back = encoder.inverse_transform(encoder.transform(frame))
    assert back["t"].isna().tolist() == [False, True, False]
    assert [None if pd.isna(v) else v.value for v in back["t"]] == [
        None if pd.isna(v) else v.value for v in index
    ]
    assert str(back["t"].dt.tz) == str(index.tz)


@pytest.mark.parametrize("told", [{}, {"when": Datetime()}], ids=["by dtype", "told"])
def test_a_time_of_day_is_no_instant(told):
    clock = {"when": pa.array([dt.time(1, 2), None])}
    with pytest.raises(TypeError, match=r"column 'when': .*got time64"):
        TableEncoder(told).fit(clock)
    encoder = TableEncoder(told).fit({"when": pa.array([dt.datetime(2024, 1, 1), None])})
    with pytest.raises(TypeError, match=r"column 'when': .*got time64"):
        encoder.transform(clock)
    times_of_day = TableEncoder({"when": Categorical()}).fit(clock)
    assert times_of_day.transform(clock).ids[:, 0].tolist() == [3, 1]
