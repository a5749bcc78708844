from __future__ import annotations

import copy
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline

from tabembed import CategoricalList, TableEmbedder, TableEncoder
from tabembed.training import crossfit
from tabembed.training import vectors as vectors_file

pytestmark = pytest.mark.filterwarnings("ignore:TableEmbedder.transform got the table")
OUTPUTS = ("columns", "row", "both")


@pytest.mark.parametrize("kind", ["continuous", "binary", "multiclass"])
def test_every_kind_of_target(table, embedder, kind):
    X, y = table
    classes = np.array(["a", "b", "c"])[np.digitize(y, [0, 1])]
    target = {"continuous": y, "binary": y > 0, "multiclass": classes}
    vectors = embedder.fit_transform(X, target[kind])
    assert embedder.target_type_ == kind
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(X), len(embedder.get_feature_names_out()))
    assert np.isfinite(vectors).all()


def test_columns_are_vectors_and_scaled_numbers_in_the_order_of_the_table(table, fitted):
    X, _ = table
    vectors, names = fitted.transform(X), fitted.get_feature_names_out().tolist()
    batch = fitted.encoder_.transform(X)
    assert names == ["city_e0", "city_e1", "km", "when", "open_e0", *(f"row_e{i}" for i in range(8))]
    assert np.array_equal(vectors[:, names.index("km")], batch.values[:, 0].numpy())
    city = fitted.embedding_table("city")
    assert np.array_equal(vectors[:, :2], city[["e0", "e1"]].to_numpy()[batch.ids[:, 0]])
    hours = (X["when"] - X["when"].min()) / (X["when"].max() - X["when"].min())
    np.testing.assert_allclose(vectors[:, names.index("when")], 2 * hours - 1, atol=1e-6)


def test_output_needs_no_new_fit(table, fitted):
    embedder = copy.deepcopy(fitted)
    parts = {}
    for output in OUTPUTS:
        embedder.output = output
        parts[output] = embedder.transform(table[0])
        assert len(embedder.get_feature_names_out()) == parts[output].shape[1]
    assert np.array_equal(parts["both"], np.hstack([parts["columns"], parts["row"]]))


