"""Fits and transforms batch by batch: the one-pass answer, or a clear error, and never half a file."""

from __future__ import annotations

import os
import pickle
from dataclasses import asdict

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tabembed import Categorical, CategoricalList, Continuous, TableEncoder
from tabembed.schema import ContinuousColumn
from tabembed.table.parts import merge_all

pytestmark = pytest.mark.filterwarnings("ignore:column 'empty':UserWarning")


def assert_same_fit(one, other):
    """Ids, counts and quantiles to the bit; moments, and what is made of them, to twelve digits."""
    for a, b in zip(one.schema_.columns, other.schema_.columns, strict=True):
        if isinstance(a, ContinuousColumn):
            a, b = asdict(a), asdict(b)
            for moment in ("mean", "std", "centre", "scale"):
                assert a.pop(moment) == pytest.approx(b.pop(moment), rel=1e-12)
            np.testing.assert_allclose(a.pop("points"), b.pop("points"), rtol=1e-6)
        assert a == b
    assert one.schema_.n_rows == other.schema_.n_rows
    assert {n: v.tolist() for n, v in one.categories_.items()} == {
        n: v.tolist() for n, v in other.categories_.items()
    }


def table(n=97, seed=0):
    rng = np.random.default_rng(seed)
    cities = rng.choice(["Oslo", "Rome", None, "Lima", ""], n)
    return pa.table(
        {
            "city": pa.array(cities.tolist(), pa.string()),
            "code": pa.array(rng.integers(0, 9, n), mask=rng.random(n) < 0.1),
            "km": pa.array(rng.normal(size=n) * 10, mask=rng.random(n) < 0.2),
            "when": pa.array(rng.integers(0, 2**60, n), pa.int64()).cast(pa.timestamp("ns", "Asia/Tokyo")),
            "tags": pa.array([["x", "y", None][: k % 4] if k % 5 else None for k in range(n)]),
            "empty": pa.nulls(n),
        }
    )


def write(folder, whole, edges, row_group_size=10):
    for i, (a, b) in enumerate(zip([0, *edges], [*edges, len(whole)], strict=True)):
        pq.write_table(whole.slice(a, b - a), folder / f"{i}.parquet", row_group_size=row_group_size)
    return folder


def ours():
    return TableEncoder(scaler="standard", min_frequency=2)


@pytest.mark.parametrize(("edges", "batch_size"), [([], 7), ([1, 40], 1000), ([30, 31, 32, 96], 16)])
def test_files_in_batches_are_the_whole_table(tmp_path, edges, batch_size):
    whole = table()
    fitted = ours().fit_parquet(write(tmp_path, whole, edges), batch_size=batch_size)
    assert_same_fit(fitted, ours().fit(whole))
    assert fitted.feature_names_in_.tolist() == whole.column_names
    some = ours().fit_parquet(tmp_path, columns=["km", "city"], batch_size=batch_size)
    assert_same_fit(some, ours().fit(whole.select(["km", "city"])))
    again = ours().fit_parquet(ds.dataset(whole), batch_size=batch_size)
    assert_same_fit(again, fitted)


def test_files_that_differ_in_types_are_the_whole_table(tmp_path):
    first = pa.table(
        {"n": [1, 2], "c": pa.array(["x", "y"]).dictionary_encode(), "late": pa.nulls(2), "e": pa.nulls(2)}
    )
    second = pa.table({"late": ["q", None], "e": pa.nulls(2), "c": ["y", None], "n": [0.5, None]})
    third = second.set_column(2, "c", pa.array(["z", "y"]).dictionary_encode())
    for name, part in (("a", first), ("b", second), ("c", third)):
        pq.write_table(part, tmp_path / f"{name}.parquet")
    whole = pd.concat([part.to_pandas().astype({"c": object}) for part in (first, second, third)])
    with pytest.warns(UserWarning, match="column 'e'"):
        expected = TableEncoder().fit(whole)
    with pytest.warns(UserWarning, match="column 'e'"):
        fitted = TableEncoder().fit_parquet(tmp_path)
    assert_same_fit(fitted, expected)
    assert fitted.kinds_ == {"n": "continuous", "c": "categorical", "late": "categorical", "e": "categorical"}


