"""What the schema tells of the distinct values of a column."""

from __future__ import annotations

import numpy as np
import pytest

from tabembed import ArtifactError, TableEncoder


def spread(x, scaler="none"):
    return TableEncoder(scaler=scaler).fit({"x": np.asarray(x, dtype=np.float64)}).schema_["x"].distinct


@pytest.mark.parametrize("scaler", ["none", "standard", "squash", "quantile"])
def test_few_values_are_all_there_scaled_as_the_batch_is(scaler):
    x = np.array([3.0, 3.0, 3.0, np.nan, -1.5, 8.0, np.inf, 2.0])
    encoder = TableEncoder(scaler=scaler).fit({"x": x})
    values = encoder.transform({"x": [-1.5, 2.0, 3.0, 8.0]}).values[:, 0]
    assert encoder.schema_["x"].distinct == tuple(values.tolist())


def test_one_heavy_value_takes_one_level():
    x = np.concatenate([np.zeros(9_000), np.random.default_rng(0).exponential(size=5_000)])
    levels = np.linspace(0, 1, 1001)
    assert spread(x) == pytest.approx(np.quantile(np.unique(x), levels), rel=1e-6)
    assert spread(x) == pytest.approx(spread(np.unique(x)), rel=1e-12)


def test_beyond_the_cap_a_heavy_value_takes_one_level_and_order_changes_nothing():
    light = np.random.default_rng(1).normal(size=200_000)
    x = np.concatenate([light, np.zeros(600_000)])
    encoder = TableEncoder()
    parts = [encoder.partial({"x": part}) for part in np.array_split(np.sort(x), 5)]
    state = parts[-1]
    for part in parts[-2::-1]:
        state = encoder.merge(state, part)
    distinct = TableEncoder(scaler="none").fit({"x": x}).schema_["x"].distinct
    merged = encoder.finalize(state).schema_["x"]
    scaled = TableEncoder().fit({"x": x}).schema_["x"]
    assert merged.distinct == scaled.distinct
    assert len(distinct) > 990
    ranks = np.searchsorted(np.sort(light), distinct) / len(light)
    # A level is the thousandth part; the heavy bucket moves those behind it by one.
    assert np.abs(ranks - np.linspace(0, 1, len(ranks))).max() < 0.01
    assert (distinct[0], distinct[-1]) == (np.float32(x.min()), np.float32(x.max()))


@pytest.mark.parametrize(("x", "expected"), [([5.0, 5.0], (5.0,)), ([np.nan, np.nan], (0.0,))])
def test_one_value_and_none(x, expected):
    assert spread(x) == expected


def test_values_that_float32_cannot_tell_apart_are_one():
    assert spread([1e9, 1e9 + 1, 1e9 + 2e3]) == (1e9, float(np.float32(1e9 + 2e3)))


def test_always_rising_and_finite():
    draw = np.random.default_rng(2)
    for x in (draw.integers(0, 7, 900), draw.normal(size=3000) * 1e300, [-1.7e308, 1.7e308], [0.0, 5e-324]):
        for scaler in ("none", "standard", "squash", "quantile"):
            distinct = np.array(spread(x, scaler))
            assert np.isfinite(distinct).all()
            assert len(distinct)
            assert (np.diff(distinct) > 0).all()
            assert len(distinct) <= 1001


def test_saved_and_read_again():
    encoder = TableEncoder().fit({"x": np.random.default_rng(3).normal(size=2000)})
    again = TableEncoder.from_artifact(*encoder.to_artifact())
    assert again.schema_ == encoder.schema_


@pytest.mark.parametrize("damaged", [[], [1.0, 1.0], [2.0, 1.0], [0.0, np.nan], [0.0, np.inf]])
def test_damaged_ones_are_refused(damaged):
    config, arrays = TableEncoder().fit({"x": [1.0, 2.0]}).to_artifact()
    arrays["0.distinct"] = np.array(damaged)
    with pytest.raises(
        ArtifactError, match="column 'x': the saved distinct values must be finite and rise, got"
    ):
        TableEncoder.from_artifact(config, arrays)