def test_fit_transform_is_out_of_fold(table, embedder, monkeypatch):
    X, y = table
    out_of_fold = embedder.fit_transform(X, y)
    assert np.array_equal(embedder.transform(X), embedder.fit(X, y).transform(X))
    learned = ["e" in name.removeprefix("when") for name in embedder.get_feature_names_out()]
    assert not np.allclose(out_of_fold[:, learned], embedder.transform(X)[:, learned], atol=1e-4)
    # The target of a tested row cannot reach its own vectors except through the map to the full fit.
    # Without rows held out the full fit does not choose the number of passes either.
    embedder.cv, embedder.validation_fraction = KFold(2), 0.0
    monkeypatch.setattr(crossfit, "ridge_map", lambda source, goal: lambda x: x)
    before = embedder.fit_transform(X, y)
    changed = y.copy()
    changed[: len(y) // 2] = y[: len(y) // 2][::-1]
    after = embedder.fit_transform(X, changed)
    assert np.array_equal(before[: len(y) // 2], after[: len(y) // 2])
    assert not np.array_equal(before[len(y) // 2 :], after[len(y) // 2 :])


def test_a_splitter_must_test_every_row_once(table, embedder):
    with pytest.raises(ValueError, match="cv must test every row exactly once"):
        embedder.set_params(cv=ShuffleSplit(3, random_state=0)).fit_transform(*table)


def test_transform_of_the_fitted_table_warns(table, embedder):
    X, y = table
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedder.fit_transform(X, y)
        embedder.transform(X[::-1])
    with pytest.warns(UserWarning, match="not out-of-fold"):
        embedder.transform(X)


def test_random_state_alone_decides(table, embedder):
    X, y = table
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = embedder.fit_transform(X, y)
    assert np.array_equal(first, clone(embedder).fit_transform(X, y))
    assert not np.array_equal(first, clone(embedder).set_params(random_state=1).fit_transform(X, y))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])


@pytest.mark.parametrize(
    "copy_of",
    [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))],
    ids=["deepcopy", "pickle"],
)
def test_copies_give_the_same_vectors(table, fitted, copy_of):
    before = torch.get_rng_state()
    other = copy_of(fitted)
    assert torch.equal(before, torch.get_rng_state())
    for output in OUTPUTS:
        fitted_output = copy_of(fitted).set_params(output=output)
        assert np.array_equal(
            other.set_params(output=output).transform(table[0]), fitted_output.transform(table[0])
        )
    weights = [joblib.hash(e.__getstate__()["network_"]) for e in (fitted, copy_of(fitted))]
    assert weights[0] == weights[1]


def test_clone_forgets_the_fit(fitted):
    with pytest.raises(NotFittedError):
        clone(fitted).transform(pd.DataFrame({"city": ["Oslo"]}))


def test_unseen_missing_and_no_rows(table, fitted):
    X = table[0].iloc[:2].copy()
    X["city"] = ["Atlantis", None]
    both = copy.deepcopy(fitted).set_params(output="both")
    assert np.isfinite(both.transform(X)).all()
    assert both.transform(X.iloc[:0]).shape == (0, both.transform(X).shape[1])
    unknown = fitted.embedding_table("city").loc[2, ["e0", "e1"]].to_numpy(dtype=np.float32)
    assert np.array_equal(fitted.transform(X)[0, :2], unknown)


def test_gaps_that_come_later_change_no_feature(embedder):  # H11
    train = pd.DataFrame({"a": [1.0, 2, 3, 4] * 20, "b": [10, np.nan, 30, np.nan] * 20})
    y = train["a"] > 2
    embedder.encoder = TableEncoder(scaler=None)
    frame = embedder.set_output(transform="pandas").fit(train, y).transform(train)
    later = embedder.transform(pd.DataFrame({"a": [np.nan, 2.0], "b": [10.0, 20.0]}))
    assert later.columns.tolist() == frame.columns.tolist() == embedder.get_feature_names_out().tolist()
    assert later[["a", "b"]].to_numpy().tolist() == [[2.5, 10], [2, 20]]
    assert frame["b"][:4].tolist() == [10, 20, 30, 20]


def test_tables_of_every_library(table, fitted):
    X = table[0]
    expected = fitted.transform(X)
    for other in (pl.from_pandas(X), pa.Table.from_pandas(X), {name: X[name] for name in X}):
        assert np.array_equal(fitted.transform(other), expected)


def test_a_dict_of_columns_is_cross_fitted_by_rows(table, embedder):
    X, y = table
    expected = embedder.fit_transform(X, y)
    assert np.array_equal(embedder.fit_transform({name: X[name] for name in X}, y), expected)


def test_set_output(table, fitted):
    embedder = copy.deepcopy(fitted)
    frame = embedder.set_output(transform="pandas").transform(table[0])
    assert frame.columns.tolist() == embedder.get_feature_names_out().tolist()
    assert frame.index.equals(table[0].index)
    assert isinstance(embedder.set_output(transform="polars").transform(table[0]), pl.DataFrame)


def test_names_are_unique(embedder):
    X = pd.DataFrame({"a": ["x", "y"] * 20, "a_e0": range(40), "row_e0": range(40)})
    embedder.set_params(output="both").fit(X, [0, 1] * 20)
    names = embedder.get_feature_names_out().tolist()
    assert names[:3] == ["a_e0_", "a_e0", "row_e0"]
    assert len(set(names)) == len(names)


def test_embedding_table(table, fitted):
    frame = fitted.embedding_table("city")
    assert frame.columns.tolist() == ["category", "count", "kind", "e0", "e1"]
    assert frame["kind"].tolist() == ["padding", "missing", "unknown", "known", "known", "known"]
    counts = table[0]["city"].value_counts()
    assert dict(zip(frame["category"][3:], frame["count"][3:], strict=True)) == counts.to_dict()
    assert frame["count"][1] == table[0]["city"].isna().sum()
    with pytest.raises(ValueError, match="column 'km': has no embedding table"):
        fitted.embedding_table("km")


def test_lists_have_vectors_too(embedder):
    X = pd.DataFrame({"tags": ["a|b", "b", "", "c|a"] * 20, "n": range(80)})
    embedder.encoder = TableEncoder(columns={"tags": CategoricalList(separator="|")})
    y = X["tags"].str.contains("a")
    vectors = embedder.fit_transform(X, y)
    assert vectors.shape[1] == len(embedder.get_feature_names_out())
    assert set(embedder.embedding_table("tags")["category"][3:]) == {"a", "b", "c"}
    assert np.isfinite(vectors).all()


def test_pipeline_memory_does_not_fit_twice(table, embedder, tmp_path):
    X, y = table
    pipeline = make_pipeline(embedder, Ridge(), memory=joblib.Memory(tmp_path, verbose=0))
    first = pipeline.fit(X, y).predict(X)
    modified = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("output.pkl")}
    assert len(modified) == 1
    assert np.array_equal(first, pipeline.fit(X, y).predict(X))
    assert modified == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("output.pkl")}


def test_grid_search_over_the_encoder_with_two_workers(table, embedder):
    X, y = table
    pipeline = make_pipeline(embedder.set_params(encoder=TableEncoder()), Ridge())
    grid = {"tableembedder__encoder__min_frequency": [None, 70]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2, error_score="raise").fit(X, y)
    again = clone(pipeline).set_params(**search.best_params_).fit(X, y)
    assert np.array_equal(again.predict(X), search.predict(X))
    assert len(set(search.cv_results_["mean_test_score"])) == 2


