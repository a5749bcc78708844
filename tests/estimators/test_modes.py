"""What a caller has in force does not reach a fit, and rows do not reach each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

from tabembed import (
    CyclicTransformer,
    GaussianFourierTransformer,
    LearnedFourierTransformer,
    RandomFourierTransformer,
    TableEmbedder,
)
from tabembed.nn import (
    CyclicEmbedding,
    GaussianFourierProjection,
    LearnedFourierFeatures,
    PeriodicEmbedding,
    PiecewiseLinearEmbedding,
    RandomFourierFeatures,
    TimestampEmbedding,
)

X = np.random.RandomState(0).randn(90, 3)
Y = X[:, 0] + X[:, 1] ** 2
ESTIMATORS = [
    RandomFourierTransformer(8, random_state=0),
    GaussianFourierTransformer(3, random_state=0),
    LearnedFourierTransformer(3, n_frequencies=5, max_iter=2, cv=2, random_state=0),
    TableEmbedder(numeric=LearnedFourierFeatures, max_iter=2, output="row", cv=2, random_state=0),
    CyclicTransformer(7.5),
]
FORCED = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "device": lambda: torch.device("meta"),
}


@pytest.mark.filterwarnings("ignore:.*got the (table|rows) of the fit")
@pytest.mark.parametrize("mode", FORCED)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_modes_in_force_change_nothing(estimator, mode):
    fitted = clone(estimator).fit(X, Y)
    expected = clone(estimator).fit_transform(X, Y), fitted.transform(X)
    with FORCED[mode]():
        got = clone(estimator).fit_transform(X, Y), clone(estimator).fit(X, Y).transform(X)
        again = fitted.transform(X)
    for a, b in zip((*got, again), (*expected, expected[1]), strict=True):
        assert np.array_equal(a, b)


NUMERIC = {
    "plr": PeriodicEmbedding,
    "piecewise": PiecewiseLinearEmbedding,
    "random": RandomFourierFeatures,
    "gaussian": GaussianFourierProjection,
    "learned": LearnedFourierFeatures,
}


@pytest.mark.parametrize("numeric", NUMERIC)
def test_a_rows_vector_does_not_depend_on_the_rows_beside_it(numeric, table):
    X, y = table
    for time in (CyclicEmbedding, TimestampEmbedding):
        embedder = TableEmbedder(
            numeric=NUMERIC[numeric], time=time, output="both", max_iter=1, random_state=0
        )
        embedder.fit(X, y)
        together = embedder.transform(X[:50])
        alone = np.concatenate([embedder.transform(X[i : i + 1]) for i in range(50)])
        assert np.array_equal(together, alone)


@pytest.mark.parametrize("factor", [1e160, 1e-160])
@pytest.mark.parametrize("lengthscale", ["median", "scale"])
def test_distances_that_cannot_be_worked_with_are_refused(lengthscale, factor):
    transformer = RandomFourierTransformer(8, lengthscale=lengthscale)
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match="X must have distances between 1e-30 and 1e30, got a lengthscale of"),
    ):
        transformer.fit(X * factor)


@pytest.mark.parametrize("factor", [1e40, 1e-40])
def test_spreads_that_float32_cannot_hold_are_refused(factor):
    with pytest.raises(ValueError, match="X must have standard deviations between 1e-30 and 1e30, got"):
        LearnedFourierTransformer(2).fit(X * factor, Y)
