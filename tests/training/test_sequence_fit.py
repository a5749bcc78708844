from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from tabembed.training.crossfit import make_splits, passes_kept, ridge_map
from tabembed.training.loop import train
from tabembed.training.objective import make_objective
from tabembed.training.sequence_examples import SequenceSettings
from tabembed.training.sequence_fit import SequenceTask, fit_sequences
from tabembed.training.sequence_network import SequenceNetwork
from tabembed.training.sequence_vectors import sequence_vectors
from tests.training.sequences import encode, frame

SMALL = {"d_model": 16, "num_layers": 1}
LENGTHS = (3, 1, 17, 6, 2, 9, 12, 5, 4)
SETTINGS = SequenceSettings(max_iter=2, batch_size=32, learning_rate_init=0.01)


def a_task(per="row"):
    table = frame(LENGTHS)
    schema, batch = encode(table)
    n = batch.n_rows if per == "row" else len(batch)
    objective, target = make_objective(np.random.RandomState(1).randn(n))
    network = SequenceNetwork(schema, 1, per=per, sequence={**SMALL, "pooling": "mean"})
    return SequenceTask(network, batch, target, objective)


@pytest.mark.parametrize(("per", "output"), [("row", "row"), ("row", "entity"), ("entity", "row")])
def test_full_fit_then_folds_step_by_step(per, output):
    """Every step spelled out: seeds, passes of the folds, and whose coordinates the vectors have."""
    task = a_task(per)
    before = copy.deepcopy(task.initial.state_dict())
    splits = make_splits(3, None, np.arange(len(LENGTHS)), classes=False, seed=7)
    network, losses, found = fit_sequences(task, SETTINGS, splits=splits, seed=7, output=output)
    full = copy.deepcopy(task.initial)
    assert losses == train(full, task.batch, task.target, task.objective, SETTINGS, seed=7)
    for name, weight in full.state_dict().items():
        assert torch.equal(network.state_dict()[name], weight)
        assert torch.equal(task.initial.state_dict()[name], before[name])
    offsets = np.cumsum([0, *LENGTHS])
    expected = np.full((sum(LENGTHS) if output == "row" else len(LENGTHS), 16), np.nan)
    for number, (units, tested) in enumerate(splits, 1):
        fold, rows = copy.deepcopy(task.initial), [np.arange(*offsets[i : i + 2]) for i in units]
        target = task.target[np.concatenate(rows) if per == "row" else units]
        own = {"seed": 7 + number, "n_passes": passes_kept(losses, SETTINGS)}
        train(fold, task.batch[units], target, task.objective, SETTINGS, **own)
        seen = [sequence_vectors(net, task.batch[units], "row") for net in (fold, full)]
        part = ridge_map(*seen)(sequence_vectors(fold, task.batch[tested], output))
        places = [np.arange(*offsets[i : i + 2]) for i in tested] if output == "row" else [tested]
        expected[np.concatenate(places)] = part
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_without_splits_there_is_the_full_fit_alone():
    task = a_task()
    network, losses, none = fit_sequences(task, SETTINGS, splits=[], seed=7, output="row")
    assert none is None
    assert len(losses) == 3
    assert not network.training
