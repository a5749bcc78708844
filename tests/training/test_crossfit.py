from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit

from tabembed import LearnedFourierFeatures, TableEncoder
from tabembed.training.crossfit import RIDGE, cross_fit, fit_with_folds, make_splits, ridge_map
from tabembed.training.fourier import FourierNetwork, fourier_vectors
from tabembed.training.loop import Settings, train
from tabembed.training.objective import make_objective

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


def ridge_on_rows(source, goal):
    """The same map by least squares in float64: one more row for the penalty of every entry."""
    source, goal = source.astype(np.float64), goal.astype(np.float64)
    centre, goal_centre = source.mean(0), goal.mean(0)
    width = source.shape[1]
    penalty = RIDGE * ((source - centre) ** 2).sum() / width
    rows = np.vstack([source - centre, np.sqrt(penalty) * np.eye(width)])
    matrix = np.linalg.lstsq(rows, np.vstack([goal - goal_centre, np.zeros((width, width))]))[0]
    return lambda x: (x - centre) @ matrix + goal_centre


def test_every_column_is_mapped_by_itself_as_its_rows_weigh():
    """Vectors of two columns and a number: a category weighs as much as it has rows, the number stays."""
    draw = np.random.RandomState(0)
    ids = np.stack([draw.zipf(1.5, 301).clip(max=6), draw.randint(0, 4, 301)], 1)
    tables = [[draw.randn(7, 3), draw.randn(4, 2)] for _ in range(3)]  # of the full fit and of two folds
    number = draw.randn(301, 1)
    rows = torch.arange(301)
    splits = [(np.arange(150, 301), np.arange(150)), (np.arange(150), np.arange(150, 301))]

    def vectors(tables, units):
        a, b = ids[units.numpy()].T
        return np.hstack([tables[0][a], number[units.numpy()], tables[1][b]]).astype(np.float32)

    parts = [slice(0, 3), slice(4, 6)]
    found = cross_fit(splits, rows, tables[0], lambda fold, _: tables[fold + 1], vectors, parts)
    for fold, (units, tested) in enumerate(splits, 1):
        ours, theirs = (vectors(tables[i], torch.from_numpy(units)) for i in (0, fold))
        expected = vectors(tables[fold], torch.from_numpy(tested))
        for part in parts:
            expected[:, part] = ridge_on_rows(theirs[:, part], ours[:, part])(expected[:, part])
        np.testing.assert_allclose(found[tested], expected, atol=1e-5)
        assert np.array_equal(found[tested, 3], number[tested, 0].astype(np.float32))


def test_ridge_map_bears_constant_vectors():
    move = ridge_map(np.zeros((5, 2)), np.ones((5, 2)))
    assert move(np.zeros((1, 2))).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("aligned", [[], [slice(1, 3)], [slice(0, 1), slice(1, 3)]])
@pytest.mark.parametrize("fraction", [0.0, 0.2])
def test_full_fit_then_folds_step_by_step(fraction, aligned):
    """Every step spelled out: seeds, passes of the folds, and whose coordinates the vectors have."""
    draw = np.random.RandomState(0)
    x = draw.randn(60)
    batch = TableEncoder().fit({"x": x}).transform({"x": x})
    objective, target = make_objective(np.sin(3 * x) + 0.3 * draw.randn(60))
    settings = Settings(max_iter=6, validation_fraction=fraction, learning_rate_init=0.3)
    splits = make_splits(3, None, np.asarray(target), classes=False, seed=7)

    def untrained():
        return FourierNetwork(LearnedFourierFeatures(1, 3, n_frequencies=4, seed=1), 1)

    initial = untrained()
    network, losses, found = fit_with_folds(
        initial,
        batch,
        target,
        objective,
        settings,
        splits=splits,
        seed=7,
        vectors=fourier_vectors,
        aligned=aligned,
    )
    full = untrained()
    assert losses == train(full, batch, target, objective, settings, seed=7)
    for name, weight in full.state_dict().items():
        assert torch.equal(network.state_dict()[name], weight)
        assert torch.equal(initial.state_dict()[name], untrained().state_dict()[name])
    kept = int(np.argmin(losses)) if fraction else 6
    assert not fraction or 0 < kept < 6  # else this would not see the passes
    expected = np.empty((60, 3))
    for number, (rows, tested) in enumerate(splits, 1):
        fold, rows = untrained(), torch.from_numpy(rows)
        train(fold, batch[rows], target[rows], objective, settings, seed=7 + number, n_passes=kept)
        part = fourier_vectors(fold, batch[torch.from_numpy(tested)])
        theirs, ours = (fourier_vectors(net, batch[rows]) for net in (fold, full))
        for entries in aligned:
            part[:, entries] = ridge_map(theirs[:, entries], ours[:, entries])(part[:, entries])
        expected[tested] = part
    np.testing.assert_array_equal(found, expected)
    again = fit_with_folds(
        initial,
        batch,
        target,
        objective,
        settings,
        splits=[],
        seed=7,
        vectors=fourier_vectors,
        aligned=aligned,
    )
    assert again[1:] == (losses, None)
