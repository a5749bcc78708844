"""Fits and transforms of events in parts: what all rows at once would give, however they are ordered."""

from __future__ import annotations

import os
import warnings
from dataclasses import asdict

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_tables import events, plain
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tabembed import SequenceEncoder, TableEncoder
from tabembed.table.encoded import encoded_table

COLUMNS = ["place", "size", "paid", "until", "tags"]


def made(**settings):
    return SequenceEncoder("who", "when", observed=["paid", "until", "tags"], **settings)


def orders(frame):
    """The rows by entity, by time and shuffled: each order is another way that events arrive."""
    return {
        "by entity": frame.sort_values(["who", "when"], kind="stable"),
        "by time": frame.sort_values("when", kind="stable"),
        "shuffled": frame.sample(frac=1, random_state=0),
    }


def cut(frame, size):
    return [frame[i : i + size] for i in range(0, len(frame), size)]


def same(a, b, table):
    """Two fits are one: all that is known of rows and time, and what they make of a table."""
    first, second = asdict(a.schema_), asdict(b.schema_)
    for one, two in zip(first["rows"].pop("columns"), second["rows"].pop("columns"), strict=True):
        for key, value in one.items():
            if key in ("mean", "std", "centre", "scale"):
                np.testing.assert_allclose(two[key], value, rtol=1e-12)
            else:
                assert two[key] == value, (one["name"], key)
    assert first == second
    assert a.time_axis_ == b.time_axis_
    batches = a.transform(table), b.transform(table)
    np.testing.assert_allclose(batches[0].rows.values, batches[1].rows.values, rtol=1e-6)
    for batch in batches:
        batch.rows.values.zero_()
    assert plain(batches[0]) == plain(batches[1])


# Fits


@pytest.mark.parametrize("order", ["by entity", "by time", "shuffled"])
@pytest.mark.parametrize("size", [9, 60])
@pytest.mark.filterwarnings("ignore:column:UserWarning")  # a part may have no value of a column
@pytest.mark.filterwarnings("ignore:max_events")
def test_parts_in_any_order_are_one_fit(order, size):
    frame = events()
    whole = made(max_events=5).fit(frame)
    parts = cut(orders(frame)[order], size)
    encoder = made(max_events=5)
    for part in parts:
        encoder.partial_fit(part)
    same(whole, encoder, frame)


@pytest.mark.filterwarnings("ignore:column:UserWarning")
def test_fits_merge_in_any_order_and_neither_changes():
    frame = events()
    fits = [made().fit(part) for part in cut(frame, 25)]
    before = [fit.schema_ for fit in fits]
    a, b, c = fits
    for merged in (a.merge(b).merge(c), c.merge(a.merge(b)), b.merge(c).merge(a)):
        same(made().fit(frame), merged, frame)
    assert [fit.schema_ for fit in fits] == before
    same(made().fit(frame), a.merge(b).partial_fit(frame[50:]), frame)
    assert a.schema_ == before[0]


@pytest.mark.parametrize("order", ["by entity", "by time", "shuffled"])
def test_files_are_fitted_as_the_table_they_hold(order, tmp_path):
    frame = events()
    rows = orders(frame)[order]
    rows[:20].to_parquet(tmp_path / "a.parquet", row_group_size=6, index=False)
    rows[20:].to_parquet(tmp_path / "b.parquet", index=False)
    same(made().fit(frame), made().fit_parquet(tmp_path, batch_size=9), frame)


def test_a_part_without_entities_or_times_adds_its_count(tmp_path):
    frame = pd.DataFrame({"who": ["a", None, None, "b"], "when": [3.0, np.nan, 2.0, 5.0], "n": [1, 2, 3, 4]})
    encoder = SequenceEncoder("who", "when", on_missing="drop")
    text = "2 rows are left out: column 'who' is missing in 2, column 'when' is missing in 1"
    with pytest.warns(UserWarning, match=text):
        whole = clone(encoder).fit(frame)
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=1)
    with pytest.warns(UserWarning, match=text) as said:
        parts = clone(encoder).fit_parquet(tmp_path, batch_size=1)
    assert len(said) == 1
    assert parts.schema_ == whole.schema_
    with pytest.raises(ValueError, match="column 'who': must not be missing"):
        SequenceEncoder("who", "when").fit_parquet(tmp_path)


