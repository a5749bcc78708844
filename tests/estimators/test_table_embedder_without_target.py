"""Vectors that are learned from a table alone."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from tabembed import TableEmbedder, load

OUTPUTS = ("columns", "row", "both")


@pytest.fixture(scope="module")
def alone(table):
    return TableEmbedder(hidden_layer_sizes=(16, 8), max_iter=4, random_state=0).fit(table[0])


def test_a_fit_without_a_target(table, alone):
    X = table[0]
    assert alone.target_type_ == "masked_columns"
    assert alone.classes_ is None
    assert alone.validation_losses_[0] == pytest.approx(1)  # a guess
    assert min(alone.validation_losses_) < 0.98
    for output in OUTPUTS:
        vectors = alone.set_params(output=output).transform(X)
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(X), len(alone.get_feature_names_out()))
        assert np.isfinite(vectors).all()
    assert alone.embedding_table("city")["kind"].tolist()[:3] == ["padding", "missing", "unknown"]


@pytest.mark.parametrize("output", OUTPUTS)
def test_fit_transform_is_fit_and_transform(table, alone, output):
    X = table[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vectors = clone(alone).set_params(output=output).fit_transform(X)
        assert np.array_equal(vectors, alone.set_params(output=output).transform(X))


def test_with_a_target_it_warns_again(table, alone):
    embedder = clone(alone).fit(*table)
    with pytest.warns(UserWarning, match="not out-of-fold"):
        embedder.transform(table[0])


def test_saved_and_pickled(table, alone, tmp_path):
    expected = alone.set_params(output="both").transform(table[0])
    alone.save(tmp_path / "model")
    for copy in (load(tmp_path / "model"), pickle.loads(pickle.dumps(alone))):
        assert copy.target_type_ == "masked_columns"
        assert np.array_equal(copy.transform(table[0]), expected)


def test_frames(table, alone):
    embedder = clone(alone).set_output(transform="pandas")
    frame = embedder.fit_transform(table[0])
    assert frame.columns.tolist() == embedder.get_feature_names_out().tolist()
    assert frame.index.equals(table[0].index)
    assert isinstance(embedder.set_output(transform="polars").transform(table[0]), pl.DataFrame)


def test_random_state_alone_decides(table, alone):
    again = [clone(alone).set_params(random_state=seed).fit_transform(table[0]) for seed in (0, 0, 1)]
    assert np.array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[2])


def test_what_other_columns_tell_is_in_the_vectors():
    # Two columns say the same in two languages, a third is noise: values that mean the same lie together.
    draw = np.random.RandomState(0)
    n_rows, n_values = 3000, 12
    town, group = draw.randint(0, n_values, n_rows), np.arange(n_values) % 3
    X = pd.DataFrame({"town": town.astype(str), "group": (10.0 * group[town]), "noise": draw.randn(n_rows)})
    embedder = TableEmbedder(embed_dims=4, random_state=0).fit(X)
    table = embedder.embedding_table("town").iloc[3:]
    vectors, groups = table[["e0", "e1", "e2", "e3"]].to_numpy(), group[table["category"].astype(int)]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = np.argmax(unit @ unit.T - 2 * np.eye(len(unit)), axis=1)
    assert np.array_equal(groups[nearest], groups)
    row = embedder.set_params(output="row").transform(X.drop(columns="group").assign(group=np.nan)[X.columns])
    assert Ridge().fit(row, X["group"]).score(row, X["group"]) > 0.9


@pytest.mark.parametrize(
    ("X", "varying", "predicted"),
    [
        ({"city": ["Rome", "Oslo"] * 20}, 1, 1),
        ({"city": ["Rome"] * 40, "km": [1.0] * 40}, 0, 0),
        ({"city": ["Rome", "Oslo"] * 20, "km": [2.0] * 40}, 1, 1),
        ({"city": ["Rome", None] * 20, "km": [1.0, np.nan] * 20}, 2, 0),
        ({"a": [["x"], ["y"]] * 20, "b": [["x"], ["y"]] * 20}, 2, 0),
    ],
)
def test_nothing_to_reconstruct(X, varying, predicted):
    message = f"to predict it from where y is None, got {varying} that vary, {predicted} of them to predict"
    with pytest.raises(ValueError, match=message):
        TableEmbedder().fit(pd.DataFrame(X))


def test_lists_are_read(alone):
    draw = np.random.RandomState(0).randint(0, 2, 400)
    X = pd.DataFrame(
        {"tags": [["hot"] if d else ["cold"] for d in draw], "month": np.where(draw, "July", "May")}
    )
    embedder = clone(alone).set_params(output="row", learning_rate_init=0.03, max_iter=12).fit(X)
    chance = np.log(2) / np.log(5)  # of two among five ids, the month's
    assert min(embedder.validation_losses_) < 0.99 * chance
    assert np.isfinite(embedder.transform(X)).all()


def test_rows_that_are_new(alone, table):
    X = table[0].iloc[:3].copy()
    X["city"], X["km"], X["when"] = ["Atlantis", None, "Oslo"], [np.nan, 1e9, -1e9], pd.NaT
    embedder = clone(alone).set_params(output="both").fit(table[0])
    vectors = embedder.transform(X)
    assert np.isfinite(vectors).all()
    assert np.array_equal(vectors[1:2], embedder.transform(X.iloc[1:2]))
    assert embedder.transform(X.iloc[:0]).shape == (0, vectors.shape[1])


def test_growing_changes_no_row_and_is_saved(alone, table, tmp_path):
    embedder = clone(alone).set_params(output="row").fit(table[0])
    more = embedder.grow({"city": ["Atlantis"]})
    X = table[0].assign(city="Atlantis")
    assert np.array_equal(more.transform(X), embedder.transform(X))
    more.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").transform(X), embedder.transform(X))


def test_vectors_stand_in_falling_order_and_are_not_correlated(alone, table):
    row = clone(alone).set_params(output="row").fit_transform(table[0]).astype(float)
    covariance = np.cov(row.T)
    assert (np.diff(np.diag(covariance)) <= 1e-9).all()
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-5
    np.testing.assert_allclose(row.mean(0), 0, atol=1e-5)
