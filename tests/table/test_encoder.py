"""TableEncoder as a whole: kinds, columns by name, zero rows, and what it leaves alone."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from pandas.testing import assert_frame_equal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError

from tabembed import Categorical, CategoricalList, Continuous, Datetime, TableBatch, TableEncoder

FRAME = pd.DataFrame(
    {
        "age": [30, 41, 52, 41],
        "city": ["Rome", "Oslo", None, "Rome"],
        "income": [1.5, np.nan, 2.5, 9.0],
        "joined": pd.to_datetime(["2024-01-01", "2024-01-02", None, "2024-01-04"]),
        "member": [True, False, True, True],
        "tags": pd.Series([["a"], [], None, ["b", "a"]], dtype=object),
    }
)


def same(a: TableBatch, b: TableBatch) -> bool:
    flat = all(torch.equal(getattr(a, n), getattr(b, n)) for n in ("ids", "values", "missing", "times"))
    return (
        flat
        and a.lists.keys() == b.lists.keys()
        and all(torch.equal(x, y) for n in a.lists for x, y in zip(a.lists[n], b.lists[n], strict=True))
    )


def test_the_dtype_alone_decides_the_kind():
    encoder = TableEncoder()
    assert encoder.fit(FRAME) is encoder
    assert encoder.kinds_ == {
        "age": "continuous",
        "city": "categorical",
        "income": "continuous",
        "joined": "datetime",
        "member": "categorical",
        "tags": "list",
    }
    assert list(encoder.feature_names_in_) == list(FRAME.columns)
    assert encoder.n_features_in_ == 6


def test_a_batch_lies_in_the_order_of_the_table():
    encoder = TableEncoder().fit(FRAME)
    batch = encoder.transform(FRAME)
    assert isinstance(batch, TableBatch)
    schema = encoder.schema_
    assert schema.n_rows == 4
    assert [c.name for c in schema.columns] == list(FRAME.columns)
    assert [c.name for c in schema.categorical] == ["city", "member"]
    assert [c.name for c in schema.continuous] == ["age", "income"]
    assert batch.ids.tolist() == [[3, 3], [4, 4], [1, 3], [3, 3]]
    assert batch.missing.tolist() == [[False, False], [False, True], [False, False], [False, False]]
    assert (batch.ids.dtype, batch.values.dtype, batch.missing.dtype, batch.times.dtype) == (
        torch.int64,
        torch.float32,
        torch.bool,
        torch.int64,
    )
    assert batch.times.shape == (4, 1)
    assert list(batch.lists) == ["tags"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.Series(["a"], dtype=object), "categorical"),
        (pd.Series(["a"], dtype="str"), "categorical"),
        (pd.Categorical([1]), "categorical"),
        (pd.Series(pd.Categorical([1.5])), "categorical"),
        (pa.array([1]).dictionary_encode(), "categorical"),
        (np.array([True]), "categorical"),
        (pd.array([True], dtype="boolean"), "categorical"),
        (np.array([1], np.int8), "continuous"),
        (np.array([1], np.uint64), "continuous"),
        (pd.array([1], dtype="Int64"), "continuous"),
        (np.array([1.5], np.float16), "continuous"),
        (np.array([1.5], np.float32), "continuous"),
        (np.array(["2024-01-01"], "datetime64[s]"), "datetime"),
        (pa.array([dt.date(2024, 1, 1)]), "datetime"),
        (pa.array([["a"]]), "list"),
        (pa.array(["a"], pa.string_view()), "categorical"),
        (pa.array(["a"]).dictionary_encode(), "categorical"),
    ],
    ids=lambda v: v if isinstance(v, str) else str(getattr(v, "dtype", getattr(v, "type", v))),
)
def test_kind_of_a_dtype(values, kind):
    assert TableEncoder().fit({"x": values}).kinds_ == {"x": kind}


def test_a_spec_wins_over_the_dtype():
    encoder = TableEncoder(columns={"age": Categorical(), "city": "drop", "income": Continuous()}).fit(FRAME)
    assert encoder.kinds_["age"] == "categorical"
    assert "city" not in encoder.kinds_
    assert [c.name for c in encoder.schema_.columns] == ["age", "income", "joined", "member", "tags"]
    assert encoder.transform(FRAME).ids.tolist() == [[4, 3], [3, 4], [5, 3], [3, 3]]
    assert same(encoder.transform(FRAME.drop(columns="city")), encoder.transform(FRAME))


def test_a_spec_for_a_column_that_is_not_there():
    with pytest.raises(ValueError, match=r"column 'cty': .*"):
        TableEncoder(columns={"cty": Categorical()}).fit(FRAME)


@pytest.mark.parametrize("spec", ["category", 3, None, Categorical], ids=str)
def test_a_spec_that_is_none(spec):
    with pytest.raises((TypeError, ValueError), match=r"column 'city': .*got"):
        TableEncoder(columns={"city": spec}).fit(FRAME)


def test_reordered_and_extra_columns():  # H26
    encoder = TableEncoder().fit(FRAME)
    expected = encoder.transform(FRAME)
    assert same(encoder.transform(FRAME[list(FRAME.columns)[::-1]]), expected)
    assert same(encoder.transform(FRAME.assign(zip=1)), expected)
    extra = FRAME.copy()
    extra.insert(0, "zip", "x")
    assert same(encoder.transform(extra), expected)


@pytest.mark.parametrize("name", FRAME.columns)
def test_a_missing_column_is_named(name):  # H26
    encoder = TableEncoder().fit(FRAME)
    with pytest.raises(ValueError, match=rf"column '{name}': "):
        encoder.transform(FRAME.drop(columns=name))


def test_arrays_go_by_position():  # H26
    array = np.array([[1.0, 10.0, 5.0], [2.0, 30.0, 5.5], [3.0, 20.0, 7.0]])
    frame = pd.DataFrame(array, columns=["a", "b", "c"])
    by_frame = TableEncoder().fit(frame)
    by_array = TableEncoder().fit(array)
    assert [c.name for c in by_array.schema_.columns] == ["x0", "x1", "x2"]
    assert by_array.n_features_in_ == 3
    assert same(by_array.transform(array), by_frame.transform(frame))
    assert same(by_frame.transform(array), by_frame.transform(frame))
    assert same(by_array.transform(array.tolist()), by_frame.transform(frame))
    assert not same(by_frame.transform(array[:, ::-1]), by_frame.transform(frame))
    for width in (2, 4):
        with pytest.raises(ValueError, match=r"3"):
            by_frame.transform(np.ones((2, width)))


def test_an_array_of_mixed_objects():
    rows = [["a", 1.0], ["b", 2.0], ["a", None]]
    for table in (rows, np.array(rows, dtype=object)):
        encoder = TableEncoder().fit(table)
        assert encoder.kinds_ == {"x0": "categorical", "x1": "continuous"}
        assert encoder.transform(table).ids.tolist() == [[3], [4], [3]]
        assert encoder.transform(table).missing.tolist() == [[False], [False], [True]]


@pytest.mark.parametrize("bad", [np.ones(3), np.ones((2, 2, 2)), [1, 2, 3]], ids=["1-D", "3-D", "flat list"])
def test_an_array_must_have_two_dimensions(bad):
    with pytest.raises(ValueError, match="2"):
        TableEncoder().fit(bad)


@pytest.mark.parametrize("bad", ["table.csv", 3, None, object()], ids=["text", "number", "None", "object"])
def test_what_is_no_table(bad):
    with pytest.raises(TypeError, match="got"):
        TableEncoder().fit(bad)


def test_zero_rows_one_row_and_only_unseen_values():  # H28
    encoder = TableEncoder().fit(FRAME)
    empty = encoder.transform(FRAME.iloc[:0])
    assert empty.shape == (0, 6)
    assert (empty.ids.shape, empty.values.shape, empty.missing.shape, empty.times.shape) == (
        (0, 2),
        (0, 2),
        (0, 2),
        (0, 1),
    )
    assert (empty.ids.dtype, empty.values.dtype, empty.missing.dtype) == (
        torch.int64,
        torch.float32,
        torch.bool,
    )
    assert empty.lists["tags"].offsets.tolist() == [0]
    for i in range(len(FRAME)):
        assert same(encoder.transform(FRAME.iloc[[i]]), encoder.transform(FRAME)[[i]])
    unseen = encoder.transform(FRAME.assign(city="Bonn", tags=[["z"]] * 4))
    assert unseen.ids[:, 0].tolist() == [2] * 4
    assert unseen.lists["tags"].ids.tolist() == [2] * 4
    assert bool(unseen.values.isfinite().all())


@pytest.mark.parametrize(
    "empty",
    [
        FRAME.iloc[:0],
        pl.DataFrame({"a": []}),
        pa.table({"a": pa.array([], pa.int64())}),
        np.ones((0, 2)),
        {"a": []},
    ],
    ids=["pandas", "polars", "arrow", "array", "dict"],
)
def test_fit_on_zero_rows_is_an_error(empty):  # H28
    with pytest.raises(ValueError, match="0 rows"):
        TableEncoder().fit(empty)


@pytest.mark.parametrize("scaler", ["squash", "standard", "quantile", None])
def test_fit_on_one_row_is_finite(scaler):  # H28
    row = FRAME.iloc[[0]]
    encoder = TableEncoder(scaler=scaler).fit(row)
    batch = encoder.transform(row)
    assert batch.ids.tolist() == [[3, 3]]
    assert bool(batch.values.isfinite().all())
    assert bool(encoder.transform(FRAME).values.isfinite().all())


@pytest.mark.parametrize("library", ["pandas", "arrow"])
def test_duplicate_names_are_an_error_at_fit_and_transform(library):  # H29 (i)
    twice = pd.DataFrame([[1, 2, 3]], columns=["x", "y", "x"])
    if library == "arrow":
        twice = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["x", "y", "x"])
    with pytest.raises(ValueError, match=r"column 'x': "):
        TableEncoder().fit(twice)
    encoder = TableEncoder().fit({"x": [1, 2], "y": [1, 2]})
    with pytest.raises(ValueError, match=r"column 'x': "):
        encoder.transform(twice)


def test_integer_labels_of_columns():  # H29 (ii)
    frame = pd.DataFrame({0: pd.to_datetime(["2024-01-01", "2024-01-02"]), 1: [1.0, 2.0]})
    encoder = TableEncoder().fit(frame)
    assert list(encoder.kinds_.values()) == ["datetime", "continuous"]
    assert same(encoder.transform(frame[[1, 0]]), encoder.transform(frame))
    with pytest.raises(ValueError, match=r"column '?0'?: "):
        TableEncoder().fit(pd.DataFrame([["a", 1]], columns=[0, "0"]))


def test_colliding_names_stay_apart():  # H29 (iii)
    frame = pd.DataFrame({"A": ["x_y", "x"], "A_x": ["y", "x_y"]})
    encoder = TableEncoder().fit(frame)
    back = encoder.inverse_transform(encoder.transform(frame))
    assert back.to_dict("list") == frame.to_dict("list")


class Stream:
    """A table that offers the Arrow stream and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_every_form_of_table_gives_the_same_batch():
    plain = FRAME.drop(columns="tags")
    forms = {
        "pandas": plain,
        "polars": pl.from_pandas(plain),
        "arrow": pa.Table.from_pandas(plain),
        "record batch": pa.RecordBatch.from_pandas(plain),
        "reader": pa.Table.from_pandas(plain).to_reader,
        "stream": Stream(pa.Table.from_pandas(plain)),
        "dict": {name: plain[name].to_numpy() for name in plain},
        "dict of lists": {
            name: plain[name].astype(object).where(plain[name].notna(), None).tolist() for name in plain
        },
        "chunks": pa.concat_tables([pa.Table.from_pandas(plain[:1]), pa.Table.from_pandas(plain[1:])]),
    }
    opened = {name: form if name != "reader" else form() for name, form in forms.items()}
    expected = TableEncoder().fit(plain).transform(plain)
    for name, form in opened.items():
        encoder = TableEncoder().fit(form)
        assert encoder.schema_ == TableEncoder().fit(plain).schema_, name
        assert same(encoder.transform(plain), expected), name
    encoder = TableEncoder().fit(plain)
    for name, form in forms.items():
        assert same(encoder.transform(form() if name == "reader" else form), expected), name