def test_bare_events_and_a_row_encoder_of_its_own_go_on():
    frame = events()
    bare = SequenceEncoder("who", "when", columns=[]).fit(frame[:30])
    assert (
        bare.partial_fit(frame[30:]).schema_ == SequenceEncoder("who", "when", columns=[]).fit(frame).schema_
    )
    rows = TableEncoder(["place"], min_frequency=3)
    parts = (
        SequenceEncoder("who", "when", rows)
        .fit(frame[:30])
        .merge(SequenceEncoder("who", "when", clone(rows)).fit(frame[30:]))
    )
    assert parts.schema_ == SequenceEncoder("who", "when", rows).fit(frame).schema_


def test_what_cannot_go_on_says_so(tmp_path):
    frame = events()
    encoder = made().fit(frame)
    encoder.save(tmp_path / "model")
    loaded, grown = SequenceEncoder.load(tmp_path / "model"), encoder.grow({"place": ["Paris"]})
    for other in (loaded, grown):
        with pytest.raises(ValueError, match="SequenceEncoder.partial_fit must continue a fit"):
            other.partial_fit(frame)
        with pytest.raises(ValueError, match="SequenceEncoder.merge must continue a fit"):
            encoder.merge(other)
    with pytest.raises(ValueError, match="SequenceEncoder.merge must be given the same ties"):
        encoder.merge(made(ties="strict").fit(frame))
    with pytest.raises(
        ValueError, match="must be given the same columns, got None and <class .*TableEncoder"
    ):
        encoder.merge(made(columns=TableEncoder()).fit(frame))
    with pytest.raises(
        TypeError, match="SequenceEncoder.merge must be given a SequenceEncoder, got TableEnc"
    ):
        encoder.merge(TableEncoder().fit(frame))
    with pytest.raises(TypeError, match="column 'when': must hold one kind in every part"):
        made().fit(frame).partial_fit(frame.assign(when=1))


# Transforms


def written(encoder, source, out, **settings):
    encoder.transform_parquet(source, out, **settings)
    assert sorted(os.listdir(out.parent)) == sorted(
        {out.name, *(p for p in os.listdir(out.parent) if p == "source")}
    )
    return pq.read_table(out)


def expected(encoder, frame):
    """The same columns by way of ``transform`` of all rows."""
    batch = encoder.transform(frame)
    own = frame[["who", "when"]].iloc[batch.row.numpy()].reset_index(drop=True)
    own["row"], own["elapsed"], own["gap"] = batch.row.numpy(), batch.elapsed.numpy(), batch.gap.numpy()
    return own, encoded_table(batch.rows, encoder.schema_.rows)


@pytest.mark.parametrize("order", ["by entity", "by time", "shuffled"])
@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize(
    "settings", [{}, {"ties": "merge", "max_events": 3}], ids=["plain", "merged and cut"]
)
@pytest.mark.filterwarnings("ignore:max_events")
def test_written_are_the_rows_of_transform(order, size, settings, tmp_path):
    frame = orders(events())[order].reset_index(drop=True)
    (tmp_path / "source").mkdir()
    frame[:20].to_parquet(tmp_path / "source" / "a.parquet", row_group_size=6, index=False)
    frame[20:].to_parquet(tmp_path / "source" / "b.parquet")
    encoder = made(**settings).fit(frame)
    found = written(encoder, tmp_path / "source", tmp_path / "out.parquet", batch_size=size)
    own, cells = expected(encoder, frame)
    pd.testing.assert_frame_equal(found.select(range(5)).to_pandas(), own, check_dtype=False)
    assert found.select(range(5, found.num_columns)).equals(cells)
    assert (
        found.schema.field("when").type
        == pq.read_schema(tmp_path / "source" / "a.parquet").field("when").type
    )


