from __future__ import annotations

import copy
import pickle
from datetime import date, time, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import reference
import torch
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator
from sklearn_checks import PRIVATE_CHECKS

from tabembed import CyclicEmbedding, CyclicTransformer, TableEncoder

DAY = 86_400 * 10**9


def waves(x, period, n_harmonics=1):
    """Rows of the scalar loop."""
    return np.array([reference.cyclic(one, period, n_harmonics) for one in x], dtype=np.float32)


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-7)


def times(*texts, unit="us", zone=None):
    return pd.Series(pd.to_datetime(list(texts), utc=zone is not None, format="ISO8601").as_unit(unit)).pipe(
        lambda s: s if zone is None else s.dt.tz_convert(zone)
    )


@pytest.mark.filterwarnings("ignore:Can't check dok sparse")
def test_check_estimator():
    for harmonics in (1, 2):
        results = check_estimator(CyclicTransformer(7.5, n_harmonics=harmonics), on_fail=None, on_skip=None)
        assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []
        assert sum(r["status"] == "passed" for r in results) >= 40


@pytest.mark.parametrize("check", PRIVATE_CHECKS)
def test_checks_that_scikit_learn_keeps_to_itself(check):
    getattr(estimator_checks, check)("CyclicTransformer", CyclicTransformer(7.5))


@pytest.mark.parametrize(
    ("names", "period"),
    [
        (["hour", "Hour", "hour_of_day"], 24),
        (["minute", "second", "minute_of_hour"], 60),
        (["weekday", "day_of_week", "dayofweek", "dayOfWeek", "dow", "iso_weekday"], 7),
        (["day", "day_of_month", "DayOfMonth"], 31),
        (["day_of_year", "doy", "yearday"], 366),
        (["week", "week_of_year", "iso week"], 53),
        (["month", "MONTH"], 12),
        (["quarter"], 4),
        (["angle", "degrees", "bearing", "heading", "wind_direction", "wind.dir", "longitude"], 360),
        (["radians"], 2 * np.pi),
        (["second_of_day"], 86_400),
        (["minute_of_day"], 1440),
        (["hour_of_week"], 168),
    ],
)
def test_names_tell_the_period(names, period):
    for name in names:
        transformer = CyclicTransformer().fit(pd.DataFrame({name: [1, 5, 1000]}))
        assert transformer.periods_ == {name: {name: period}}
        close(transformer.transform({name: [1, 5, 1000]}), waves([1, 5, 1000], period))


@pytest.mark.parametrize(
    "name",
    ["x", "price", "miles_per_hour", "hours", "duration_seconds", "year", "light_year", "weekend", "a_day"],
)
def test_other_names_are_never_guessed_at(name):
    rule = f"column '{name}': period must be given, the name does not tell it: "
    fix = rule + rf"CyclicTransformer\({{'{name}': 24}}\)"
    with pytest.raises(ValueError, match=fix):
        CyclicTransformer().fit(pd.DataFrame({"hour": [1], name: [3]}))


def test_a_dict_gives_some_and_leaves_the_rest_to_their_names():
    X = pd.DataFrame({"tide": [0.0, 3.1], "month": [12, 1], "hour": [0, 25]})
    transformer = CyclicTransformer({"tide": 12.42, "hour": (24, 12)}, n_harmonics=2).fit(X)
    assert transformer.periods_ == {
        "tide": {"tide": 12.42},
        "month": {"month": 12},
        "hour": {"24": 24, "12": 12},
    }
    assert transformer.get_feature_names_out().tolist() == [
        *["tide_sin1", "tide_cos1", "tide_sin2", "tide_cos2"],
        *["month_sin1", "month_cos1", "month_sin2", "month_cos2"],
        *["hour_24_sin1", "hour_24_cos1", "hour_24_sin2", "hour_24_cos2"],
        *["hour_12_sin1", "hour_12_cos1", "hour_12_sin2", "hour_12_cos2"],
    ]
    parts = [
        waves(X["tide"], 12.42, 2),
        waves(X["month"], 12, 2),
        waves(X["hour"], 24, 2),
        waves(X["hour"], 12, 2),
    ]
    close(transformer.transform(X), np.hstack(parts))