def test_duckdb_needs_no_code_of_its_own():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select * from (values (1, 'a'), (2, 'b'), (3, 'a')) t(n, s)")
    batch = TableEncoder().fit(relation).transform(relation)
    assert batch.ids.tolist() == [[3], [4], [3]]


def test_columns_of_unequal_length_are_an_error():
    with pytest.raises(ValueError, match=r"rows.*got"):
        TableEncoder().fit({"a": [1, 2], "b": [1]})


def test_the_row_labels_of_pandas_play_no_part():
    labelled = FRAME.set_axis([7, 7, 2, 2])
    encoder = TableEncoder().fit(labelled)
    assert same(encoder.transform(labelled), TableEncoder().fit(FRAME).transform(FRAME))


@pytest.mark.parametrize("scaler", ["standard", "squash", None])
def test_what_comes_back(scaler):
    frame = FRAME.drop(columns="tags")
    encoder = TableEncoder(scaler=scaler).fit(frame)
    back = encoder.inverse_transform(encoder.transform(frame))
    assert isinstance(back, pd.DataFrame)
    assert list(back.columns) == list(frame.columns)
    assert back["city"].isna().tolist() == [False, False, True, False]
    assert back["city"].dropna().tolist() == ["Rome", "Oslo", "Rome"]
    assert [bool(v) for v in back["member"]] == frame["member"].tolist()
    assert pd.isna(back["income"][1])
    assert back["income"].astype(float).tolist() == pytest.approx(
        frame["income"].tolist(), rel=1e-5, nan_ok=True
    )
    assert back["age"].astype(float).tolist() == pytest.approx(frame["age"].tolist(), rel=1e-5)
    assert [pd.isna(v) or v.value for v in back["joined"]] == [pd.isna(v) or v.value for v in frame["joined"]]