def test_cloning_copying_and_searching_over_the_width(table):  # H27
    X, y = table
    columns, dims = ["city", "km"], {"city": 2}
    embedder = TableEmbedder(TableEncoder(columns), embed_dims=dims, max_iter=2, cv=2, random_state=0)
    vectors = embedder.fit(X, y).transform(X)
    assert (columns, dims) == (["city", "km"], {"city": 2})
    assert np.array_equal(copy.deepcopy(embedder).transform(X), vectors)
    unfitted = clone(embedder)
    with pytest.raises(NotFittedError):
        unfitted.transform(X)
    assert unfitted.encoder.columns == columns
    assert unfitted.embed_dims == dims
    pipeline = make_pipeline(unfitted, Ridge())
    grid = {"tableembedder__embed_dims": [1, 3]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2, error_score="raise").fit(X, y)
    best = clone(pipeline).set_params(**search.best_params_)
    assert cross_val_score(best, X, y, cv=2).mean() == pytest.approx(search.best_score_, abs=1e-6)
    assert len(set(search.cv_results_["mean_test_score"])) == 2


def test_arguments_stay_as_they_were(table, embedder):
    dims = {"city": 3}
    embedder.set_params(embed_dims=dims, hidden_layer_sizes=[8], output="both").fit(*table)
    assert dims == {"city": 3}
    assert embedder.get_params()["embed_dims"] is dims
    assert embedder.transform(table[0]).shape[1] == 3 + 1 + 1 + 1 + 8


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"output": "rows"}, "output must be one of columns, row, both, got 'rows'"),
        ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"target_type": "ranks"}, "target_type must be one of auto, continuous, binary, multiclass, got"),
        ({"cv": 1}, "cv must be at least 2, got 1"),
        ({"dropout": 1.5}, "dropout must"),
        ({"shrinkage": -1.0}, "shrinkage must be finite and at least 0, got -1.0"),
        ({"shrinkage": np.nan}, "shrinkage must be finite and at least 0, got nan"),
        ({"averaging": 1.0}, "averaging must be at least 0 and below 1, got 1.0"),
        (
            {"learning_rate_init": 1e6},
            r"loss must stay finite, got .* in pass 1; learning_rate_init=1e\+06 may be",
        ),
    ],
)
def test_bad_arguments(table, embedder, params, message):
    with pytest.raises(ValueError, match=message):
        embedder.set_params(**params).fit_transform(*table)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(table, embedder):
    with pytest.raises(ValueError, match="device must be one that is there, and there is no GPU, got 'cuda'"):
        embedder.set_params(device="cuda").fit(*table)


@pytest.mark.parametrize("name", ["shrinkage", "averaging"])
def test_arguments_of_another_kind(table, embedder, name):
    with pytest.raises(TypeError, match=f"{name} must be a number, got 'much'"):
        embedder.set_params(**{name: "much"}).fit(*table)


@pytest.mark.parametrize("other", [{"shrinkage": 0.0}, {"averaging": 0.0}])
@pytest.mark.parametrize("target", [True, False])
def test_how_weights_are_shared_and_averaged_matters(table, embedder, other, target):
    X, y = table[0], table[1] if target else None
    default = embedder.set_params(max_iter=1).fit(X, y).transform(X)
    assert not np.allclose(clone(embedder).set_params(**other).fit(X, y).transform(X), default, atol=1e-5)


def test_bad_tables(table, embedder):
    X, y = table
    with pytest.raises(ValueError, match=r"0 sample\(s\)|0 rows"):
        embedder.fit(X.iloc[:0], y[:0])
    with pytest.raises(ValueError, match="column 'city': must be there once"):
        embedder.fit(X[["city", "city"]], y)
    with pytest.raises(ValueError, match="y must have one value for every row of X, got 239 values"):
        embedder.fit(X, y[:-1])
    embedder.fit(X, y)
    with pytest.raises(ValueError, match="now missing:\n- city"):
        embedder.transform(X.drop(columns="city"))
    with pytest.raises(ValueError, match="unseen at fit time:\n- zip"):
        embedder.transform(X.assign(zip="1"))
    with pytest.raises(ValueError, match="features"):
        embedder.transform(np.zeros((2, 3)))


def test_verbose_shows_a_bar(table, embedder, capsys):
    embedder.set_params(verbose=1).fit_transform(*table)
    shown = capsys.readouterr().out
    assert "all rows" in shown
    assert "fold 3 of 3" in shown
    assert "vectors" not in shown  # so few rows are embedded at once


def test_verbose_shows_a_bar_of_vectors_too(table, fitted, capsys, monkeypatch):
    monkeypatch.setattr(vectors_file, "CHUNK", 70)
    embedder = copy.deepcopy(fitted).set_params(verbose=1)
    assert np.array_equal(embedder.transform(table[0]), fitted.transform(table[0]))
    assert "4/4" in capsys.readouterr().out


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_gives_finite_vectors_that_load_on_the_cpu(table, embedder):
    embedder.set_params(device="cuda", output="both").fit(*table)
    assert np.isfinite(embedder.transform(table[0])).all()
    assert pickle.loads(pickle.dumps(embedder)).network_.head.weight.device.type == "cpu"


def test_default_is_a_table_embedder_with_its_documented_arguments():
    names = TableEmbedder().get_params(deep=False)
    assert all(f"        {name}: " in TableEmbedder.__doc__ for name in names)
