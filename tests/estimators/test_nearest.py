from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from tabembed.estimators.nearest import nearest_rows


@pytest.fixture
def table():
    vectors = np.random.default_rng(0).normal(size=(13, 5)).round(1)
    vectors[0], vectors[9], vectors[11] = 0, 0, vectors[6]  # padding, a vector of zeros, a twin
    kinds = ["padding", "missing", "unknown"] + ["known"] * 10
    names = [None] * 3 + [f"c{i}" for i in range(10)]
    table = pd.DataFrame({"category": names, "count": np.arange(13) * 3, "kind": kinds})
    return pd.concat([table, pd.DataFrame(vectors, columns=[f"e{i}" for i in range(5)])], axis=1)


def slow(table, row, metric):
    """Pairs (how close, number of the row) by a loop over plain numbers."""
    vectors, found = table[[f"e{i}" for i in range(5)]].to_numpy().tolist(), []
    for other, vector in enumerate(vectors):
        if other in (0, row):
            continue
        if metric == "euclidean":
            found.append((math.dist(vector, vectors[row]), other))
            continue
        dot = sum(a * b for a, b in zip(vector, vectors[row], strict=True))
        length = math.hypot(*vector) * math.hypot(*vectors[row])
        found.append((-dot / length if length else 0.0, other))
    return sorted((round(close, 12), other) for close, other in found)


@pytest.mark.parametrize(
    ("metric", "name", "sign"), [("cosine", "similarity", -1), ("euclidean", "distance", 1)]
)
@pytest.mark.parametrize("row", [1, 2, 6, 9, 12])
def test_the_closest_are_those_of_a_loop(table, metric, name, sign, row):
    expected = slow(table, row, metric)
    found = nearest_rows(table, row, k=20, metric=metric)
    assert found.columns.tolist() == ["category", name, "count", "kind"]
    assert found["count"].tolist() == [3 * other for _, other in expected]
    np.testing.assert_allclose(found[name] * sign, [close for close, _ in expected], atol=1e-12)
    some = nearest_rows(table, row, k=4, metric=metric)
    pd.testing.assert_frame_equal(some, found[:4])


def test_a_twin_is_closest_and_padding_is_no_row(table):
    assert nearest_rows(table, 6, k=1)["category"].tolist() == ["c8"]
    assert "padding" not in set(nearest_rows(table, 6, k=99)["kind"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"metric": "dot"}, "metric must be one of cosine, euclidean, got 'dot'"),
    ],
)
def test_settings_are_checked(table, settings, message):
    with pytest.raises(ValueError, match=message):
        nearest_rows(table, 3, **settings)