def test_unknown_values_come_back_missing():
    encoder = TableEncoder().fit({"city": ["a", "b"]})
    back = encoder.inverse_transform(encoder.transform({"city": ["b", "zz", None]}))["city"]
    assert back[0] == "b"
    assert back.isna().tolist() == [False, True, True]


def test_standard_numbers_come_back_to_five_digits():
    x = np.random.default_rng(0).normal(loc=3, scale=2, size=500) * 1e6
    encoder = TableEncoder(scaler="standard").fit({"x": x})
    back = encoder.inverse_transform(encoder.transform({"x": x}))["x"].to_numpy(float)
    np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-6 * x.std())


def test_the_users_frame_is_untouched():
    frame = FRAME.copy(deep=True)
    frame.attrs["note"] = "mine"
    before = copy.deepcopy(frame)
    encoder = TableEncoder(columns={"age": Categorical()}, min_frequency=2).fit(frame)
    batch = encoder.transform(frame)
    batch.ids.zero_()
    batch.values.fill_(9)
    batch.times.fill_(9)
    assert_frame_equal(frame, before)
    assert frame.attrs == {"note": "mine"}


def test_the_tensors_share_no_memory_with_the_users_arrays():
    array = np.ones((3, 2), dtype=np.float32)
    stamps = np.array(["2024-01-01"] * 3, "datetime64[ns]")
    encoder = TableEncoder(scaler=None).fit({"a": array[:, 0], "t": stamps})
    batch = encoder.transform({"a": array[:, 0], "t": stamps})
    batch.values.fill_(5)
    batch.times.fill_(5)
    assert array.max() == 1
    assert stamps[0] == np.datetime64("2024-01-01")
    array[:] = 7
    assert float(batch.values.max()) == 5


