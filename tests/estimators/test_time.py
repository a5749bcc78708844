"""Datetime columns through TableEmbedder, with every module that reads them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import r2_score

import tabembed
from tabembed import CyclicEmbedding, TableEmbedder, TableEmbedding, TableEncoder, TimestampEmbedding
from tabembed.nn import TimeColumns, TimeEmbedding

pytestmark = pytest.mark.filterwarnings("ignore:TableEmbedder.transform got the table")

TIMES = {
    "TimeEmbedding": TimeEmbedding,
    "TimeEmbedding-wide": partial(TimeEmbedding.from_columns, d_embedding=5),
    "CyclicEmbedding": CyclicEmbedding,
    "CyclicEmbedding-days": partial(CyclicEmbedding.from_columns, periods=("day", 43_200), n_harmonics=2),
    "TimestampEmbedding": TimestampEmbedding,
    "TimestampEmbedding-small": partial(TimestampEmbedding.from_columns, d_embedding=4, n_frequencies=8),
}


@pytest.fixture(scope="module")
def rows():
    """Two columns of times, one with gaps, and a target that follows the hour in New York."""
    draw = np.random.RandomState(0)
    hours = pd.to_timedelta(draw.randint(0, 3 * 8766, 1200), unit="h")
    when = (pd.Timestamp("2021-01-01", tz="UTC") + hours).tz_convert("America/New_York")
    booked = pd.Series(when.tz_localize(None) - pd.to_timedelta(draw.rand(1200), unit="D"))
    X = pd.DataFrame({"km": draw.randn(1200), "when": when, "booked": booked.where(draw.rand(1200) < 0.8)})
    return X, np.sin(2 * np.pi * when.hour.to_numpy() / 24) + 0.1 * draw.randn(1200)


def embedder(time, **params):
    small = {"hidden_layer_sizes": (16, 8), "max_iter": 3, "cv": 2, "random_state": 0}
    return TableEmbedder(time=time, **{**small, **params})


@pytest.mark.parametrize("name", TIMES)
def test_every_module_end_to_end(rows, name, tmp_path):
    X, y = rows
    fitted = embedder(TIMES[name], output="both")
    vectors = fitted.fit_transform(X, y)
    assert vectors.shape == (1200, 3 + 8)
    assert np.isfinite(vectors).all()
    expected = fitted.transform(X)
    module = fitted.network_.embedding.time
    assert isinstance(module, TimeEmbedding if "TimeEmbedding" in name else TimeColumns)
    fitted.save(tmp_path / "model")
    loaded = tabembed.load(tmp_path / "model")
    assert np.array_equal(loaded.transform(X), expected)
    assert np.array_equal(clone(loaded).fit(X, y).transform(X), expected)  # the same maker, the same seeds
    other = embedder(TIMES[name], output="both", random_state=1).fit(X, y)
    ours, theirs = (e.network_.embedding.time.state_dict() for e in (fitted, other))
    assert any(not torch.equal(ours[key], theirs[key]) for key in ours)


def test_columns_of_the_output_are_places_with_any_module(rows):
    X, y = rows
    place = (X["when"] - X["when"].min()) / (X["when"].max() - X["when"].min())
    for time in TIMES.values():
        fitted = embedder(time, max_iter=1, output="columns").fit(X, y)
        names, vectors = fitted.get_feature_names_out().tolist(), fitted.transform(X)
        assert names == ["km", "when", "booked"]
        np.testing.assert_allclose(vectors[:, 1], 2 * place - 1, atol=1e-6)
        assert not vectors[X["booked"].isna(), 2].any()


def test_no_time_is_a_straight_line(rows):
    X, y = rows
    none, line = (embedder(time, output="row").fit(X, y).transform(X) for time in (None, TimeEmbedding))
    assert none.shape == line.shape
    assert isinstance(embedder(None, max_iter=1).fit(X, y).network_.embedding.time, TimeEmbedding)


def test_a_cycle_finds_the_hour_that_a_line_cannot_see(rows):
    X, y = rows
    score = {}
    for time in (None, CyclicEmbedding):
        model = embedder(time, output="row", max_iter=20, cv=3)
        vectors = model.fit_transform(X[["when"]], y)
        slope = np.linalg.lstsq(np.c_[vectors, np.ones(len(y))], y, rcond=None)[0]
        score[time] = r2_score(y, np.c_[vectors, np.ones(len(y))] @ slope)
    assert score[None] < 0.2
    assert score[CyclicEmbedding] > 0.8


def test_a_seed_of_the_maker_wins(rows):
    X, y = rows
    time = partial(TimestampEmbedding.from_columns, d_embedding=3, seed=7)
    one, two = (embedder(time, random_state=seed, max_iter=1).fit(X, y) for seed in (0, 1))
    key = "per_column.columns.0.network.features.frequencies"
    assert torch.equal(*(e.network_.embedding.time.state_dict()[key] for e in (one, two)))


def test_in_a_module_of_ones_own(rows):
    encoder = TableEncoder().fit(rows[0])
    batch = encoder.transform(rows[0])
    net = TableEmbedding(
        encoder.schema_, time=partial(CyclicEmbedding.from_columns, periods="day", seed=0), seed=0
    )
    assert net.embedding_dims() == {"km": 8, "when": 3, "booked": 3}
    vectors = net.by_column(**batch.tensors())
    phase = 2 * np.pi * torch.tensor(rows[0]["when"].dt.hour.to_numpy()).double() / 24
    torch.testing.assert_close(vectors["when"][:, 0].double(), phase.sin(), rtol=0, atol=1e-6)
    torch.testing.assert_close(vectors["when"][:, 1].double(), phase.cos(), rtol=0, atol=1e-6)
    groups = net.param_groups(1e-3, 1e-2)
    missing = net.time.per_column.missing
    assert [g["weight_decay"] for g in groups if any(p is missing for p in g["params"])] == [0.0]
    assert not hasattr(TableEmbedding(TableEncoder().fit(rows[0][["km"]]).schema_).time, "d_embedding")