def test_what_is_left_out_is_said_once(tmp_path):
    frame = events().assign(who=lambda f: f["who"].where(f["when"].dt.hour != 13))
    (tmp_path / "source").mkdir()
    frame.to_parquet(tmp_path / "source" / "a.parquet", row_group_size=5)
    with warnings.catch_warnings(record=True, action="always") as first:
        encoder = made(on_missing="drop", max_events=2).fit(frame)
        encoder.transform(frame)
    with warnings.catch_warnings(record=True, action="always") as said:
        found = written(encoder, tmp_path / "source", tmp_path / "out.parquet", batch_size=5)
    assert sorted(str(w.message) for w in said) == sorted({str(w.message) for w in first})
    assert {w.filename for w in said} == {__file__}
    with warnings.catch_warnings(action="ignore"):
        own, _ = expected(encoder, frame)
    assert found["row"].to_pylist() == own["row"].tolist()


@pytest.mark.parametrize(
    ("who", "when"),
    [
        (pa.array([3, -1, 3, 2], pa.int16()), pa.array([3, 1, 2, 5], pa.int32())),
        (pa.array([True, False, True, True]), pa.array([0.5, 1.25, 0.25, 2.0])),
        (pa.array(["b", "a", "b", "c"]).dictionary_encode(), pa.array([4, 3, 2, 1], pa.date32())),
        (
            pa.array([2, 9, 2, 5], pa.timestamp("s", "UTC")),
            pa.array([4, 3, 2, 1], pa.timestamp("us", "Asia/Tokyo")),
        ),
    ],
)
def test_entities_and_times_are_written_as_they_are(who, when, tmp_path):
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "when": when, "who": who})
    (tmp_path / "source").mkdir()
    pq.write_table(table, tmp_path / "source" / "a.parquet", row_group_size=2)
    encoder = SequenceEncoder("who", "when").fit(table)
    found = written(encoder, tmp_path / "source", tmp_path / "out.parquet", batch_size=1)
    row = encoder.transform(table).row.tolist()
    for name, column in (("who", who), ("when", when)):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        stored = (
            pa.timestamp("ms", "UTC") if kind == pa.timestamp("s", "UTC") else kind
        )  # parquet has no seconds
        assert found.schema.field(name).type == stored
        assert found[name].to_pylist() == column.take(pa.array(row)).to_pylist()
    assert found["row"].to_pylist() == row