def test_a_part_that_is_fitted_more_is_the_whole_table():
    whole = table()
    fitted = ours()
    for begin in range(0, len(whole), 29):
        assert fitted.partial_fit(whole.slice(begin, 29)) is fitted
    assert_same_fit(fitted, ours().fit(whole))
    more = ours().fit(whole.slice(50)).partial_fit(whole.slice(0, 50).to_pandas())
    assert_same_fit(more, fitted)
    assert_same_fit(fitted.fit(whole.slice(3, 5)), ours().fit(whole.slice(3, 5)))  # a fit begins anew


def test_two_encoders_merge_into_a_third():
    whole = table()
    a, b = ours().fit(whole.slice(0, 31)), ours().fit(whole.slice(31).select([5, 3, 0, 1, 2, 4]))
    before = pickle.dumps(a.schema_), pickle.dumps(b.schema_)
    merged = a.merge(b)
    assert_same_fit(merged, ours().fit(whole))
    thrice = pa.concat_tables([whole, whole.slice(0, 31)]).select([5, 3, 0, 1, 2, 4])
    assert_same_fit(b.merge(a).merge(a), ours().fit(thrice))
    assert (pickle.dumps(a.schema_), pickle.dumps(b.schema_)) == before
    assert merged is not a
    assert_same_fit(pickle.loads(pickle.dumps(a)).merge(b), merged)


def test_what_does_not_merge_is_said(tmp_path):
    a = TableEncoder().fit({"x": ["a", "b"], "y": [1, 2]})
    with pytest.raises(ValueError, match="merge must be given the same min_frequency, got None and 2"):
        a.merge(TableEncoder(min_frequency=2).fit({"x": ["a"], "y": [1]}))
    with pytest.raises(ValueError, match="column 'y': must be in both parts, got it in one"):
        a.merge(TableEncoder().fit({"x": ["a"]}))
    with pytest.raises(TypeError, match="column 'y': must be of one kind in every part"):
        a.merge(TableEncoder().fit({"x": ["a"], "y": ["b"]}))
    with pytest.raises(TypeError, match="TableEncoder.merge must be given a TableEncoder, got dict"):
        a.merge({})
    a.save(tmp_path / "model")
    grown = a.grow({"x": ["c"]})
    for other in (TableEncoder.load(tmp_path / "model"), grown):
        with pytest.raises(ValueError, match="TableEncoder.merge must continue a fit, got an enc"):
            a.merge(other)
        with pytest.raises(ValueError, match="TableEncoder.partial_fit must continue a fit, got an encoder"):
            other.partial_fit({"x": ["a"], "y": [1]})
    with pytest.raises(ValueError, match="column 'y': must be in both parts"):
        a.partial_fit({"x": ["a"]})


def test_many_states_are_merged_with_others_of_their_size():
    sizes = []

    def merge(a, b):
        sizes.append((a, b))
        return a + b

    assert merge_all([1] * 1000, merge) == 1000
    assert len(sizes) == 999
    assert sum(a + b for a, b in sizes) < 1000 * 11  # log2(1000) is 10
    assert merge_all("abcdefg", lambda a, b: a + b) == "abcdefg"


def test_an_encoded_file_holds_what_transform_gives(tmp_path):
    whole = table()
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(whole, source, row_group_size=20)
    fitted = ours().fit_parquet(source)
    before = source.read_bytes()
    fitted.transform_parquet(source, out, batch_size=13)
    fitted.transform_parquet(source, out, batch_size=29)  # a file that is there is replaced
    assert source.read_bytes() == before
    got, batch = pq.read_table(out), fitted.transform(whole)
    assert got.schema.names == whole.column_names
    kinds = [pa.int32(), pa.float32(), pa.float32(), pa.timestamp("ns", "Asia/Tokyo")]
    assert got.schema.types == [*kinds, pa.large_list(pa.int32()), pa.int32()]
    categorical = [column.name for column in fitted.schema_.categorical]
    assert [got[name].to_pylist() for name in categorical] == batch.ids.T.tolist()
    for i, name in enumerate(["code", "km"]):
        values, missing = batch.values[:, i].numpy(), batch.missing[:, i].numpy()
        assert np.array_equal(got[name].is_null().to_numpy(), missing)
        assert np.array_equal(got[name].drop_null().to_numpy(), values[~missing])
    assert got["when"].cast(pa.int64()).to_pylist() == batch.times[:, 0].tolist()
    ragged = batch.lists["tags"]
    cells = [ragged.ids[a:b].tolist() for a, b in zip(ragged.offsets[:-1], ragged.offsets[1:], strict=True)]
    expected = [None if gone else cell for cell, gone in zip(cells, ragged.missing.tolist(), strict=True)]
    assert got["tags"].to_pylist() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_a_folder_becomes_a_folder_of_the_same_parts(tmp_path):
    whole = table()
    source, out = tmp_path / "in", tmp_path / "out"
    for year, begin in ((2012, 0), (2013, 50)):
        (source / f"year={year}").mkdir(parents=True)
        write(source / f"year={year}", whole.slice(begin, 40), [15, 15])
    fitted = ours().fit_parquet(source)
    fitted.transform_parquet(source, out, batch_size=9)
    parts = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.parquet"))
    assert parts == [f"year-{year}/{i}.parquet" for year in (2012, 2013) for i in range(3)]
    assert [pq.read_metadata(out / part).num_rows for part in parts] == [15, 0, 25, 15, 0, 25]
    rows = fitted.transform(ds.dataset(source, partitioning="hive").to_table())
    got = ds.dataset(out).to_table()
    assert got["city"].to_pylist() == rows.ids[:, 0].tolist()
    assert got["year"].null_count == 0