def test_nothing_global_is_touched():
    def state():
        filters = list(warnings.filters)
        return (
            filters,
            str(np.random.get_state()),
            torch.get_rng_state().tolist(),
            pd.describe_option(_print_desc=False),
        )

    before = state()
    encoder = TableEncoder().fit(FRAME)
    encoder.inverse_transform(encoder.transform(FRAME))
    assert state() == before


def many_rows(n):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "n": rng.normal(size=n),
            "c": rng.choice(["a", "b"], n),
            "t": pd.date_range("2024-01-01", periods=n, freq="s"),
        }
    )


def test_the_rows_of_the_fit_are_not_stored(tmp_path):
    few, many = (TableEncoder().fit(many_rows(n)) for n in (70_000, 280_000))
    # What partial_fit continues from is bounded: 65,536 values of a number, each with its count.
    assert len(pickle.dumps(many)) < 1.05 * len(pickle.dumps(few)) < 1.2e6
    many.save(tmp_path / "model")
    assert sum(file.stat().st_size for file in (tmp_path / "model").iterdir()) < 50_000


def test_the_index_of_a_vocabulary_is_built_once():
    def seconds_per_row(n):
        encoder = TableEncoder().fit({"x": np.array([f"key {i}" for i in range(n)], dtype=object)})
        row = pd.DataFrame({"x": ["key 7"]})
        encoder.transform(row)
        taken = []
        for _ in range(15):
            start = time.perf_counter()
            encoder.transform(row)
            taken.append(time.perf_counter() - start)
        return min(taken)

    assert seconds_per_row(200_000) < 8 * seconds_per_row(10)  # a rebuild takes some 50 times as long


