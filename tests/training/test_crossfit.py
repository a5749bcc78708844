from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit

from tabembed import LearnedFourierFeatures, TableEncoder
from tabembed.training.crossfit import fit_with_folds, make_splits, ridge_map
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


def test_ridge_map_bears_constant_vectors():
    move = ridge_map(np.zeros((5, 2)), np.ones((5, 2)))
    assert move(np.zeros((1, 2))).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("n_aligned", [0, 2])
@pytest.mark.parametrize("fraction", [0.0, 0.2])
def test_full_fit_then_folds_step_by_step(fraction, n_aligned):
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
        n_aligned=n_aligned,
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
        if n_aligned:
            theirs, ours = (fourier_vectors(net, batch[rows])[:, -n_aligned:] for net in (fold, full))
            part[:, -n_aligned:] = ridge_map(theirs, ours)(part[:, -n_aligned:])
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
        n_aligned=n_aligned,
    )
    assert again[1:] == (losses, None)
