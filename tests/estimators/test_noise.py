"""Vectors of training rows must not carry their own target."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from tabembed import TableEmbedder


def scores(seed: int, n_rows: int, n_categories: int, output: str, **params) -> tuple[float, float]:
    """R² of ridge on training rows and on rows held out, where the target is pure noise."""
    draw = np.random.RandomState(seed)
    X = pd.DataFrame({"id": draw.randint(0, n_categories, 2 * n_rows).astype(str)})
    y = draw.randn(2 * n_rows)
    embedder = TableEmbedder(output=output, random_state=seed, **params)
    train = embedder.fit_transform(X[:n_rows], y[:n_rows])
    model = Ridge().fit(train, y[:n_rows])
    return model.score(train, y[:n_rows]), model.score(embedder.transform(X[n_rows:]), y[n_rows:])


# Without early stopping the network learns the noise by heart, so only out-of-fold vectors pass.
EAGER = {"validation_fraction": 0.0, "learning_rate_init": 0.02, "embed_dims": 8, "hidden_layer_sizes": (16,)}


@pytest.mark.parametrize("output", ["columns", "row"])
def test_noise_cannot_be_predicted(output):
    train, held_out = scores(0, 4000, 1000, output, max_iter=6, cv=3, **EAGER)
    assert abs(train) < 0.03
    assert abs(held_out) < 0.03


def test_the_test_would_see_a_leak():
    draw = np.random.RandomState(0)
    X, y = pd.DataFrame({"id": draw.randint(0, 1000, 4000).astype(str)}), draw.randn(4000)
    embedder = TableEmbedder(random_state=0, max_iter=6, **EAGER).fit(X, y)
    with pytest.warns(UserWarning, match="not out-of-fold"):
        naive = embedder.transform(X)
    assert Ridge().fit(naive, y).score(naive, y) > 0.15


@pytest.mark.slow
@pytest.mark.parametrize("output", ["columns", "row"])
@pytest.mark.parametrize("seed", range(5))
def test_noise_of_5000_categories_cannot_be_predicted(seed, output):
    train, held_out = scores(seed, 20_000, 5_000, output, embed_dims=64)
    assert abs(train) < 0.03
    assert abs(held_out) < 0.03