def test_months_31_days_and_unix_seconds_are_exact():
    X = {
        "month": [1, 12, 13],
        "day": [1, 31, 32],
        "t": [1_700_000_000, 1_700_000_060, 1_700_000_000 + 10**12 * 86_400],
    }
    out = CyclicTransformer({"t": 86_400}).fit_transform(X)
    close(out[:, :2], waves([1, 0, 1], 12))
    close(out[:, 2:4], waves([1, 0, 1], 31))
    close(out[:, 4:], waves(X["t"], 86_400))
    assert np.array_equal(out[0], out[2])
    assert len(np.unique(out, axis=0)) == 2
    far = [2**53 + 1, -(2**62), 2**63 - 1]
    close(CyclicTransformer(31).fit_transform({"x": far}), waves(far, 31))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, None, 23], dtype="Int64"),
        pd.Series([1, None, 23], dtype="float64"),
        pd.Series([1, None, 23], dtype="float32"),
        pd.Series([1, None, 23], dtype="int8[pyarrow]"),
        pd.Series([1, None, 23], dtype=object),
        pd.Series([1, None, 23], dtype="Int64").astype("category"),
        pa.array([1, None, 23], pa.uint64()),
        pa.array([1, None, 23], pa.float16()),
    ],
    ids=lambda c: str(getattr(c, "dtype", getattr(c, "type", ""))),
)
def test_gaps_are_nan_and_dtypes_agree(column):
    out = CyclicTransformer().fit_transform({"hour": column})
    close(out[[0, 2]], waves([1, 23], 24))
    assert np.isnan(out[1]).all()
    assert out.dtype == np.float32


def test_a_column_of_gaps():
    X = pd.DataFrame({"hour": [None, None], "when": [None, None]})
    transformer = CyclicTransformer({"when": ("day", "week")}).fit(X)
    assert np.isnan(transformer.transform(X)).all()
    later = transformer.transform({"hour": [6, 6], "when": times("2024-03-05 06:00", None, zone="UTC")})
    close(later[:, :4], [[1, 0, 1, 0], [1, 0, np.nan, np.nan]])


@pytest.mark.parametrize("fitted", ["s", "ms", "us", "ns"])
def test_units_of_times_do_not_matter(fitted):  # case H33
    texts = ("2024-03-01 12:00:00", "2024-03-01 12:00:05", None)
    transformer = CyclicTransformer({"t": ["minute", "day", "year"]}).fit({"t": times(*texts, unit=fitted)})
    outs = [transformer.transform({"t": times(*texts, unit=unit)}) for unit in ("s", "ms", "us", "ns")]
    for out in outs:
        np.testing.assert_array_equal(out, outs[0])
    assert np.isnan(outs[0][2]).all()
    close(outs[0][:2, :2], waves([0, 5], 60))
    close(outs[0][:2, 2:4], waves([1_709_294_400, 1_709_294_405], 86_400))
    close(outs[0][:2, 4:], waves([1_709_294_400, 1_709_294_405], 31_556_952))


def test_times_get_a_day_a_week_and_a_year():
    when = times("2024-03-04 00:00", "2024-03-05 06:00", "1965-07-11 17:59:59.999999")
    transformer = CyclicTransformer().fit({"when": when})
    seconds = {"day": 86_400.0, "week": 604_800.0, "year": 31_556_952.0}
    assert transformer.periods_ == {"when": seconds}
    nanoseconds = when.astype("datetime64[ns]").astype("int64").tolist()
    week = [n + 3 * DAY for n in nanoseconds]
    parts = [waves(nanoseconds, DAY), waves(week, 7 * DAY), waves(nanoseconds, 31_556_952 * 10**9)]
    close(transformer.transform({"when": when}), np.hstack(parts))
    close(transformer.transform({"when": when})[0, :4], [0, 1, 0, 1])  # Monday, midnight
    names = [f"when_{cycle}_{wave}1" for cycle in seconds for wave in ("sin", "cos")]
    assert transformer.get_feature_names_out().tolist() == names