def test_one_table_of_several_files_is_one_file(tmp_path):
    whole = table()
    write(tmp_path, whole, [50])
    fitted, out = ours().fit(whole), tmp_path / "out.parquet"
    turned = pa.concat_tables([whole.slice(50), whole.slice(0, 50)])
    for source in ([tmp_path / "1.parquet", tmp_path / "0.parquet"], ds.dataset(turned)):
        fitted.transform_parquet(source, out)
        assert pq.read_table(out)["city"].to_pylist() == [
            *fitted.transform(whole.slice(50)).ids[:, 0].tolist(),
            *fitted.transform(whole.slice(0, 50)).ids[:, 0].tolist(),
        ]


@pytest.mark.parametrize("is_folder", [False, True])
def test_interrupted_it_leaves_nothing_and_starts_clean(tmp_path, monkeypatch, is_folder):
    whole = table()
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source, whole, [50])
    fitted, transform, calls = ours().fit(whole), TableEncoder.transform, []
    given = source if is_folder else source / "0.parquet"

    def interrupted(self, X):
        calls.append(len(X))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return transform(self, X)

    monkeypatch.setattr(TableEncoder, "transform", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted.transform_parquet(given, out, batch_size=10)
    assert os.listdir(tmp_path) == ["in"]
    fitted.transform_parquet(given, out, batch_size=10)
    assert len(ds.dataset(out).to_table()) == (97 if is_folder else 50)
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_where_it_may_not_write_is_said(tmp_path):
    whole = table()
    source = tmp_path / "in"
    source.mkdir()
    write(source, whole, [50])
    fitted, file = ours().fit(whole), source / "0.parquet"
    kept = {path: path.read_bytes() for path in source.iterdir()}
    (tmp_path / "link.parquet").symlink_to(file)
    link = tmp_path / "link.parquet"
    for given, out in ((source, source), (source, source / "out"), (file, file), (file, link)):
        with pytest.raises(ValueError, match="out must not be the source or lie in it, got '.*"):
            fitted.transform_parquet(given, out)
    with pytest.raises(ValueError, match="out must not be the source or lie in it"):
        fitted.transform_parquet(ds.dataset(source), file)
    with pytest.raises(FileNotFoundError, match="out must lie in a folder that is there, got '.*out'"):
        fitted.transform_parquet(source, tmp_path / "nowhere" / "out")
    with pytest.raises(FileExistsError, match="out must be a file, as the source is one table"):
        fitted.transform_parquet(file, source)
    (tmp_path / "other").mkdir()
    pq.write_table(whole, tmp_path / "other" / "a.parquet")
    with pytest.raises(FileExistsError, match="out must be a folder that is empty or not there yet"):
        fitted.transform_parquet(tmp_path / "other", source)
    pq.write_table(whole.drop(["km"]), tmp_path / "other" / "a.parquet")
    with pytest.raises(ValueError, match="column 'km': must be in the table, which has"):
        fitted.transform_parquet(tmp_path / "other", tmp_path / "out")
    assert {path: path.read_bytes() for path in source.iterdir()} == kept
    assert sorted(os.listdir(tmp_path)) == ["in", "link.parquet", "other"]


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (2.5, TypeError), (True, TypeError)])
def test_batch_size_is_checked(tmp_path, size, error):
    with pytest.raises(error, match=f"batch_size must be .* got {size}"):
        TableEncoder().fit_parquet(tmp_path, batch_size=size)


