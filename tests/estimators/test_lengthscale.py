from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.preprocessing import StandardScaler

from tabembed import RandomFourierTransformer
from tabembed.estimators.lengthscale import all_numbers, median_distance, scale_lengthscale

X = np.random.RandomState(0).normal(size=(60, 5))
MADE = pytest.mark.parametrize("made", [np.asarray, sparse.csr_matrix])


@MADE
@pytest.mark.parametrize(("kernel", "order"), [("rbf", 2), ("matern32", 2), ("laplacian", 1)])
def test_median_distance_by_hand(kernel, order, made):
    rows = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 12.0]])  # 5, 12, sqrt(73); 7, 12, 11
    expected = {2: 73**0.5, 1: 11.0}[order]
    draw = np.random.RandomState(0)
    assert median_distance(made(rows), kernel, draw) == pytest.approx(expected)
    assert median_distance(made(rows.astype(np.float32)), kernel, draw) == pytest.approx(expected)
    assert draw.randint(2**31 - 1) == np.random.RandomState(0).randint(2**31 - 1)  # few rows are all taken


def moments_of(*parts):
    moments = StandardScaler(with_mean=False)
    for part in parts:
        moments.partial_fit(all_numbers(part))
    return moments


@MADE
def test_moments_of_parts_are_those_of_all_rows(made):
    rows = np.where(X > 0, X + 3, 0)
    moments = moments_of(*(made(part) for part in (rows[:1], rows[1:7], rows[7:])))
    assert moments.n_samples_seen_ == rows.size
    assert moments.mean_[0] == pytest.approx(rows.mean(), rel=1e-12)
    assert moments.var_[0] == pytest.approx(rows.var(), rel=1e-12)
    assert scale_lengthscale(moments, 5) == pytest.approx((5 * rows.var() / 2) ** 0.5, rel=1e-12)


@pytest.mark.parametrize("std", [1.0, 1e-9, 1e-3, 0.7, 3.0])
def test_any_spread_counts(std):
    rows = np.array([[-std, std]] * 3)
    assert scale_lengthscale(moments_of(rows), 2) == pytest.approx(std, rel=1e-12)


def test_median_distance():
    pairs = np.array([np.linalg.norm(a - b) for i, a in enumerate(X) for b in X[:i]])
    fitted = RandomFourierTransformer(8, random_state=0).fit(X)
    assert fitted.lengthscale_ == pytest.approx(np.median(pairs), rel=1e-6)
    fitted = RandomFourierTransformer(8, kernel="laplacian", random_state=0).fit(X)
    pairs = manhattan_distances(X)[np.triu_indices(60, 1)]
    assert fitted.lengthscale_ == pytest.approx(np.median(pairs), rel=1e-6)


def test_median_of_many_rows_is_drawn_from_random_state():
    many = np.random.RandomState(1).normal(size=(4000, 2))
    one, same, other = (median_distance(many, "rbf", np.random.RandomState(seed)) for seed in (0, 0, 1))
    assert one == same != other
    assert one == pytest.approx(1.665, rel=0.05)  # sqrt(2) times the median of chi with 2 degrees


@pytest.mark.parametrize(
    ("rows", "expected"), [([[1.0]], 1.0), ([[3.0]] * 5, 1.0), ([[0.0]] * 9 + [[4.0]], 4.0)]
)
@pytest.mark.parametrize("made", [np.array, sparse.csr_matrix])
def test_median_of_equal_rows(rows, expected, made):
    assert RandomFourierTransformer(8).fit(made(rows)).lengthscale_ == expected


def test_scale_is_that_of_scikit_learn():
    theirs = RBFSampler(gamma="scale").fit(X)
    ours = RandomFourierTransformer(8, lengthscale="scale").fit(X)
    assert 0.5 / ours.lengthscale_**2 == pytest.approx(theirs._gamma, rel=1e-6)
    assert RandomFourierTransformer(8, lengthscale="scale").fit(np.ones((4, 2))).lengthscale_ == 1.0


def test_moments_of_numbers_far_from_zero():
    moments = moments_of(*np.array_split(1e8 + X, 7))
    assert moments.var_[0] == pytest.approx(X.var(), rel=1e-6)


@MADE
@pytest.mark.parametrize("value", [0.1, 1e5 + 0.1, 0.0, 7.0])
def test_what_varies_by_rounding_alone_does_not_vary(value, made):
    assert scale_lengthscale(moments_of(made(np.full((1000, 3), value))), 3) == 1