def test_dates_have_no_hours():
    X = {"born": [date(2024, 3, 4), date(2024, 3, 7), None]}
    transformer = CyclicTransformer().fit(X)
    assert list(transformer.periods_["born"]) == ["week", "year"]
    close(transformer.transform(X)[:, :2], [*waves([0, 3], 7), [np.nan, np.nan]])


def test_eight_o_clock_is_eight_o_clock_in_summer_and_winter():
    local = times("2024-01-15 07:00", "2024-07-15 06:00", "2024-07-15 12:00", zone="Europe/Oslo")
    out = CyclicTransformer({"when": "day"}).fit_transform({"when": local})
    close(out, waves([8, 8, 14], 24))
    naive = CyclicTransformer({"when": "day"}).fit_transform({"when": local.dt.tz_localize(None)})
    utc = CyclicTransformer({"when": "day"}).fit_transform({"when": local.dt.tz_convert("UTC")})
    assert np.array_equal(naive, out)
    close(utc, waves([7, 6, 12], 24))


def test_the_module_gives_the_same_numbers():
    when = times("2022-03-04 05:06:07", "2024-10-27 00:59:59", "2024-10-27 01:00:00", zone="Europe/Oslo")
    encoder = TableEncoder().fit({"when": when})
    module = CyclicEmbedding.from_columns(encoder.schema_.datetime, n_harmonics=3, position=False)
    out = module(encoder.transform({"when": when}).times)[:, 0]
    expected = CyclicTransformer(n_harmonics=3).fit_transform({"when": when})
    torch.testing.assert_close(out, torch.from_numpy(expected), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("period", "label", "seconds"),
    [
        ("hour", "hour", 3600),
        (43_200, "43200s", 43_200),
        (0.25, "0.25s", 0.25),
        (timedelta(hours=12), "43200s", 43_200),
        (pd.Timedelta("90min"), "5400s", 5400),
    ],
)
def test_periods_of_times(period, label, seconds):
    when = times("2024-03-04 01:02:03.125")
    transformer = CyclicTransformer({"when": period}).fit({"when": when})
    assert transformer.periods_ == {"when": {label: seconds}}
    assert transformer.get_feature_names_out().tolist() == [f"when_{label}_sin1", f"when_{label}_cos1"]
    close(transformer.transform({"when": when}), waves([1_709_514_123.125], seconds))


def test_tables_of_every_library_and_their_order():
    X = pd.DataFrame(
        {"hour": [3, 1, 2], "when": times("2024-03-05", "2022-01-01", "2023-01-01").array}, index=[7, 7, 1]
    )
    kept, transformer = X.copy(), CyclicTransformer()
    expected = transformer.fit_transform(X)
    pd.testing.assert_frame_equal(X, kept)
    for table in (pl.from_pandas(X), pa.Table.from_pandas(X, preserve_index=False), {n: X[n] for n in X}):
        assert np.array_equal(transformer.transform(table), expected)
        assert np.array_equal(clone(transformer).fit_transform(table), expected)
    assert np.array_equal(transformer.transform(X[::-1]), expected[::-1])
    assert transformer.transform(X[:0]).shape == (0, 8)


def test_arrays_are_taken_by_position():
    array = np.array([[5, 100], [29, -260]])
    for period in ({"x0": 24, "x1": 360}, {0: 24, 1: 360}):
        transformer = CyclicTransformer(period).fit(array)
        close(transformer.transform(array), np.hstack([waves([5, 5], 24), waves([100, 100], 360)]))
        assert transformer.get_feature_names_out().tolist() == ["x0_sin1", "x0_cos1", "x1_sin1", "x1_cos1"]
        assert transformer.get_feature_names_out(["a", "b"])[0] == "a_sin1"
    stamps = np.array([["2024-03-05T06:00"], ["NaT"]], dtype="datetime64[s]")
    close(CyclicTransformer("auto").fit_transform(stamps)[:, :2], [[1, 0], [np.nan, np.nan]])


def test_columns_called_by_numbers():
    X = pd.DataFrame({0: [6], 1: [9]})
    close(CyclicTransformer({0: 24, "1": 12}).fit_transform(X), np.hstack([waves([6], 24), waves([9], 12)]))


