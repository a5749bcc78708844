from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tabembed import TableEmbedder


@pytest.fixture(scope="session")
def table():
    """A table with every kind of column and gaps, and a target that depends on it."""
    draw = np.random.RandomState(0)
    n_rows = 240
    X = pd.DataFrame(
        {
            "city": draw.choice(["Oslo", "Rome", "Lima", None], n_rows),
            "km": np.where(draw.rand(n_rows) < 0.1, np.nan, draw.randn(n_rows)),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(draw.randint(0, 1000, n_rows), unit="h"),
            "open": draw.rand(n_rows) < 0.5,
        }
    )
    y = (X["city"] == "Oslo") * 2.0 + X["km"].fillna(0) + 0.1 * draw.randn(n_rows)
    return X, y.to_numpy()


@pytest.fixture
def embedder():
    return TableEmbedder(hidden_layer_sizes=(16, 8), max_iter=4, cv=3, random_state=0)


@pytest.fixture(scope="session")
def fitted(table):
    return TableEmbedder(hidden_layer_sizes=(16, 8), max_iter=4, cv=3, random_state=0).fit(*table)
