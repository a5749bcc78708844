"""What a caller has in force does not reach a fit, and rows do not reach each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
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
    PerColumn,
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


class Foreign(torch.nn.Module):
    """A module of somebody else's, in float32 alone."""

    d_embedding = 2

    def __init__(self, columns):
        super().__init__()
        self.linear = torch.nn.Linear(1, 2)

    def forward(self, x, missing=None):
        x = (x / 1e18 if missing is None else x.masked_fill(missing, 0)).float()
        return self.linear(x.unsqueeze(-1))


@pytest.mark.parametrize("output", ["columns", "row"])
def test_modules_of_ones_own(output, table):
    plain = TableEmbedder(
        numeric=lambda columns: PerColumn([torch.nn.Linear(1, 2) for _ in columns], 2),
        max_iter=1,
        output=output,
        cv=2,
    )
    foreign = TableEmbedder(max_iter=1, output=output, cv=2)
    foreign.set_params(numeric=lambda columns: Foreign(columns), time=lambda columns: Foreign(columns))
    for embedder in (plain, foreign):
        assert np.isfinite(embedder.fit_transform(*table)).all()
        assert all(p.dtype == torch.float32 for p in embedder.network_.parameters())


@pytest.mark.parametrize(
    ("estimator", "y"), [*((estimator, Y) for estimator in ESTIMATORS[2:4]), (ESTIMATORS[3], None)]
)
def test_another_default_dtype_changes_roundings_alone(estimator, y):
    table = pd.DataFrame(X, columns=list("abc"))
    if isinstance(estimator, TableEmbedder):
        table["d"] = np.where(X[:, 2] > 0, "x", np.where(X[:, 1] > 0, "y", "z"))
    expected = clone(estimator).fit_transform(table, y)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        got = clone(estimator).fit_transform(table, y)
    finally:
        torch.set_default_dtype(before)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)
