"""Clocks as int64 nanoseconds, against exact fractions and pandas."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tabembed.schema import MISSING_TIME
from tabembed.sequence.time_axis import UNITS, Clock, TimeAxis

NUMBERS = [0, 1, -1, 0.1, -0.1, 2.5, 1709294400, 1709294400.25, -7e8 / 3, 86399.999999999, None, float("nan")]
MOMENTS = ["2024-03-01 12:00:00", "2024-03-01 12:00:05", None, "1969-12-31 23:59:59"]


def nulls(values, kind=None):
    return pa.array(values, kind, from_pandas=True)


def by_hand(value, unit):
    """Exact to the nanosecond: the float's own value, not the decimal that it prints as."""
    return MISSING_TIME if value is None or value != value else round(Fraction(value) * UNITS[unit])


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()])
def test_floats_are_rounded_to_nanoseconds(unit, kind):
    array = nulls(NUMBERS, pa.float64())
    if kind == pa.float16():
        array = array.slice(0, 6)
    array = array.cast(kind, safe=False)
    expected = [by_hand(value, unit) for value in array.cast(pa.float64()).to_pylist()]
    got = Clock(unit).fit("when", array).encode(array)
    assert got.dtype == np.int64
    assert got.tolist() == expected


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
)
def test_whole_numbers_are_exact_and_those_of_floats(unit, kind):
    values = [0, 5, 97, None, 113]
    array = nulls(values, kind)
    axis = Clock(unit).fit("when", array)
    expected = [by_hand(value, unit) for value in values]
    assert axis.encode(array).tolist() == expected
    assert axis.encode(nulls([None if v is None else float(v) for v in values])).tolist() == expected


@pytest.mark.parametrize("value", [2**33 + 1, 2**33 - 3, -(2**33) + 7, 9223372035])
def test_whole_floats_equal_integers_beyond_the_53_bits_of_a_product(value):
    axis = Clock("s").fit("when", nulls([value]))
    assert (
        axis.encode(nulls([float(value)])).tolist() == [value * 10**9] == axis.encode(nulls([value])).tolist()
    )


def test_a_dictionary_of_numbers_is_read_by_its_values():
    array = nulls([7, 3, None, 7]).dictionary_encode()
    assert Clock("ms").fit("when", array).encode(array).tolist() == [
        7 * 10**6,
        3 * 10**6,
        MISSING_TIME,
        7 * 10**6,
    ]


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("unit_of_fit", ["s", "ms", "us", "ns"])
def test_instants_do_not_depend_on_their_unit(unit_of_fit, unit, zone):  # H33
    def column(unit):
        moments = pd.Series(pd.to_datetime(MOMENTS)).dt.tz_localize(zone)
        return nulls(moments.dt.as_unit(unit))

    axis = Clock("D").fit("when", column(unit_of_fit))
    expected = pd.Series(pd.to_datetime(MOMENTS)).dt.tz_localize(zone).dt.as_unit("ns")
    expected = expected.astype("int64").where(expected.notna(), MISSING_TIME)
    assert axis.encode(column(unit)).tolist() == expected.tolist()
    assert axis.encode(column(unit))[2] == MISSING_TIME


def test_dates_are_midnights():
    array = nulls([dt.date(1970, 1, 2), None, dt.date(1969, 12, 31)])
    assert Clock().fit("when", array).encode(array).tolist() == [86400 * 10**9, MISSING_TIME, -86400 * 10**9]


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (pa.array(["2024-03-01"]), "text"),
        (pa.array(["2024-03-01"]).dictionary_encode(), "text"),
        (pa.array([True, False]), "booleans"),
        (pa.array([[1.0]]), r"list<.*> values"),
        (pa.array([dt.time(1, 2)]), "times of day"),
        (pa.array([dt.timedelta(1)]), r"duration\[us\] values"),
    ],
)
def test_what_is_no_clock_is_refused(array, got):
    with pytest.raises(
        TypeError, match=rf"^column 'when': must hold dates, times or numbers, got {got}: parse it first$"
    ):
        Clock().fit("when", array)
    with pytest.raises(TypeError, match=r"^column 'when': must hold dates, times or numbers, got"):
        Clock().fit("when", pa.array([1])).encode(array)


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([float("inf"), 1.0], "s"),
        ([float("-inf"), 1.0], "ns"),
        ([9223372036], "s"),
        ([-9223372036], "s"),
        ([2**63 - 1], "us"),
        ([2.0**63], "ns"),
        ([-(2**63)], "ns"),
        ([106751.5, 106752.0], "D"),
        (np.array([2**64 - 1], np.uint64), "ns"),
    ],
)
def test_numbers_beyond_int64_nanoseconds_are_refused(values, unit):
    with pytest.raises(
        ValueError, match=r"^column 'when': must fit int64 nanoseconds, so lie within ±.* got .* to "
    ):
        Clock(unit).fit("when", pa.array(values))