def test_batch_size_may_be_a_number_of_numpy(tmp_path):
    pq.write_table(pa.table({"x": ["a", "b", "b"]}), tmp_path / "a.parquet")
    assert TableEncoder().fit_parquet(tmp_path, batch_size=np.int64(2)).schema_.n_rows == 3


def test_two_files_never_become_one(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    for folder in ("a=1", "a-1"):
        (source / folder).mkdir(parents=True)
        pq.write_table(pa.table({"x": ["a", "b", "b"]}), source / folder / "0.parquet")
    encoder = TableEncoder().fit_parquet(source, columns=["x"])
    with pytest.raises(ValueError, match="source must have one file for each name in out, got two for '0.p"):
        encoder.transform_parquet(source, out)
    assert os.listdir(tmp_path) == ["in"]


def test_files_without_rows_are_no_fit(tmp_path):
    pq.write_table(table(0), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="0 rows"):
        TableEncoder().fit_parquet(tmp_path)


def test_bars_are_shown_where_they_are_wanted(tmp_path, capsys):
    pq.write_table(table(), tmp_path / "a.parquet")
    fitted = TableEncoder().fit_parquet(tmp_path)
    fitted.transform_parquet(tmp_path / "a.parquet", tmp_path / "out.parquet")
    assert capsys.readouterr().out == ""
    fitted.fit_parquet(tmp_path / "a.parquet", verbose=True)
    assert "97/97" in capsys.readouterr().out
    fitted.transform_parquet(tmp_path / "a.parquet", tmp_path / "out.parquet", verbose=True)
    assert "transform" in capsys.readouterr().out


def test_what_a_fit_keeps_is_held_once():
    fitted = TableEncoder({"c": Categorical(), "t": CategoricalList(), "n": Continuous()}).fit(
        {"c": [f"k{i}" for i in range(100)], "t": [["a"]] * 100, "n": np.arange(100.0)}
    )
    values, kept = fitted.columns_["c"].vocabulary.values, fitted._state.columns["c"].state.distinct.values
    assert [a.address for a in values.buffers()[1:]] == [b.address for b in kept.buffers()[1:]]


def test_columns_that_are_kept_go_along(tmp_path):
    table = pa.table(
        {"late": [True, None, False], "city": ["a", "b", "a"], "key": ["x", "y", "z"], "km": [1.0, 2.0, None]}
    )
    for i in range(2):
        pq.write_table(table.slice(i, 2), tmp_path / f"{i}.parquet")
    files = [tmp_path / f"{i}.parquet" for i in range(2)]
    encoder = TableEncoder({"late": "drop", "key": "drop"}).fit(table)
    encoder.transform_parquet(files, tmp_path / "out.parquet", keep=["key", "late"], batch_size=1)
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column_names == ["city", "km", "key", "late"]
    assert written["key"].to_pylist() == ["x", "y", "y", "z"]
    assert written["late"].to_pylist() == [True, None, None, False]
    assert written["city"].to_pylist() == encoder.transform(table).ids[[0, 1, 1, 2], 0].tolist()


@pytest.mark.parametrize(
    ("keep", "error", "message"),
    [
        (["city"], ValueError, "keep must name columns that are not encoded, got 'city'"),
        ("late", TypeError, "keep must be a sequence of names of columns, got 'late'"),
        (["no"], ValueError, "column 'no': must be in the table"),
    ],
)
def test_columns_that_cannot_be_kept(tmp_path, keep, error, message):
    table = pa.table({"city": ["a", "b"], "late": [True, False]})
    pq.write_table(table, tmp_path / "a.parquet")
    encoder = TableEncoder({"late": "drop"}).fit(table)
    with pytest.raises(error, match=message):
        encoder.transform_parquet(tmp_path / "a.parquet", tmp_path / "out.parquet", keep=keep)
    nameless = TableEncoder().fit(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"keep must be empty where the fit had no names, got \['late'\]"):
        nameless.transform_parquet(tmp_path / "a.parquet", tmp_path / "out.parquet", keep=["late"])
    assert not (tmp_path / "out.parquet").exists()
