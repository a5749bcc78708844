from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import manhattan_distances

from tabembed import RandomFourierTransformer
from tabembed.estimators.lengthscale import Moments, median_distance

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


@MADE
def test_moments_of_parts_are_those_of_all_rows(made):
    rows = np.where(X > 0, X + 3, 0)
    moments = Moments()
    for part in (rows[:1], rows[1:7], rows[7:]):
        moments = moments.add(made(part))
    assert moments.count == rows.size
    assert moments.mean == pytest.approx(rows.mean(), rel=1e-12)
    assert moments.squares / moments.count == pytest.approx(rows.var(), rel=1e-12)
    assert moments.lengthscale(5) == pytest.approx((5 * rows.var() / 2) ** 0.5, rel=1e-12)


def test_moments_are_not_changed_by_rows_that_are_added():
    empty = Moments()
    empty.add(X)
    assert empty == Moments(0, 0.0, 0.0)
    assert Moments().add(np.full((3, 2), 7.0)).lengthscale(2) == 1.0


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
    rows = 1e8 + X
    moments = Moments()
    for part in np.array_split(rows, 7):
        moments = moments.add(part)
    assert moments.squares / moments.count == pytest.approx(X.var(), rel=1e-6)


@pytest.mark.parametrize("value", [0.1, 1e5 + 0.1, 0.0])
def test_what_varies_by_rounding_alone_does_not_vary(value):
    assert Moments().add(np.full((1000, 3), value)).lengthscale(3) == 1