@pytest.mark.parametrize(
    ("value", "unit"), [(2**63 - 1, "ns"), (1 - 2**63, "ns"), (106750.5, "D"), (9223372035.9, "s")]
)
def test_numbers_up_to_there_are_exact(value, unit):
    array = pa.array([value])
    assert Clock(unit).fit("when", array).encode(array).tolist() == [by_hand(value, unit)]


def test_years_beyond_int64_nanoseconds_are_refused():
    with pytest.raises(ValueError, match="column 'when': must lie in the years 1678 to 2261"):
        Clock().fit("when", pa.array([dt.datetime(2900, 1, 1)]))


def test_an_unknown_unit_is_refused():
    with pytest.raises(ValueError, match="unit must be one of ns, us, ms, s, m, h, D, got 'week'"):
        Clock("week")


def test_a_zone_is_there_everywhere_or_nowhere():
    bare, zoned = pa.array([1], pa.timestamp("s")), pa.array([1], pa.timestamp("s", "UTC"))
    clock = Clock()
    with pytest.raises(ValueError, match="must have a time zone everywhere or nowhere, got both"):
        clock.merge("when", clock.partial("when", bare), clock.partial("when", zoned))
    with pytest.raises(ValueError, match="must have time zone 'UTC' as in the fit, got no time zone"):
        clock.fit("when", zoned).encode(bare)
    with pytest.raises(ValueError, match="must have no time zone as in the fit, got time zone 'UTC'"):
        clock.fit("when", bare).encode(zoned)
    other = pa.array([1], pa.timestamp("s", "Asia/Tokyo"))
    assert clock.fit("when", zoned).encode(other).tolist() == [10**9]


def test_numbers_and_times_are_two_kinds():
    numbers, times = pa.array([1]), pa.array([1], pa.timestamp("s"))
    clock = Clock()
    with pytest.raises(TypeError, match="'when': must hold one kind in every part, got numbers and times"):
        clock.merge("when", clock.partial("when", numbers), clock.partial("when", times))
    with pytest.raises(TypeError, match=r"'when': must hold numbers as in the fit, got timestamp\[s\]"):
        clock.fit("when", numbers).encode(times)
    with pytest.raises(TypeError, match="'when': must hold times as in the fit, got int64"):
        clock.fit("when", times).encode(numbers)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.timestamp("s"), pa.timestamp("ms", "UTC")])
def test_fits_in_parts_are_one_fit(kind):
    whole = pa.array([5, None, -3, 8, None, 2], pa.int64()).cast(kind)
    clock = Clock("m")
    parts = [clock.partial("when", whole.slice(i, n)) for i, n in ((0, 1), (1, 1), (2, 3), (5, 1), (6, 0))]
    merged = parts[-1]
    for part in parts[:-1]:
        merged = clock.merge("when", part, merged)
    assert clock.finalize("when", merged) == clock.fit("when", whole)
    assert clock.fit("when", whole).column.n_missing == 2


@pytest.mark.parametrize(
    ("array", "unit"),
    [
        (pa.array([3, None, -8]), "h"),
        (pa.array([0.5, None, -8.25]), "D"),
        (pa.array([1, None, 10**9]).cast(pa.timestamp("ns", "Europe/Oslo")), "s"),
        (pa.array([1, None, 10**9]).cast(pa.timestamp("ns")), "s"),
    ],
)
def test_decoding_gives_the_column_back(array, unit):
    axis = Clock(unit).fit("when", array)
    assert axis.decode(axis.encode(array)).equals(array)
    assert TimeAxis.from_json(axis.to_json()) == axis


@pytest.mark.parametrize(
    ("array", "value", "expected"),
    [
        (pa.array([1]), np.float32(1.5), 1_500_000_000),
        (pa.array([1]), 3, 3 * 10**9),
        (pa.array([1], pa.timestamp("s")), pd.Timestamp(123456789), 123456789),
        (pa.array([1], pa.timestamp("s")), np.datetime64(7, "ms"), 7 * 10**6),
        (pa.array([1], pa.timestamp("s")), dt.date(1970, 1, 2), 86400 * 10**9),
        (pa.array([1], pa.timestamp("s", "UTC")), pd.Timestamp("1970-01-01 01:00", tz="Europe/Paris"), 0),
        (pa.array([1], pa.timestamp("s", "UTC")), pd.Timestamp(1, tz="Asia/Tokyo"), 1),
    ],
)
def test_one_moment(array, value, expected):
    assert Clock().fit("when", array).instant(value) == expected


@pytest.mark.parametrize("value", [None, float("nan"), pd.NaT])
def test_no_moment(value):
    with pytest.raises(ValueError, match="column 'when': must be comparable with it, got no moment"):
        Clock().fit("when", pa.array([1])).instant(value)


def test_a_moment_that_is_none_of_arrows_values():
    with pytest.raises(TypeError, match="column 'when': must be comparable with it"):
        Clock().fit("when", pa.array([1])).instant(object())


def test_a_moment_beyond_the_years_of_nanoseconds():
    with pytest.raises(ValueError, match="column 'when': must lie in the years 1678 to 2261"):
        Clock().fit("when", pa.array([1], pa.timestamp("s"))).instant(dt.datetime(2900, 1, 1))