def test_set_output_and_names_that_meet():
    X = pd.DataFrame({"when": times("2024-03-05 06:00").array, "when_day": [3]}, index=["a"])
    transformer = CyclicTransformer({"when": "day", "when_day": 12})
    frame = transformer.set_output(transform="pandas").fit_transform(X)
    assert frame.columns.tolist() == ["when_day_sin1", "when_day_cos1", "when_day_sin1_", "when_day_cos1_"]
    assert frame.index.tolist() == ["a"]
    assert (frame.dtypes == np.float32).all()
    assert isinstance(clone(transformer).set_output(transform="polars").fit_transform(X), pl.DataFrame)


def test_copies_and_parameters():
    X = pd.DataFrame({"hour": [3, 1]})
    transformer = CyclicTransformer({"hour": 24}, n_harmonics=2).fit(X)
    for twin in (pickle.loads(pickle.dumps(transformer)), copy.deepcopy(transformer)):
        assert np.array_equal(twin.transform(X), transformer.transform(X))
    assert clone(transformer).get_params() == {"period": {"hour": 24}, "n_harmonics": 2}
    transformer.set_params(n_harmonics=5)  # needs a new fit
    assert transformer.transform(X).shape == (2, len(transformer.get_feature_names_out())) == (2, 4)


def test_in_a_pipeline_a_line_learns_the_hour():
    hour = np.tile(np.arange(24), 20)
    X, y = pd.DataFrame({"hour": hour, "km": 1.0}), np.cos(2 * np.pi * (hour - 5) / 24)
    columns = make_column_transformer((CyclicTransformer(), ["hour"]), remainder="passthrough")
    assert make_pipeline(columns, LinearRegression()).fit(X, y).score(X, y) > 0.999
    assert LinearRegression().fit(X, y).score(X, y) < 0.7


@pytest.mark.parametrize(
    ("period", "error", "text"),
    [
        ("month", ValueError, "column 'when': "),
        (None, TypeError, "period must be 'auto', a number, a timedelta, the name of a period or a dict"),
        ([24], TypeError, r"the name of a period or a dict of columns, got \[24\]"),
        (
            {"hours": 24},
            ValueError,
            r"period must name columns of the table, \['hour', 'when'\], got 'hours'",
        ),
        (
            {"hour": 0},
            ValueError,
            "column 'hour': period must be a positive number in the unit of the column, got 0",
        ),
        ({"hour": "day"}, ValueError, "column 'hour': period must be a positive number .*, got 'day'"),
        ({"hour": np.inf}, ValueError, "column 'hour': period must be a positive number .*, got inf"),
        ({"hour": True}, ValueError, "column 'hour': period must be a positive number .*, got True"),
        ({"hour": timedelta(1)}, ValueError, "column 'hour': period must be a positive number"),
        ({"hour": ()}, ValueError, r"column 'hour': period must name one cycle or more, got \(\)"),
        ({"when": "moon"}, ValueError, "column 'when': period must be one of minute, .*, got 'moon'"),
        ({"when": None}, TypeError, "column 'when': period must be one of minute, .*, got None"),
        ({"when": -1}, ValueError, "column 'when': period must .*from a nanosecond to 146 years, got -1"),
    ],
)
def test_bad_periods(period, error, text):
    X = pd.DataFrame({"hour": [1, 2], "when": times("2024-03-05", None)})
    with pytest.raises(error, match=text):
        CyclicTransformer(period).fit(X)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["a", "b"], "string"),
        ([True, False], "bool"),
        ([timedelta(1), None], "duration"),
        ([[1], [2]], "list"),
        ([time(8), None], "time64"),
    ],
)
def test_bad_columns(column, kind):
    with pytest.raises(
        TypeError, match=f"column 'hour': must hold numbers, dates or timestamps, got .*{kind}"
    ):
        CyclicTransformer().fit({"hour": column})