def test_it_is_an_estimator_but_no_transformer():
    columns = {"age": Categorical(min_frequency=2), "joined": Datetime(), "tags": CategoricalList()}
    encoder = TableEncoder(columns, min_frequency=3, max_categories=7, scaler="standard")
    assert isinstance(encoder, BaseEstimator)
    assert not isinstance(encoder, TransformerMixin)
    assert encoder.columns is columns
    twin = clone(encoder.fit(FRAME))
    assert twin.get_params() == encoder.get_params()
    assert encoder.columns is columns
    assert columns == {"age": Categorical(min_frequency=2), "joined": Datetime(), "tags": CategoricalList()}
    with pytest.raises(NotFittedError):
        twin.transform(FRAME)
    assert same(copy.deepcopy(encoder).transform(FRAME), encoder.transform(FRAME))
    assert same(pickle.loads(pickle.dumps(encoder)).transform(FRAME), encoder.transform(FRAME))


@pytest.mark.parametrize("method", ["transform", "inverse_transform", "save", "to_artifact"])
def test_before_the_fit(method, tmp_path):
    argument = {"save": [tmp_path / "m"], "to_artifact": []}.get(method, [FRAME])
    with pytest.raises(NotFittedError):
        getattr(TableEncoder(), method)(*argument)
    assert list(tmp_path.iterdir()) == []


def test_a_second_fit_forgets_the_first():
    encoder = TableEncoder().fit(FRAME).fit({"z": ["b", "a", "b"]})
    assert encoder.kinds_ == {"z": "categorical"}
    assert encoder.n_features_in_ == 1
    assert encoder.transform({"z": ["a", "b", "Rome"]}).ids.tolist() == [[4], [3], [2]]


def test_set_output_of_scikit_learn_does_not_reach_a_batch():
    from sklearn import config_context

    with config_context(transform_output="pandas"):
        assert isinstance(TableEncoder().fit(FRAME).transform(FRAME), TableBatch)


def test_fitting_warns_of_nothing_on_a_clean_table():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder().fit(FRAME).transform(FRAME)


def test_many_rows_at_once_give_what_few_rows_give():
    n = 120_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{i}": rng.choice([f"k{j}" for j in range(50 + i)], n) for i in range(4)})
    frame = frame.assign(
        n=np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        i=rng.integers(0, 1000, n),
        t=pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**9, n), "us"),
    )
    encoder = TableEncoder({"i": Categorical(max_categories=900)}).fit(frame)
    whole = encoder.transform(frame)
    assert encoder.transform(frame[:0]).shape == (0, 7)
    for start in range(0, n, 40_000):
        rows = slice(start, start + 40_000)
        assert same(encoder.transform(frame[rows]), whole[rows])


def test_a_list_of_names_keeps_only_those():
    encoder = TableEncoder(columns=["income", "city"]).fit(FRAME)
    assert encoder.kinds_ == {"city": "categorical", "income": "continuous"}
    assert same(encoder.transform(FRAME[["income", "city"]]), encoder.transform(FRAME))
    with pytest.raises(ValueError, match="column 'zip': "):
        TableEncoder(columns=["zip"]).fit(FRAME)
