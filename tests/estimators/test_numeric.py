"""Every module of numbers, end to end through ``TableEmbedder``."""

from __future__ import annotations

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import tabembed
from tabembed import TableEmbedder
from tabembed import nn as modules

PLUG_INS = {
    "linear": modules.LinearEmbedding,
    "plr": partial(modules.PeriodicEmbedding.from_columns, n_frequencies=8, frequency_scale=0.3),
    "plr-lite": partial(modules.PeriodicEmbedding.from_columns, variant="plr-lite", frequency_scale=0.3),
    "pbld": partial(modules.PeriodicEmbedding.from_columns, variant="pbld", frequency_scale=0.3),
    "quantile-A": partial(modules.PiecewiseLinearEmbedding.from_columns, n_bins=12, version="A"),
    "quantile-B": partial(modules.PiecewiseLinearEmbedding.from_columns, n_bins=12, extrapolation="clip"),
    "tree-A": partial(
        modules.PiecewiseLinearEmbedding.from_columns, d_embedding=8, n_bins=12, bins="tree", version="A"
    ),
    "tree-B": partial(modules.PiecewiseLinearEmbedding.from_columns, n_bins=12, bins="tree"),
    "random-fourier": modules.RandomFourierFeatures,
    "learned-fourier": partial(modules.LearnedFourierFeatures.from_columns, d_embedding=8),
    "gaussian-fourier": partial(modules.GaussianFourierProjection.from_columns, scale=0.3),
}


def rows(n_rows, seed):
    """Columns that break peers, and a target that turns with one of them."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=n_rows)
    X = pd.DataFrame(
        {
            "x": np.where(draw.random(n_rows) < 0.1, np.nan, x),
            "zeros": np.where(draw.random(n_rows) < 0.8, 0.0, draw.exponential(size=n_rows)),
            "constant": 3.0,
            "infinite": np.where(draw.random(n_rows) < 0.05, np.inf, draw.normal(size=n_rows)),
            "empty": np.nan,
        }
    )
    y = np.sin(3 * x) * X["x"].notna() + 2 * X["x"].isna() + 0.1 * draw.normal(size=n_rows)
    return X, y.to_numpy()


def embedder_of(name, **own):
    settings = {"output": "row", "hidden_layer_sizes": (32, 8), "cv": 2, "random_state": 0, "dropout": 0.0}
    return TableEmbedder(numeric=PLUG_INS[name], **{**settings, **own})


pytestmark = pytest.mark.filterwarnings(
    "ignore:column 'empty'", "ignore:column 'constant'", "ignore:TableEmbedder.transform got the table"
)


@pytest.fixture(scope="module")
def table():
    return rows(600, 0)


@pytest.mark.parametrize("name", PLUG_INS)
def test_fits_saves_and_loads(table, name, tmp_path):
    X, y = table
    embedder = embedder_of(name, max_iter=8, learning_rate_init=0.02)
    out_of_fold = embedder.fit_transform(X, y)
    vectors = embedder.transform(X)
    assert out_of_fold.shape == vectors.shape == (600, 8)
    assert np.isfinite(out_of_fold).all()
    assert np.isfinite(vectors).all()
    # It has learned the missing row, if nothing else.
    assert embedder.validation_losses_[-1] < 0.9 * embedder.validation_losses_[0]
    embedder.save(tmp_path / "model")
    loaded = tabembed.load(tmp_path / "model")
    assert np.array_equal(loaded.transform(X), vectors)
    assert np.array_equal(clone(loaded).fit(X, y).transform(X), vectors)
    fresh = rows(50, 1)[0]
    assert np.array_equal(loaded.transform(fresh), embedder.transform(fresh))


def held_out_loss(name):
    X, y = rows(1000, 2)
    settings = {"hidden_layer_sizes": (4,), "max_iter": 12, "learning_rate_init": 0.03}
    return min(embedder_of(name, **settings).fit(X[["x"]], y).validation_losses_)


@pytest.fixture(scope="module")
def loss_of_a_line():
    return held_out_loss("linear")


@pytest.mark.parametrize("name", [name for name in PLUG_INS if name != "linear"])
def test_bends_where_a_line_cannot(name, loss_of_a_line):
    assert held_out_loss(name) < 0.8 * loss_of_a_line


def tree_embedder(**own):
    return embedder_of("tree-B", max_iter=2, **own)


def test_edges_of_every_fold_come_from_its_own_rows(table, monkeypatch):
    X, y = table
    seen = []
    original = modules.PiecewiseLinearEmbedding.adapt

    def adapt(self, values, missing, tree_edges):
        weights = {n: t.clone() for n, t in self.state_dict().items()}
        original(self, values, missing, tree_edges)
        seen.append((len(values), weights, self.edges.clone()))

    monkeypatch.setattr(modules.PiecewiseLinearEmbedding, "adapt", adapt)
    tree_embedder(cv=3, validation_fraction=0.0).fit_transform(X, y)
    assert [n for n, _, _ in seen] == [600, 400, 400, 400]
    first = seen[0][1]
    for _, weights, _ in seen[1:]:  # all folds start where the full fit started
        assert all(torch.equal(weights[name], first[name]) for name in first)
    edges = [edges for _, _, edges in seen]
    assert len({edges.shape for edges in edges}) == 1
    assert all(not torch.equal(a, b) for i, a in enumerate(edges) for b in edges[:i])


def test_a_fold_never_sees_the_target_of_its_tested_rows(table, monkeypatch):
    X, y = table
    found = []
    original = modules.PiecewiseLinearEmbedding.adapt

    def adapt(self, *given):
        original(self, *given)
        found.append(self.edges.clone())

    monkeypatch.setattr(modules.PiecewiseLinearEmbedding, "adapt", adapt)
    first, second = np.arange(300), np.arange(300, 600)
    for target in (y, np.where(np.arange(600) < 300, y[::-1], y)):
        tree_embedder(cv=[(second, first), (first, second)], validation_fraction=0.0).fit_transform(X, target)
    (_, without_first, without_second), (_, again, other) = found[:3], found[3:]
    assert torch.equal(without_first, again)
    assert not torch.equal(without_second, other)


def test_the_state_of_a_tree_embedder_survives_pickle(table):
    X, y = table
    embedder = tree_embedder().fit(X, y)
    again = pickle.loads(pickle.dumps(embedder))
    edges = embedder.network_.embedding.numeric.edges
    assert torch.equal(again.network_.embedding.numeric.edges, edges)
    assert np.array_equal(again.transform(X), embedder.transform(X))
    quantile = embedder_of("quantile-B", max_iter=1).fit(X, y).network_.embedding.numeric.edges
    assert not torch.equal(edges, quantile)


def test_a_module_that_cannot_show_is_said():
    X, y = pd.DataFrame({"a": np.arange(40.0)}), np.arange(40) % 7 * 1.0
    text = "numeric cannot change output='columns' of a table without categories"
    waves = {"numeric": modules.PeriodicEmbedding, "output": "columns"}
    with pytest.warns(UserWarning, match=text) as caught:
        TableEmbedder(**waves, max_iter=1, random_state=0).fit(X, y)
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEmbedder(numeric=modules.PeriodicEmbedding, output="row", max_iter=1, random_state=0).fit(X, y)
        columns = TableEmbedder(output="columns", max_iter=1, random_state=0).fit(X, y)
        columns.set_params(numeric=modules.PeriodicEmbedding).fit(X.assign(b="x"), y)
