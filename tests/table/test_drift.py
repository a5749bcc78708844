"""Distances of two tables, against scipy, pandas and shuffled rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from tabembed import Categorical, TableEncoder
from tabembed.table.drift import (
    cells_of,
    kolmogorov_smirnov_by_chance,
    total_variation,
    total_variation_by_chance,
)


def shuffled(a, b, n_draws=4000):
    """Mean total variation of cells that are shuffled between two tables."""
    rng = np.random.default_rng(0)
    cells = np.repeat(np.arange(len(a)), a + b)
    found = []
    for _ in range(n_draws):
        rng.shuffle(cells)
        parts = cells[: a.sum()], cells[a.sum() :]
        counts = [np.bincount(part, minlength=len(a)) / len(part) for part in parts]
        found.append(np.abs(counts[0] - counts[1]).sum() / 2)
    return np.mean(found)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([5, 3, 1, 0], [4, 4, 0, 2]),
        ([70, 20, 10], [7, 2, 0]),
        ([1] * 40, [0] * 20 + [1] * 20),
        ([9], [3]),
        ([1, 0], [0, 1]),
    ],
)
def test_total_variation_by_chance_is_that_of_shuffled_cells(a, b):
    a, b = np.array(a), np.array(b)
    assert total_variation_by_chance(a, b) == pytest.approx(shuffled(a, b), rel=0.05, abs=1e-9)


def test_total_variation_by_chance_of_many_cells():
    a, b = np.array([6 * 10**8, 3 * 10**8, 1]), np.array([10**7, 10**7, 0])
    pooled = (a + b) / (a + b).sum()
    spread = np.sqrt(pooled * (1 - pooled) * (1 / a.sum() + 1 / b.sum()))
    normal = np.sqrt(2 / np.pi) * spread[:2].sum() / 2
    assert total_variation_by_chance(a, b) == pytest.approx(normal, rel=1e-3)


def test_kolmogorov_smirnov_by_chance_is_that_of_samples():
    rng = np.random.default_rng(0)
    found = [stats.ks_2samp(rng.normal(size=400), rng.normal(size=300)).statistic for _ in range(300)]
    assert kolmogorov_smirnov_by_chance(400, 300) == pytest.approx(np.mean(found), rel=0.06)


def numbers(seed, size, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1 + shift, size)


@pytest.mark.parametrize("scaler", ["squash", "standard", "quantile", None])
@pytest.mark.parametrize("n_rows", [7, 997, 9973])
@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_numbers_against_scipy(scaler, n_rows, shift):
    then, now = numbers(0, n_rows), numbers(1, 701, shift)
    encoder = TableEncoder(scaler=scaler).fit(pd.DataFrame({"x": then}))
    row = encoder.report(pd.DataFrame({"x": now})).frame.iloc[0]
    exact = 1e-12 if n_rows < 1000 else 1e-3 + 1 / n_rows
    assert row["distance"] == pytest.approx(stats.ks_2samp(then, now).statistic, abs=exact)
    scaled = [encoder.transform(pd.DataFrame({"x": x})).values[:, 0].double().numpy() for x in (then, now)]
    unit = encoder.schema_["x"].scale if scaler is None else 1.0
    width = np.ptp(scaled[0]) / unit
    # Numbers between two points count at their mean: these are few points where rows are few.
    room = 1e-3 * width if n_rows > 100 else np.diff(np.sort(scaled[0])).max() / unit
    assert row["shift"] == pytest.approx(stats.wasserstein_distance(*scaled) / unit, abs=room)
    assert row["out_of_range"] == ((now < then.min()) | (now > then.max())).mean()


@pytest.mark.parametrize("scaler", ["squash", "standard", "quantile", None])
def test_numbers_that_repeat_are_exact(scaler):
    rng = np.random.default_rng(0)
    then, now = rng.integers(0, 50, 3001).astype(float), rng.binomial(49, 0.4, 499).astype(float)
    encoder = TableEncoder(scaler=scaler).fit(pd.DataFrame({"x": then}))
    row = encoder.report(pd.DataFrame({"x": now})).frame.iloc[0]
    scaled = [encoder.transform(pd.DataFrame({"x": x})).values[:, 0].double().numpy() for x in (then, now)]
    unit = encoder.schema_["x"].scale if scaler is None else 1.0
    assert row["distance"] == pytest.approx(stats.ks_2samp(then, now).statistic, abs=1e-12)
    assert row["shift"] == pytest.approx(stats.wasserstein_distance(*scaled) / unit, abs=1e-9)


def test_a_number_between_two_points_counts_at_its_mean():
    encoder = TableEncoder(scaler="standard").fit(pd.DataFrame({"x": [0.0, 2.0]}))
    row = encoder.report(pd.DataFrame({"x": [0.5, 0.5]})).frame.iloc[0]
    assert row["shift"] == pytest.approx(stats.wasserstein_distance([-1.0, 1.0], [-0.5, -0.5]))
    assert row["distance"] == stats.ks_2samp([0.0, 2.0], [0.5, 0.5]).statistic


def test_infinite_numbers_are_out_of_range():
    encoder = TableEncoder().fit(pd.DataFrame({"x": [0.0, 1.0, 2.0]}))
    row = encoder.report(pd.DataFrame({"x": [np.inf, -np.inf, 1.0, np.nan]})).frame.iloc[0]
    assert (row["out_of_range"], row["missing"]) == (0.5, 0.25)
    assert np.isfinite(row["shift"])


def test_categories_against_pandas():
    rng = np.random.default_rng(0)
    then = pd.Series(rng.choice(list("abcde") + [None], 1003, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05]))
    now = pd.Series(rng.choice(list("abcxy") + [None], 307))
    encoder = TableEncoder().fit(pd.DataFrame({"c": then}))
    row = encoder.report(pd.DataFrame({"c": now})).frame.iloc[0]
    counts = [s.replace({"x": "?", "y": "?"}).value_counts(normalize=True, dropna=False) for s in (then, now)]
    both = pd.concat(counts, axis=1).fillna(0)
    assert row["distance"] == pytest.approx(both.diff(axis=1).iloc[:, -1].abs().sum() / 2)
    assert row["unseen"] == now.isin(["x", "y"]).mean()
    assert row["missing"] == now.isna().mean()
    assert row["missing_fit"] == then.isna().mean()


def test_what_was_rare_in_the_fit_is_told_beside_what_is_unseen():
    encoder = TableEncoder(min_frequency=3).fit(pd.DataFrame({"c": list("aaabbbbcd")}))
    row = encoder.report(pd.DataFrame({"c": list("abcz")})).frame.iloc[0]
    assert (row["unseen"], row["unseen_fit"]) == (0.5, 2 / 9)
    assert row["distance"] == pytest.approx(
        (abs(2 / 4 - 2 / 9) + abs(1 / 4 - 3 / 9) + abs(1 / 4 - 4 / 9)) / 2
    )


def test_lists_count_values_and_missing_cells():
    then, now = pa.array([["a", "b"], None, ["a"]]), pa.array([["a", None], None, ["z"], []])
    encoder = TableEncoder().fit(pa.table({"tags": then}))
    row = encoder.report(pa.table({"tags": now})).frame.iloc[0]
    assert (row["missing"], row["missing_fit"], row["unseen"]) == (2 / 4, 1 / 4, 1 / 4)
    assert row["distance"] == total_variation(np.array([1, 0, 2, 1]), np.array([2, 1, 1, 0]))


def test_parts_add_up():
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"c": rng.choice(list("abz"), 101), "x": rng.normal(size=101)})
    encoder = TableEncoder({"c": Categorical()}).fit(table[:40])
    for name, column in encoder.columns_.items():
        arrays = [pa.array(part[name]) for part in (table, table[:0], table[:33], table[33:])]
        whole, *parts = (cells_of(column, array) for array in arrays)
        merged = parts[2].merge(parts[0]).merge(parts[1])
        assert (merged.type, merged.n_cells, merged.n_missing) == (whole.type, whole.n_cells, whole.n_missing)
        assert np.array_equal(merged.counts, whole.counts)
        if whole.gaps is not None:
            assert merged.gaps == pytest.approx(whole.gaps)