def test_bad_rows_of_a_fitted_transformer():
    transformer = CyclicTransformer().fit({"hour": [1], "when": times("2024-03-05")})
    good = {"hour": [1.5], "when": times("2024-03-05 01:00")}
    assert np.isfinite(transformer.transform(good)).all()
    bad = [
        (
            {"hour": times("2024-03-05")},
            TypeError,
            "column 'hour': must hold numbers as in the fit, got timestamp",
        ),
        ({"hour": [np.inf]}, ValueError, "column 'hour': must be finite or missing, got infinity"),
        (
            {"hour": np.array([2**64 - 1], np.uint64)},
            ValueError,
            "column 'hour': must fit into int64, got 18446744073",
        ),
        ({"when": [5]}, TypeError, "column 'when': must hold dates or times, got int64"),
        (
            {"when": times("2024-03-05", zone="UTC")},
            ValueError,
            "'when': must have no time zone as in the fit, got 'UTC'",
        ),
        (
            {"when": np.array(["1066-10-14"], "datetime64[s]")},
            ValueError,
            "'when': must lie in the years 1678 to 2261",
        ),
    ]
    for change, error, text in bad:
        with pytest.raises(error, match=text):
            transformer.transform({**good, **change})
    aware = CyclicTransformer().fit({"when": times("2024-03-05", zone="UTC")})
    with pytest.raises(ValueError, match="column 'when': must have a time zone as in the fit, got none"):
        aware.transform({"when": times("2024-03-05")})


def test_bad_harmonics_and_names():
    with pytest.raises(ValueError, match="n_harmonics must be at least 1, got 0"):
        CyclicTransformer(n_harmonics=0).fit({"hour": [1]})
    transformer = CyclicTransformer().fit({"hour": [1]})
    with pytest.raises(ValueError, match=r"input_features is not equal to feature_names_in_, got \['day'\]"):
        transformer.get_feature_names_out(["day"])


def test_the_clock_is_that_of_the_fit_whatever_zone_the_instants_come_in():
    when = pd.Series(pd.date_range("2024-01-01", periods=400, freq="37h", tz="America/New_York"))
    cyclic = CyclicTransformer("day").fit(pd.DataFrame({"when": when}))
    expected = cyclic.transform(pd.DataFrame({"when": when}))
    for zone in ("UTC", "Asia/Kathmandu"):
        other = pd.DataFrame({"when": when.dt.tz_convert(zone)})
        assert np.array_equal(cyclic.transform(other), expected)
        assert not np.array_equal(CyclicTransformer("day").fit_transform(other), expected)


def test_a_number_is_for_numbers_and_a_name_or_timedelta_for_times():
    X = pd.DataFrame({"hour": [0, 6], "when": pd.to_datetime(["2024-03-04", "2024-03-05"])})
    assert CyclicTransformer(12).fit(X).periods_["hour"] == {"hour": 12}
    assert list(CyclicTransformer(12).fit(X).periods_["when"]) == ["day", "week", "year"]
    for period in ("day", timedelta(1)):
        fitted = CyclicTransformer(period).fit(X)
        assert fitted.periods_["hour"] == {"hour": 24}
        assert list(fitted.periods_["when"].values()) == [86_400]
    with pytest.raises(ValueError, match="period must fit a column, and the table has no numbers, got 24"):
        CyclicTransformer(24).fit(X[["when"]])
    with pytest.raises(ValueError, match="period must fit a column, and the table has no times, got 'day'"):
        CyclicTransformer("day").fit(X[["hour"]])


def test_a_column_of_nothing_in_the_fit_leaves_kind_and_zone_open():
    zoned = pd.DataFrame({"when": pd.date_range("2024-01-01 06:00", periods=2, tz="Asia/Tokyo")})
    nothing = pd.DataFrame({"when": pd.to_datetime([None, None])})
    for period in ("day", {"when": timedelta(days=1)}):
        out = CyclicTransformer(period).fit(nothing).transform(zoned)
        np.testing.assert_allclose(out, [[1, 0], [1, 0]], atol=1e-6)
    untyped = CyclicTransformer({"when": timedelta(days=1)}).fit({"when": [None, None]})
    np.testing.assert_allclose(untyped.transform(zoned), [[1, 0], [1, 0]], atol=1e-6)


def test_an_unknown_zone_names_the_column():
    array = pa.array([0, 1], pa.timestamp("us", "Mars/Olympus"))
    cyclic = CyclicTransformer("day").fit(pa.table({"when": array}))
    with pytest.raises(ValueError, match="column 'when': must have a known time zone, got 'Mars/Olympus'"):
        cyclic.transform(pa.table({"when": array}))
