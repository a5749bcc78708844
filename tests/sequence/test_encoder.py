"""Tables of events become sequences: columns, clocks, cutoffs, ties, what is missing, and what is saved."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import pickle
import subprocess
import sys
import warnings
from dataclasses import asdict, replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from event_tables import events, plain
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import tabembed
from tabembed import ArtifactError, Categorical, SequenceBatch, SequenceEncoder, TableEncoder
from tabembed.datasets import load_flights
from tabembed.schema import MISSING, MISSING_TIME

COLUMNS = ["place", "size", "paid", "until", "tags"]


def fitted(**settings):
    return SequenceEncoder("who", "when", observed=["paid", "until", "tags"], **settings).fit(events())


# What a batch holds


@pytest.mark.filterwarnings("ignore:column:UserWarning")  # one row may have no value
@pytest.mark.parametrize("n", [61, 1, 2])
def test_sequences_are_those_of_pandas(n):
    frame = events(n)
    encoder = SequenceEncoder("who", "when").fit(frame)
    batch = encoder.transform(frame)
    expected = frame.sort_values(["who", "when"], kind="stable")
    groups = expected.groupby("who")
    assert batch.row.tolist() == expected.index.tolist()
    assert batch.entities.tolist() == list(groups.groups)
    assert batch.lengths.tolist() == groups.size().tolist()
    assert batch.times.tolist() == expected["when"].dt.as_unit("ns").astype("int64").tolist()
    gap = groups["when"].diff().dt.total_seconds()
    elapsed = (expected["when"] - groups["when"].transform("min")).dt.total_seconds()
    np.testing.assert_array_equal(batch.gap, gap)
    np.testing.assert_array_equal(batch.elapsed, elapsed)
    assert batch.n_input == n
    alone = TableEncoder(columns=COLUMNS).fit(frame)
    rows = alone.transform(expected)
    one = SequenceBatch(
        rows, *(getattr(batch, f) for f in ("cu_seqlens", "entities", "times", "elapsed", "gap", "row")), n
    )
    assert plain(one) == plain(batch)
    assert asdict(encoder.schema_.rows) == asdict(alone.schema_)


def test_every_row_is_one_piece_of_memory():
    batch = fitted().transform(events())
    for lane in ("ids", "values", "missing", "times"):
        assert getattr(batch.rows, lane).is_contiguous()


def test_the_schema_describes_the_sequences():
    frame = events()
    encoder = SequenceEncoder("who", "when", observed=["paid"], ties="strict").fit(frame)
    expected = frame.sort_values(["who", "when"])
    gaps = expected.groupby("who")["when"].diff().dt.total_seconds()
    spans = expected.groupby("who")["when"].agg(lambda when: (when.max() - when.min()).total_seconds())
    schema = encoder.schema_
    assert (schema.observed, schema.strict) == (("paid",), True)
    assert schema.n_sequences == frame["who"].nunique()
    assert schema.longest == frame["who"].value_counts().max()
    assert schema.span == spans.max()
    assert schema.gaps == tuple(np.quantile(gaps[gaps > 0], np.linspace(0, 1, 101)))
    assert [c.name for c in schema.known.columns] == ["place", "size", "until", "tags"]
    assert [c.name for c in schema.after.columns] == ["paid"]


@pytest.mark.filterwarnings("ignore:max_events")
@pytest.mark.parametrize(("ties", "most"), [("merge", None), ("stable", 3), ("merge", 2), ("strict", 1)])
def test_the_schema_knows_what_ties_and_max_events_leave(ties, most):
    encoder = fitted(ties=ties, max_events=most)
    batch = encoder.transform(events())
    span = (batch.elapsed[batch.cu_seqlens[1:] - 1] - batch.elapsed[batch.cu_seqlens[:-1].long()]).max()
    assert encoder.schema_.longest == batch.lengths.max()
    assert encoder.schema_.span == float(span)
    assert encoder.schema_.gaps == fitted().schema_.gaps
    assert encoder.schema_.strict == (ties == "strict")


def test_one_row_an_entity_has_no_gaps():
    frame = pd.DataFrame({"who": ["b", "a"], "when": [3, 3], "x": [1.0, 2.0]})
    encoder = SequenceEncoder("who", "when").fit(frame)
    assert (encoder.schema_.gaps, encoder.schema_.span, encoder.schema_.longest) == ((), 0.0, 1)
    batch = encoder.transform(frame)
    assert batch.row.tolist() == [1, 0]
    assert batch.elapsed.tolist() == [0.0, 0.0]
    assert batch.gap.isnan().all()


def test_rows_without_columns_are_bare_events():
    frame = events()[["who", "when"]]
    encoder = SequenceEncoder("who", "when").fit(frame)
    batch = encoder.transform(frame)
    assert encoder.table_encoder_ is None
    assert (encoder.kinds_, encoder.categories_, encoder.schema_.rows.n_rows) == ({}, {}, 61)
    assert batch.rows.shape == (61, 0)
    assert batch.row.tolist() == frame.sort_values(["who", "when"], kind="stable").index.tolist()
    again = SequenceEncoder.from_artifact(*encoder.to_artifact())
    assert plain(again.transform(frame)) == plain(batch)
    parts = encoder.merge_states(encoder.partial(frame[:9]), encoder.partial(frame[9:]))
    assert clone(encoder).finalize(parts).schema_ == encoder.schema_


def test_a_table_without_names_goes_by_position():
    array = np.array([[2.0, 5.0, 0.5], [1.0, 9.0, 0.1], [2.0, 3.0, 0.7]])
    encoder = SequenceEncoder("x0", "x1").fit(array)
    assert encoder.transform(array).row.tolist() == [1, 2, 0]
    named = pd.DataFrame(array, columns=["a", "b", "c"])
    assert plain(encoder.transform(named)) == plain(encoder.transform(array))
    with pytest.raises(
        ValueError, match="X has 2 features, but SequenceEncoder is expecting 3 features as input"
    ):
        encoder.transform(array[:, :2])


@pytest.mark.parametrize("library", ["polars", "pyarrow", "dict", "shuffled columns"])
def test_libraries_and_the_order_of_columns_make_no_difference(library):
    frame = events()
    table = {
        "polars": pl.from_pandas,
        "pyarrow": pa.Table.from_pandas,
        "dict": lambda f: {name: f[name] for name in f},
        "shuffled columns": lambda f: f[[*f.columns[::-1]]].assign(more=1),
    }[library](frame)
    encoder = fitted()
    assert plain(encoder.transform(table)) == plain(encoder.transform(frame))


def test_flights_are_the_aircrafts():
    flights = load_flights().dropna(subset=["arr_delay"])
    names = ["tailnum", "time_hour", "carrier", "distance", "arr_delay"]
    encoder = SequenceEncoder("tailnum", "time_hour", observed=["arr_delay"]).fit(flights[names])
    batch = encoder.transform(flights)
    expected = flights.reset_index(drop=True).sort_values(["tailnum", "time_hour"], kind="stable")
    assert batch.row.tolist() == expected.index.tolist()
    assert encoder.kinds_ == {"carrier": "categorical", "distance": "continuous", "arr_delay": "continuous"}
    assert set(encoder.categories_["carrier"]) == set(flights["carrier"])


# Which columns


def test_entity_and_time_are_columns_where_they_are_named():
    frame = events()
    left_out = SequenceEncoder("who", "when").fit(frame)
    assert list(left_out.kinds_) == COLUMNS
    named = SequenceEncoder("who", "when", ["when", "who", "size"]).fit(frame)
    assert named.kinds_ == {"who": "categorical", "when": "datetime", "size": "continuous"}
    assert named.transform(frame).rows.times[:, 0].tolist() == named.transform(frame).times.tolist()
    spec = SequenceEncoder("who", "when", {"who": Categorical(), "tags": "drop"}).fit(frame)
    assert list(spec.kinds_) == ["who", "place", "size", "paid", "until"]
    assert (list(spec.feature_names_in_), spec.n_features_in_) == (list(frame.columns), 7)


def test_an_encoder_of_tables_brings_its_settings():
    frame = events()
    table = TableEncoder({"size": Categorical()}, min_frequency=5, scaler="standard")
    encoder = SequenceEncoder("who", "when", table).fit(frame)
    assert encoder.table_encoder_.min_frequency == 5
    assert encoder.table_encoder_.scaler == "standard"
    assert (encoder.kinds_["size"], list(encoder.kinds_)) == ("categorical", COLUMNS)
    assert not hasattr(table, "schema_")
    assert clone(encoder).set_params(columns__scaler=None).fit(frame).table_encoder_.scaler is None


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"entity": "whom"}, ValueError, r"column 'whom': must be in the table, which has \['who', "),
        ({"time": "then"}, ValueError, "column 'then': must be in the table, which has"),
        ({"observed": ["late"]}, ValueError, "column 'late': must be in the table, which has"),
        ({"columns": ["sizes"]}, ValueError, "column 'sizes': has a spec, but the table has only"),
        ({"time": "who"}, ValueError, "entity and time must be two columns, got 'who' twice"),
        (
            {"entity": 0},
            TypeError,
            "entity must name a column by text, got 0: a table's names are taken as text, so write '0'",
        ),
        ({"time": None}, TypeError, "time must name a column by text, got None$"),
        ({"observed": [2]}, TypeError, "observed must name a column by text, got 2: .* so write '2'"),
        ({"columns": [2]}, TypeError, "columns must name a column by text, got 2: .* so write '2'"),
        ({"columns": {("a", 1): "drop"}}, TypeError, r"by text, got \('a', 1\): .* so write \"\('a', 1\)\""),
        (
            {"observed": ["paid", "size", "paid"]},
            ValueError,
            "observed must name every column once, got 'paid' ",
        ),
        ({"observed": {"paid"}}, TypeError, "observed must be a list of names, got {'paid'}"),
        ({"observed": {"paid": 1}}, TypeError, "observed must be a list of names, got {'paid': 1}"),
        ({"ties": ["stable"]}, ValueError, "ties must be one of stable, merge, error, strict, got "),
        ({"observed": "paid"}, TypeError, "observed must be a list of names, got 'paid'"),
        (
            {"observed": ["who"]},
            ValueError,
            "column 'who': must be known when a row happens, got it in observed",
        ),
        ({"observed": ["when"]}, ValueError, "column 'when': must be known when a row happens"),
        (
            {"observed": ["paid"], "columns": ["size"]},
            ValueError,
            "column 'paid': is observed, so columns must not leave",
        ),
        (
            {"observed": ["paid"], "columns": {"paid": "drop"}},
            ValueError,
            "column 'paid': is observed, so columns must",
        ),
        (
            {"ties": "first"},
            ValueError,
            "ties must be one of stable, merge, error, strict, got 'first'",
        ),
        ({"on_missing": "skip"}, ValueError, "on_missing must be one of error, drop, got 'skip'"),
        ({"max_events": 0}, ValueError, "max_events must be at least 1, got 0"),
        ({"max_events": True}, TypeError, "max_events must be an integer, got True"),
        ({"max_events": 2.5}, TypeError, "max_events must be an integer, got 2.5"),
        ({"unit": "weeks"}, ValueError, "unit must be one of ns, us, ms, s, m, h, D, got 'weeks'"),
    ],
)
def test_settings_that_make_no_sense(settings, error, text):
    encoder = SequenceEncoder(**{"entity": "who", "time": "when"} | settings)
    with pytest.raises(error, match=text):
        encoder.fit(events())


def test_a_table_that_lacks_a_column_at_transform():
    encoder = fitted()
    for name in ("who", "when", "paid"):
        with pytest.raises(ValueError, match=f"column '{name}': must be in the table, which has"):
            encoder.transform(events().drop(columns=name))


def test_nothing_is_done_before_a_fit():
    for call in (
        lambda e: e.transform(events()),
        lambda e: e.to_artifact(),
        lambda e: e.append(None, events()),
    ):
        with pytest.raises(NotFittedError):
            call(SequenceEncoder("who", "when"))


# Keys and clocks


def test_keys_of_the_kind_of_the_fit():
    frame = pd.DataFrame({"who": [3, 1, 3], "when": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    encoder = SequenceEncoder("who", "when").fit(frame)
    floats = encoder.transform(frame.astype({"who": float}))
    assert plain(floats) == plain(encoder.transform(frame))
    assert floats.entities.dtype == np.int64
    assert plain(encoder.transform(frame.astype({"who": "Int8"}))) == plain(floats)
    with pytest.raises(TypeError, match="column 'who': must hold numbers as in the fit, got text"):
        encoder.transform(frame.astype({"who": str}))
    with pytest.raises(TypeError, match="column 'who': must hold numbers as in the fit, got booleans"):
        encoder.transform(frame.assign(who=[True, False, True]))
    with pytest.raises(TypeError, match="column 'who': must hold text, numbers, booleans or times, got list"):
        SequenceEncoder("who", "when").fit(frame.assign(who=[["a"], ["b"], ["a"]]))


def test_entities_of_which_the_fit_knew_nothing():
    encoder, frame = fitted(), events().assign(who="someone else")
    batch = encoder.transform(frame)
    assert (batch.entities.tolist(), batch.lengths.tolist()) == (["someone else"], [61])


@pytest.mark.parametrize("unit", ["s", "m", "h"])
def test_a_numeric_clock_counts_units(unit):
    seconds = {"s": 1, "m": 60, "h": 3600}[unit]
    frame = pd.DataFrame({"who": list("aab"), "when": [2.5, 1.0, 7.0], "x": 1.0})
    batch = SequenceEncoder("who", "when", unit=unit).fit(frame).transform(frame)
    assert batch.times.tolist() == [int(t * 1e9 * seconds) for t in (1.0, 2.5, 7.0)]
    assert batch.gap.tolist()[1] == 1.5 * seconds


def test_text_is_no_clock():
    frame = events().assign(when=events()["when"].astype(str))
    with pytest.raises(
        TypeError, match="column 'when': must hold dates, times or numbers, got text: parse it first"
    ):
        SequenceEncoder("who", "when").fit(frame)


def test_the_zone_of_the_fit():
    frame, encoder = events(), fitted()
    zoned = frame.assign(when=frame["when"].dt.tz_localize("Europe/Oslo"))
    with pytest.raises(ValueError, match="must have no time zone as in the fit, got time zone 'Europe/Oslo'"):
        encoder.transform(zoned)
    with pytest.raises(ValueError, match=r"got time zone 'Europe/Oslo': use tz_localize\(None\) first"):
        encoder.transform(zoned)
    with pytest.raises(ValueError, match=r"got no time zone: use tz_localize\('Europe/Oslo'\) first"):
        clone(encoder).fit(zoned).transform(frame)
    with pytest.raises(ValueError, match="must have time zone 'Europe/Oslo' as in the fit, got no time zone"):
        clone(encoder).fit(zoned).transform(frame)


def test_zones_beside_none_are_refused():
    both = [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-02"), None]
    text = "column 'when': must hold .* got a mix \\(times with a zone and times without one\\)"
    for when in (both, both[::-1], [moment and moment.to_pydatetime() for moment in both]):
        frame = pd.DataFrame({"who": 1, "when": pd.Series(when, dtype=object), "x": 1.0})
        with pytest.raises(TypeError, match=text):
            SequenceEncoder("who", "when", on_missing="drop").fit(frame)


def test_decimals_are_no_clock():
    frame = pd.DataFrame({"who": 1, "when": [Decimal("1.5"), Decimal(2)], "x": 1.0})
    with pytest.raises(
        TypeError, match="dates, times or numbers, got decimals: cast it to int or float first"
    ):
        SequenceEncoder("who", "when").fit(frame)


@pytest.mark.parametrize("category", [False, True])
def test_text_that_utf8_cannot_hold(category):
    who = pd.Series(["a", "b"], dtype=object)
    who[1] = "b\ud800"
    frame = pd.DataFrame({"who": pd.Categorical(who) if category else who, "when": [1, 2], "x": 1.0})
    with pytest.raises(
        ValueError, match="column 'who': must be text that UTF-8 can hold, got a lone surrogate"
    ):
        SequenceEncoder("who", "when").fit(frame)


@pytest.mark.parametrize("given", [np.array, pd.Index, tuple, pd.Series])
def test_observed_in_an_array(given, tmp_path):
    frame = events()
    encoder = SequenceEncoder("who", "when", observed=given(["paid", "tags"])).fit(frame)
    assert encoder.schema_ == SequenceEncoder("who", "when", observed=["paid", "tags"]).fit(frame).schema_
    encoder.save(tmp_path / "model")
    assert SequenceEncoder.load(tmp_path / "model").schema_ == encoder.schema_


def test_columns_that_are_numbers_are_named_by_text():
    frame = events()[["who", "when", "paid"]].set_axis([0, 1, 2], axis=1)
    encoder = SequenceEncoder("0", "1", observed=["2"]).fit(frame)
    assert (list(encoder.kinds_), encoder.schema_.observed) == (["2"], ("2",))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (pd.to_datetime(["2024-01-01 00:30"]).tz_localize("Europe/Oslo"), "2023-12-31T23:30"),
        ([dt.date(2024, 1, 1)], "2024-01-01"),
    ],
)
def test_keys_that_are_times_come_back_as_utc(keys, expected):
    frame = pd.DataFrame({"who": keys, "when": [1], "x": [1.0]})
    entities = SequenceEncoder("who", "when").fit(frame).transform(frame).entities
    assert entities.dtype == np.dtype("datetime64[ns]")
    assert entities.tolist() == np.array([expected], "datetime64[ns]").tolist()


# What is missing


def gaps(frame):
    frame = frame.copy()
    frame.loc[[3, 5, 8], "who"] = None
    frame.loc[[5, 11], "when"] = pd.NaT
    return frame


def test_missing_entities_and_times_are_refused():
    frame, encoder = gaps(events()), SequenceEncoder("who", "when")
    text = "column 'who': must not be missing, got 3 of 61 rows without it; on_missing='drop' leaves them out"
    for call in (encoder.fit, fitted().transform):
        with pytest.raises(ValueError, match=text):
            call(frame)
    with pytest.raises(ValueError, match="column 'when': must not be missing, got 2 of 61 rows"):
        encoder.fit(frame.assign(who=events()["who"]))


def test_missing_entities_and_times_are_left_out_and_counted():
    frame = gaps(events())
    kept = frame.dropna(subset=["who", "when"])
    text = "^4 rows are left out: column 'who' is missing in 3, column 'when' is missing in 2$"
    encoder = SequenceEncoder("who", "when", on_missing="drop")
    with pytest.warns(UserWarning, match=text) as of_fit:
        encoder.fit(frame)
    with pytest.warns(UserWarning, match=text) as of_transform:
        batch = encoder.transform(frame)
    assert of_fit[0].filename == of_transform[0].filename == __file__
    alone = SequenceEncoder("who", "when").fit(kept)
    assert asdict(encoder.schema_) == asdict(alone.schema_)
    expected = alone.transform(kept)
    assert batch.row.tolist() == kept.index[expected.row].tolist()
    assert plain(replace(batch, row=expected.row)) == plain(expected)
    assert (batch.n_input, len(batch.rows)) == (61, 57)
    with pytest.warns(UserWarning, match=text):
        clone(encoder).finalize(encoder.merge_states(encoder.partial(frame[:5]), encoder.partial(frame[5:])))


def test_a_table_without_rows():
    encoder, frame = fitted(), events()
    for empty in (frame[:0], {name: [] for name in frame}):
        batch = encoder.transform(empty)
        assert (len(batch), batch.n_rows, batch.n_input, batch.cu_seqlens.tolist()) == (0, 0, 0, [0])
        assert batch.rows.shape == (0, 5)
        with pytest.raises(ValueError, match="Found array with 0 sample"):
            clone(encoder).fit(empty)
    all_out = pytest.warns(UserWarning, match="61 rows are left out: column 'who' is missing in 61")
    with pytest.raises(ValueError, match="Found array with 0 sample"), all_out:
        SequenceEncoder("who", "when", on_missing="drop").fit(frame.assign(who=None))
    encoder = SequenceEncoder("who", "when", on_missing="drop").fit(frame)
    with pytest.warns(UserWarning, match="61 rows are left out"):
        batch = encoder.transform(frame.assign(who=None))
    assert (len(batch), batch.n_rows, batch.n_input) == (0, 0, 61)


# Cutoffs


def known_at(frame, cutoff):
    """What was known: earlier rows, and rows of that moment without what is observed."""
    known = frame[frame["when"] <= cutoff].copy()
    at = known["when"] == cutoff
    for name in ("paid", "until", "tags"):
        known[name] = known[name].where(~at, None)
    return known


@pytest.mark.parametrize("ties", ["stable", "merge", "strict"])
@pytest.mark.parametrize("hour", range(-1, 13, 2))
def test_a_cutoff_gives_what_was_known_then(hour, ties):
    frame, encoder = events(), fitted(ties=ties)
    cutoff = pd.Timestamp("2024-03-01 12:00") + pd.Timedelta(hour, "h")
    known = known_at(frame, cutoff)
    assert hour < 0 or (frame["when"] == cutoff).any()
    expected = encoder.transform(known)
    batch = encoder.transform(frame, cutoff=cutoff)
    place = torch.tensor(known.index.to_numpy())
    expected = replace(expected, row=place[expected.row], merged=place[expected.merged.view(-1)].view(-1, 2))
    assert plain(batch) == plain(expected)
    assert batch.n_input == 61


def test_observed_cells_are_missing_at_the_cutoff():
    frame = events()
    cutoff = frame["when"].max()
    batch = fitted().transform(frame, cutoff=cutoff)
    at = batch.times == pd.Timestamp(cutoff).value
    rows = batch.rows
    assert at.any()
    assert rows.missing[at].tolist() == [[False, True]] * int(at.sum())
    assert (rows.values[at][:, 1] == 0).all()
    assert (rows.times[at] == MISSING_TIME).all()
    assert (rows.lists["tags"].offsets.diff()[at] == 0).all()
    assert rows.lists["tags"].missing[at].all()
    assert (rows.ids[at] != MISSING).any()
    later = SequenceEncoder("who", "when", observed=["place"]).fit(frame).transform(frame, cutoff=cutoff)
    assert (later.rows.ids[at] == MISSING).all()


@pytest.mark.parametrize(
    "cutoff",
    [dt.datetime(2024, 3, 1, 15), np.datetime64("2024-03-01T15"), "zone", dt.date(2024, 3, 2)],
)
def test_cutoffs_of_every_kind(cutoff):
    frame, encoder = events(), fitted()
    moment = pd.Timestamp("2024-03-01 15:00")
    if cutoff == "zone":
        frame["when"] = frame["when"].dt.tz_localize("UTC")
        cutoff, moment = moment.tz_localize("UTC").tz_convert("Asia/Tokyo"), moment.tz_localize("UTC")
        encoder.fit(frame)
    elif isinstance(cutoff, dt.date) and not isinstance(cutoff, dt.datetime):
        moment = pd.Timestamp(cutoff)
    assert plain(encoder.transform(frame, cutoff=cutoff)) == plain(encoder.transform(frame, cutoff=moment))
    assert encoder.transform(frame, cutoff=cutoff).n_rows == (frame["when"] <= moment).sum()


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs"])
def test_cutoffs_of_numpy_in_every_unit(unit):
    moment = np.datetime64(0, "ns").astype(f"datetime64[{unit}]")
    hours = pd.Timestamp(0) + pd.to_timedelta(np.arange(-3, 4), "h")
    frame = pd.DataFrame({"who": 1, "when": hours, "x": np.arange(7.0)})
    encoder = SequenceEncoder("who", "when").fit(frame)
    expected = frame.index[frame["when"] <= pd.Timestamp(moment.astype("datetime64[ns]"))]
    assert encoder.transform(frame, cutoff=moment).row.tolist() == expected.tolist()
    assert len(expected) in (3, 4) or unit == "W"


def test_text_is_no_cutoff_on_a_numeric_clock():
    frame = pd.DataFrame({"who": list("aab"), "when": [2.5, 1.0, 7.0], "x": 1.0})
    with pytest.raises(TypeError, match="must be comparable with it, got text: use a number"):
        SequenceEncoder("who", "when").fit(frame).transform(frame, cutoff="2.5")


def test_a_cutoff_on_a_numeric_clock():
    frame = pd.DataFrame({"who": list("aab"), "when": [2.5, 1.0, 7.0], "x": 1.0})
    encoder = SequenceEncoder("who", "when", unit="D").fit(frame)
    for cutoff in (2.5, np.float32(2.5)):
        assert encoder.transform(frame, cutoff=cutoff).row.tolist() == [1, 0]
    assert encoder.transform(frame, cutoff=2).row.tolist() == [1]


@pytest.mark.parametrize(
    ("cutoff", "error", "text"),
    [
        (
            "2024-03-01",
            TypeError,
            r"got '2024-03-01' .*must be comparable with it, got text: use pd.Timestamp\('2024-03-01'\)",
        ),
        (True, TypeError, "must hold dates, times or numbers, got booleans"),
        (5, TypeError, "got 5 .*must hold times as in the fit, got int64"),
        (pd.Timestamp("2024-03-01", tz="UTC"), ValueError, "must have no time zone as in the fit"),
        (pd.NaT, ValueError, "got NaT .*got no moment"),
        (np.datetime64("3000-01-01"), ValueError, "must lie in the years 1678 to 2261, got 3000-01-01"),
        (np.datetime64(10**15, "Y"), ValueError, "must lie in the years 1678 to 2261, got "),
        (np.datetime64(2**62, "s"), ValueError, "must lie in the years 1678 to 2261, got "),
        (np.datetime64("NaT"), ValueError, "got no moment"),
        (np.datetime64("NaT", "D"), ValueError, "got no moment"),
    ],
)
def test_a_cutoff_that_is_no_moment_on_the_clock(cutoff, error, text):
    with pytest.raises(error, match=f"cutoff must be a moment on the clock of the table, {'.*' + text}"):
        fitted().transform(events(), cutoff=cutoff)


# Ties and long histories


def last_cells(group):
    """Of every column the last cell that is there."""
    cells = {}
    for name in group.columns:
        there = group[name].dropna()
        cells[name] = there.iloc[-1] if len(there) else None
    return pd.Series(cells)


def test_ties_are_merged_column_by_column():
    frame = events(200)
    batch = fitted(ties="merge").transform(frame)
    merged, targets = [], {}
    for (who, when), group in frame.groupby(["who", "when"]):
        merged.append({**last_cells(group), "who": who, "when": when, "at": group.index[-1]})
        targets |= dict.fromkeys(group.index[:-1], group.index[-1])
    merged = pd.DataFrame(merged)
    merged["until"] = pd.to_datetime(merged["until"])
    expected = fitted().transform(merged)
    places = torch.tensor(merged["at"].to_numpy())[expected.row]
    pairs = torch.tensor(sorted(targets.items()))
    assert plain(batch) == plain(replace(expected, row=places, merged=pairs))
    assert len(targets) > 20
    assert batch.n_rows + len(targets) == batch.n_input == 200


def test_ties_are_refused_where_asked():
    frame = pd.DataFrame({"who": list("abaab"), "when": pd.to_datetime([5, 5, 3, 5, 5], unit="s"), "x": 1.0})
    text = (
        "column 'when': must differ between the rows of an entity under ties='error', got 2 rows at the time "
        "of the row before, the first one of a at 1970-01-01 00:00:05"
    )
    with pytest.raises(ValueError, match=text):
        SequenceEncoder("who", "when", ties="error").fit(frame)
    encoder = SequenceEncoder("who", "when", ties="error").fit(frame[:3])
    with pytest.raises(ValueError, match=text):
        encoder.transform(frame)
    assert encoder.transform(frame[:3]).row.tolist() == [2, 0, 1]
    numbers = pd.DataFrame({"who": [7, 7], "when": [0.5, 0.5], "x": 1.0})
    with pytest.raises(
        ValueError, match="got 1 rows at the time of the row before, the first one of 7 at 0.5"
    ):
        SequenceEncoder("who", "when", ties="error").fit(numbers)


@pytest.mark.parametrize("ties", ["stable", "merge", "strict"])
@pytest.mark.parametrize("most", [1, 3, 5])
def test_the_last_rows_of_long_histories(most, ties):
    frame = events()
    whole = fitted(ties=ties).transform(frame)
    cut = whole.lengths - most
    text = f"max_events={most}: {cut[cut > 0].sum()} early rows of {(cut > 0).sum()} entities are left out"
    with pytest.warns(UserWarning, match=text) as caught:
        batch = fitted(ties=ties, max_events=np.int64(most)).transform(frame)
    assert caught[0].filename == __file__
    expected = whole.last(most)
    there = [pair for pair in expected.merged.tolist() if pair[1] in expected.row]
    assert plain(batch) == plain(replace(expected, merged=torch.tensor(there).view(-1, 2)))


def test_short_histories_are_not_cut():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = fitted(max_events=61).transform(events())
    assert plain(batch) == plain(fitted().transform(events()))


# Fits in parts


@pytest.mark.parametrize("bounds", [(0, 61), (0, 1, 61), (0, 20, 20, 45, 61)])
@pytest.mark.parametrize("ties", ["stable", "merge"])
def test_fits_in_parts_are_one_fit(bounds, ties):
    frame = events()
    encoder = SequenceEncoder(
        "who", "when", observed=["paid"], ties=ties, columns=["place", "paid", "until", "tags"]
    )
    states = [encoder.partial(frame[a:b]) for a, b in zip(bounds, bounds[1:], strict=False)]
    merged = states[-1]
    for state in states[:-1]:
        merged = encoder.merge_states(merged, state)
    parts, whole = clone(encoder).finalize(merged), encoder.fit(frame)
    for name in ("n_sequences", "longest", "span", "gaps", "observed"):
        assert getattr(parts.schema_, name) == getattr(whole.schema_, name)
    assert parts.time_axis_ == whole.time_axis_
    assert {n: v.tolist() for n, v in parts.categories_.items()} == {
        n: v.tolist() for n, v in whole.categories_.items()
    }


def test_parts_of_two_kinds():
    encoder, frame = SequenceEncoder("who", "when"), events()
    a = encoder.partial(frame)
    for other, error, text in (
        (frame.assign(who=1), TypeError, "column 'who': must hold values of one type, got text and numbers"),
        (
            frame.assign(when=1),
            TypeError,
            "column 'when': must hold one kind in every part, got times and numbers",
        ),
        (frame[["who", "when"]], ValueError, "parts must have the same columns, got one without any"),
    ):
        with pytest.raises(error, match=text):
            encoder.merge_states(a, encoder.partial(other))


# What is kept and given back


@pytest.mark.parametrize("kind", ["datetime64[ns]", "datetime64[s]", "int64", "float64"])
def test_what_a_part_knows_is_its_own(kind):
    table = {
        "who": np.arange(60) % 7,
        "when": np.random.default_rng(0).permutation(60).astype(kind),
        "x": np.random.default_rng(1).normal(size=60),
        "n": np.arange(60) % 3,
        "until": np.arange(60).astype("datetime64[ns]"),
    }
    encoder = SequenceEncoder("who", "when", {"n": Categorical()})
    expected = clone(encoder).fit(table)
    part = encoder.partial(table)
    for column in table.values():
        column[:] = np.zeros(1, column.dtype)[0]
    assert encoder.finalize(part).schema_ == expected.schema_


def test_warnings_name_the_line_that_called():
    frame, encoder = gaps(events()).assign(empty=None), SequenceEncoder("who", "when", on_missing="drop")

    def by_parts():
        return clone(encoder).set_params(max_events=2).finalize(encoder.partial(frame))

    def more():
        fitted = clone(encoder).set_params(max_events=2).fit(events().assign(empty=1.0))
        batch = fitted.transform(frame)
        return fitted.append(batch, frame)

    for call, least in ((by_parts, 2), (more, 4)):
        with pytest.warns(UserWarning, match="rows of|rows are|no value in the fit") as said:
            call()
        assert len(said) >= least
        lines, start = inspect.getsourcelines(call)
        for warning in said:
            assert warning.filename == __file__
            assert start <= warning.lineno < start + len(lines)


@pytest.mark.filterwarnings("ignore:4 rows", "ignore:max_events")
def test_the_table_is_never_changed():
    frame = gaps(events())
    copy = frame.copy(deep=True)
    encoder = SequenceEncoder("who", "when", observed=["paid"], ties="merge", max_events=2, on_missing="drop")
    encoder.fit(frame).append(encoder.transform(frame, cutoff=frame["when"].median()), frame)
    pd.testing.assert_frame_equal(frame, copy)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"columns": {"size": Categorical(min_frequency=2), "tags": "drop"}, "observed": ["paid"]},
        {"columns": ["place", "paid"], "observed": ["paid"], "max_events": np.int64(2), "ties": "merge"},
        {
            "columns": TableEncoder({"size": Categorical()}, scaler="standard", max_categories=2),
            "ties": "strict",
        },
        {"columns": TableEncoder(min_frequency=0.1)},
    ],
)
@pytest.mark.filterwarnings("ignore:max_events")
def test_a_saved_encoder_gives_the_same_batch(settings, tmp_path):
    frame = events()
    encoder = SequenceEncoder("who", "when", on_missing="drop", **settings).fit(frame)
    encoder.save(tmp_path / "model")
    for again in (
        SequenceEncoder.load(tmp_path / "model"),
        tabembed.load(tmp_path / "model"),
        pickle.loads(pickle.dumps(encoder)),
    ):
        assert type(again) is SequenceEncoder
        assert again.schema_ == encoder.schema_
        assert again.time_axis_ == encoder.time_axis_
        assert list(again.feature_names_in_) == list(encoder.feature_names_in_)
        assert plain(again.transform(frame)) == plain(encoder.transform(frame))
        params = [repr(e.get_params()).replace("np.int64(2)", "2") for e in (again, encoder)]
        assert params[0] == params[1]
        refitted = clone(again).fit(frame)
        assert plain(refitted.transform(frame)) == plain(encoder.transform(frame))


def test_a_fresh_process_gives_the_same_batch(tmp_path):
    frame = events()[["who", "when", "place", "paid"]]
    frame.to_parquet(tmp_path / "t.parquet")
    encoder = SequenceEncoder("who", "when", observed=["paid"]).fit(frame)
    encoder.save(tmp_path / "model")
    code = (
        "import sys, json, tabembed, pyarrow.parquet as pq\n"
        "batch = tabembed.load(sys.argv[1] + '/model').transform(pq.read_table(sys.argv[1] + '/t.parquet'))\n"
        "print(json.dumps([batch.rows.ids.tolist(), batch.row.tolist(), batch.times.tolist()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    batch = encoder.transform(frame)
    assert json.loads(done.stdout) == [batch.rows.ids.tolist(), batch.row.tolist(), batch.times.tolist()]


def test_damage_is_found(tmp_path):
    config, arrays = fitted().to_artifact()
    for broken in (
        {key: value for key, value in config.items() if key != "clock"},
        {**config, "params": {**config["params"], "colour": 1}},
        {**config, "table": {}},
        {**config, "gaps": None},
        {**config, "params": {**config["params"], "ties": "first"}},
        {**config, "params": {**config["params"], "unit": "week"}},
        {**config, "params": {**config["params"], "entity": 3}},
        {**config, "rule": {**config["rule"], "on_missing": "skip"}},
        {**config, "rule": {**config["rule"], "max_events": 0}},
        {**config, "clock": {**config["clock"], "unit": "week"}},
        {**config, "clock": {**config["clock"], "kind": "moons"}},
        {**config, "observed": ["late"]},
    ):
        with pytest.raises(ArtifactError, match=r"the saved encoder is damaged|observed must name columns"):
            SequenceEncoder.from_artifact(broken, arrays)
    with pytest.raises(ArtifactError):
        SequenceEncoder.from_artifact(config, dict(list(arrays.items())[1:]))
    TableEncoder().fit(events()).save(tmp_path / "table")
    with pytest.raises(ArtifactError, match="class must be one of"):
        SequenceEncoder.load(tmp_path / "table")


def test_settings_changed_after_a_fit_change_nothing():
    frame = events()
    encoder = fitted(ties="merge")
    before = plain(encoder.transform(frame)), plain(encoder.transform(frame, cutoff=frame["when"].max()))
    changed = {
        "entity": "place",
        "time": "until",
        "columns": ["size"],
        "observed": [],
        "ties": "error",
        "unit": "D",
    }
    encoder.set_params(**changed, max_events=1, on_missing="drop")
    for again in (encoder, SequenceEncoder.from_artifact(*encoder.to_artifact())):
        after = plain(again.transform(frame)), plain(again.transform(frame, cutoff=frame["when"].max()))
        assert after == before
        assert again.schema_ == fitted(ties="merge").schema_