def test_bare_events_no_rows_and_columns_by_position(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    frame = events()[["who", "when"]]
    encoder = SequenceEncoder("who", "when").fit(frame)
    frame.to_parquet(source / "a.parquet")
    assert (
        written(encoder, source, tmp_path / "out.parquet")["row"].to_pylist()
        == encoder.transform(frame).row.tolist()
    )
    frame[:0].to_parquet(source / "a.parquet")
    assert written(encoder, source, tmp_path / "out.parquet").num_rows == 0
    array = np.array([[2.0, 5.0, 0.5], [1.0, 9.0, 0.1], [2.0, 3.0, 0.7]])
    encoder = SequenceEncoder("x0", "x1").fit(array)
    pd.DataFrame(array, columns=list("abc")).to_parquet(source / "a.parquet")
    found = written(encoder, source, tmp_path / "out.parquet", batch_size=1)
    assert found.column_names == ["x0", "x1", "row", "elapsed", "gap", "x2"]
    assert found["row"].to_pylist() == [1, 2, 0]


def test_an_entity_without_a_time_leaves_its_bucket_empty(tmp_path):
    table = pa.table({"who": ["a", "a", "b", "c"], "when": pa.array([None, None, 1, None], pa.int64())})
    (tmp_path / "source").mkdir()
    pq.write_table(table, tmp_path / "source" / "a.parquet")
    with pytest.warns(UserWarning, match="3 rows are left out"):
        encoder = SequenceEncoder("who", "when", unit="s", on_missing="drop").fit(table)
    with pytest.warns(UserWarning, match="3 rows are left out"):
        found = written(encoder, tmp_path / "source", tmp_path / "out.parquet", batch_size=1)
    assert found["row"].to_pylist() == [2]


def test_an_interrupted_transform_leaves_nothing(tmp_path, monkeypatch):
    frame = events()
    (tmp_path / "source").mkdir()
    frame.to_parquet(tmp_path / "source" / "a.parquet")
    encoder = made().fit(frame)
    (tmp_path / "out.parquet").write_text("of before")
    calls = []

    def stop(self, batch):
        calls.append(batch)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return batch

    monkeypatch.setattr(SequenceEncoder, "_settled", stop)
    with pytest.raises(KeyboardInterrupt):
        encoder.transform_parquet(tmp_path / "source", tmp_path / "out.parquet", batch_size=10)
    assert sorted(os.listdir(tmp_path)) == ["out.parquet", "source"]
    assert (tmp_path / "out.parquet").read_text() == "of before"
    monkeypatch.undo()
    assert written(encoder, tmp_path / "source", tmp_path / "out.parquet").num_rows == 61


def test_what_cannot_be_written_is_refused_at_once(tmp_path):
    frame = events()
    frame.to_parquet(tmp_path / "a.parquet")
    encoder = made().fit(frame)
    with pytest.raises(ValueError, match="out must not be the source"):
        encoder.transform_parquet(tmp_path / "a.parquet", tmp_path / "a.parquet")
    with pytest.raises(FileExistsError, match="out must be a file"):
        encoder.transform_parquet(tmp_path / "a.parquet", tmp_path)
    with pytest.raises(TypeError, match="batch_size must be an integer, got 2.5"):
        encoder.transform_parquet(tmp_path / "a.parquet", tmp_path / "b.parquet", batch_size=2.5)
    with pytest.raises(NotFittedError):
        made().transform_parquet(tmp_path / "a.parquet", tmp_path / "b.parquet")
    frame.drop(columns="tags").to_parquet(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="column 'tags': must be in the table"):
        encoder.transform_parquet(tmp_path / "c.parquet", tmp_path / "b.parquet")
    renamed = frame.rename(columns={"size": "row"})
    renamed.to_parquet(tmp_path / "d.parquet")
    other = SequenceEncoder("who", "when").fit(renamed)
    with pytest.raises(ValueError, match="column 'row': must have another name, as transform_parquet writes"):
        other.transform_parquet(tmp_path / "d.parquet", tmp_path / "b.parquet")
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "c.parquet", "d.parquet"]


def test_buckets_are_few_and_one_entity_has_most_of_the_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("tabembed.sequence.buckets._MOST_BUCKETS", 7)
    rng = np.random.default_rng(0)
    who = np.where(rng.random(300) < 0.5, 4, rng.integers(0, 40, 300))
    frame = pd.DataFrame({"who": who, "when": rng.integers(0, 10**6, 300), "x": rng.normal(size=300)})
    (tmp_path / "source").mkdir()
    frame.to_parquet(tmp_path / "source" / "a.parquet", row_group_size=70)
    encoder = SequenceEncoder("who", "when").fit_parquet(tmp_path / "source", batch_size=50)
    found = written(encoder, tmp_path / "source", tmp_path / "out.parquet", batch_size=1, verbose=True)
    own, cells = expected(encoder, frame)
    pd.testing.assert_frame_equal(found.select(range(5)).to_pandas(), own)
    assert found.select([5]).equals(cells)
    assert 1 < pq.ParquetFile(tmp_path / "out.parquet").num_row_groups <= 7
