from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit

from tabembed.training.crossfit import make_splits, ridge_map

Y = np.array([0, 1] * 10)


def test_an_integer_is_shuffled_and_stratified_for_classes():
    splits = make_splits(5, None, Y, classes=True, seed=0)
    assert all(Y[test].sum() == 2 for _, test in splits)
    assert not all((np.diff(test) == 1).all() for _, test in splits)
    again = make_splits(5, None, Y, classes=True, seed=0)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(splits, again, strict=True))
    other = make_splits(5, None, Y, classes=True, seed=1)
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(splits, other, strict=True))


def test_splitters_and_iterables_are_taken():
    assert len(make_splits(KFold(4), None, Y, classes=False, seed=0)) == 4
    pairs = list(KFold(2).split(Y))
    assert np.array_equal(make_splits(pairs, None, Y, classes=False, seed=0)[0][1], pairs[0][1])


@pytest.mark.parametrize("cv", [ShuffleSplit(5, random_state=0), TimeSeriesSplit(3)])
def test_every_row_must_be_tested_once(cv):
    with pytest.raises(ValueError, match="cv must test every row exactly once, got .* rows never and"):
        make_splits(cv, None, Y, classes=False, seed=0)


def test_one_fold_is_too_few():
    with pytest.raises(ValueError, match="cv must be at least 2, got 1"):
        make_splits(1, None, Y, classes=False, seed=0)


def test_groups_are_named_where_they_are_missing():
    with pytest.raises(ValueError, match="groups"):
        make_splits(GroupKFold(2), None, Y, classes=False, seed=0)


def test_ridge_map_undoes_a_turn_and_a_shift():
    draw = np.random.RandomState(0)
    source = draw.randn(500, 4)
    turn = np.linalg.qr(draw.randn(4, 4))[0]
    move = ridge_map(source[:300], source[:300] @ turn + 2)
    np.testing.assert_allclose(move(source[300:]), source[300:] @ turn + 2, atol=0.02)


def test_ridge_map_bears_constant_vectors():
    move = ridge_map(np.zeros((5, 2)), np.ones((5, 2)))
    assert move(np.zeros((1, 2))).tolist() == [[1.0, 1.0]]
