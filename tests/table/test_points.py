"""What the schema tells of the values of a column: points, and the rows that each stands for."""

from __future__ import annotations

import numpy as np
import pytest

from tabembed import ArtifactError, TableEncoder


def points_of(x, scaler="none"):
    return TableEncoder(scaler=scaler).fit({"x": np.asarray(x, dtype=np.float64)}).schema_["x"].points


@pytest.mark.parametrize("scaler", ["none", "standard", "squash", "quantile"])
def test_few_values_are_all_there_scaled_as_the_batch_is(scaler):
    x = np.array([3.0, 3.0, 3.0, np.nan, -1.5, 8.0, np.inf, 2.0])
    encoder = TableEncoder(scaler=scaler).fit({"x": x})
    values = encoder.transform({"x": [-1.5, 2.0, 3.0, 8.0]}).values[:, 0]
    assert encoder.schema_["x"].points == tuple(values.tolist())
    assert encoder.schema_["x"].counts == (1, 1, 3, 1)  # the infinite one is no value


def test_one_heavy_value_takes_one_point():
    light = np.random.default_rng(0).exponential(size=5_000)
    column = TableEncoder(scaler="none").fit({"x": np.concatenate([np.zeros(9_000), light])}).schema_["x"]
    assert 990 < len(column.points) <= 1001
    assert column.points[0] == 0
    assert column.counts[0] == 9_000
    assert sum(column.counts) == column.n_values == 14_000
    assert max(column.counts[1:]) <= 7  # the others are spread by rows


def test_beyond_the_cap_a_heavy_value_takes_one_level_and_order_changes_nothing():
    light = np.random.default_rng(1).normal(size=200_000)
    x = np.concatenate([light, np.zeros(600_000)])
    encoder = TableEncoder()
    parts = [encoder.partial({"x": part}) for part in np.array_split(np.sort(x), 5)]
    state = parts[-1]
    for part in parts[-2::-1]:
        state = encoder.merge_states(state, part)
    column = TableEncoder(scaler="none").fit({"x": x}).schema_["x"]
    merged = encoder.finalize(state).schema_["x"]
    scaled = TableEncoder().fit({"x": x}).schema_["x"]
    assert (merged.points, merged.counts) == (scaled.points, scaled.counts)
    assert len(column.points) > 990
    assert sum(column.counts) == len(x)
    ranks = np.searchsorted(np.sort(light), column.points) / len(light)
    # A point is the thousandth part; the heavy bucket moves those behind it by one.
    assert np.abs(ranks - np.linspace(0, 1, len(ranks))).max() < 0.01
    assert (column.points[0], column.points[-1]) == (np.float32(x.min()), np.float32(x.max()))


@pytest.mark.parametrize(("x", "expected"), [([5.0, 5.0], (5.0,)), ([np.nan, np.nan], (0.0,))])
def test_one_value_and_none(x, expected):
    assert points_of(x) == expected


def test_values_that_float32_cannot_tell_apart_are_one():
    assert points_of([1e9, 1e9 + 1, 1e9 + 2e3]) == (1e9, float(np.float32(1e9 + 2e3)))


def test_always_rising_and_finite():
    draw = np.random.default_rng(2)
    for x in (draw.integers(0, 7, 900), draw.normal(size=3000) * 1e300, [-1.7e308, 1.7e308], [0.0, 5e-324]):
        for scaler in ("none", "standard", "squash", "quantile"):
            column = TableEncoder(scaler=scaler).fit({"x": np.asarray(x, dtype=np.float64)}).schema_["x"]
            assert np.isfinite(column.points).all()
            assert (np.diff(column.points) > 0).all()
            assert 1 <= len(column.points) == len(column.counts) <= 1001
            assert sum(column.counts) == column.n_values


def test_saved_and_read_again():
    encoder = TableEncoder().fit({"x": np.random.default_rng(3).normal(size=2000)})
    again = TableEncoder.from_artifact(*encoder.to_artifact())
    assert again.schema_ == encoder.schema_


@pytest.mark.parametrize("damaged", [[], [1.0, 1.0], [2.0, 1.0], [0.0, np.nan], [0.0, np.inf]])
def test_damaged_ones_are_refused(damaged):
    config, arrays = TableEncoder().fit({"x": [1.0, 2.0]}).to_artifact()
    arrays["0.points"] = np.array(damaged)
    with pytest.raises(ArtifactError, match="column 'x': the saved points must be finite and rise, got"):
        TableEncoder.from_artifact(config, arrays)


@pytest.mark.parametrize("damaged", [[], [2], [1, 2], [3, -1], [1, 1, 0]])
def test_damaged_counts_are_refused(damaged):
    config, arrays = TableEncoder().fit({"x": [1.0, 2.0]}).to_artifact()
    arrays["0.counts"] = np.array(damaged, dtype=np.int64)
    with pytest.raises(ArtifactError, match="column 'x': the saved counts must be of its points and rows"):
        TableEncoder.from_artifact(config, arrays)
