from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import torch

from tabembed.table import Categorical, TableEncoder
from tabembed.training.loop import Settings, train
from tabembed.training.network import TableNetwork
from tabembed.training.objective import make_objective
from tabembed.training.vectors import vectors


@pytest.fixture(scope="module")
def problem():
    draw = np.random.RandomState(0)
    X = pd.DataFrame({"city": draw.randint(0, 20, 600).astype(str), "km": draw.randn(600)})
    y = X["city"].astype(int).to_numpy() % 3 - 1.0 + X["km"].to_numpy()
    encoder = TableEncoder(columns={"city": Categorical()}).fit(X)
    objective, target = make_objective(y)
    return encoder.schema_, encoder.transform(X), target, objective


def test_training_learns_and_leaves_the_best_state(problem):
    schema, batch, target, objective = problem
    network = TableNetwork(schema, 1, dropout=0.1, unknown_dropout=0.05)
    losses = train(network, batch, target, objective, Settings(learning_rate_init=0.01))
    assert min(losses) < 0.2
    assert not network.training
    assert objective.loss(network(**batch.tensors()), target) < 0.2


def test_an_untrained_network_wins_when_training_only_hurts(problem):
    schema, batch, target, objective = problem
    network = TableNetwork(schema, 1)
    before = copy.deepcopy(network.state_dict())
    noise = torch.randn(len(target), generator=torch.Generator().manual_seed(1))
    losses = train(network, batch, noise, objective, Settings(learning_rate_init=1.0, n_iter_no_change=2))
    assert len(losses) == 1 + 2
    after = network.state_dict()
    # Only rows of ids that were never seen may differ: they got the unknown id's vector.
    assert all(torch.equal(before[k], after[k]) for k in before if "categorical" not in k)


def test_stops_after_n_iter_no_change(problem):
    schema, batch, target, objective = problem
    noise = torch.randn(len(target), generator=torch.Generator().manual_seed(1))
    settings = Settings(max_iter=50, learning_rate_init=1.0, n_iter_no_change=4)
    losses = train(TableNetwork(schema, 1), batch, noise, objective, settings)
    assert len(losses) - 1 - losses.index(min(losses)) == 4
    without = Settings(max_iter=3, validation_fraction=0.0)
    assert train(TableNetwork(schema, 1), batch, noise, objective, without) == []


def test_a_given_number_of_passes_is_made_on_all_rows(problem):
    schema, batch, target, objective = problem
    stopped, ended = TableNetwork(schema, 1), TableNetwork(schema, 1)
    settings = Settings(max_iter=4)
    assert train(stopped, batch, target, objective, settings, n_passes=2) == []
    train(ended, batch, target, objective, settings, n_passes=4)
    first = TableNetwork(schema, 1)
    train(first, batch, target, objective, settings, n_passes=0)
    errors = [objective.loss(n(**batch.tensors()), target) for n in (first, stopped, ended)]
    assert errors[0] > errors[1] > errors[2]
    assert first.head.weight.eq(0).all()


def test_seed_alone_decides_and_global_generators_stay(problem):
    schema, batch, target, objective = problem
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    results = []
    for seed in (3, 3, 4):
        network = TableNetwork(schema, 1, dropout=0.2, unknown_dropout=0.1, seed=0)
        train(network, batch, target, objective, Settings(max_iter=2), seed=seed)
        results.append(vectors(network, batch, "both"))
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])
    assert torch.equal(torch_state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])


def test_ids_without_a_training_row_get_the_unknown_vector(problem):
    schema, batch, target, objective = problem
    network = TableNetwork(schema, 1)
    rare = 3 + schema["city"].n_known - 1
    kept = batch.ids[:, 0] != rare
    train(network, batch[kept], target[kept], objective, Settings(max_iter=1, validation_fraction=0.0))
    weight = network.embedding.weight("city")
    assert torch.equal(weight[rare], weight[2])
    assert torch.equal(weight[1], weight[2])
    assert not torch.equal(weight[3], weight[2])
    assert weight[0].eq(0).all()


def test_every_parameter_is_in_one_group(problem):
    network = TableNetwork(problem[0], 1)
    groups = network.param_groups(0.1, 0.2)
    found = [id(p) for group in groups for p in group["params"]]
    assert sorted(found) == sorted(id(p) for p in network.parameters())
    assert {group["lr"] for group in groups} == {0.1}


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("max_iter", 0, "max_iter must be at least 1, got 0"),
        ("batch_size", 0, "batch_size must be at least 1, got 0"),
        ("n_iter_no_change", 0, "n_iter_no_change must be at least 1, got 0"),
        ("learning_rate_init", 0.0, "learning_rate_init must be positive, got 0.0"),
        ("alpha", -1, "alpha must be finite and at least 0, got -1"),
        ("validation_fraction", 1.0, r"validation_fraction must be at least 0 and below 1, got 1.0"),
    ],
)
def test_settings_are_checked(argument, value, message):
    with pytest.raises(ValueError, match=message):
        Settings(**{argument: value})


def test_a_row_does_not_depend_on_the_rows_beside_it(problem):
    schema, batch, target, objective = problem
    network = TableNetwork(schema, 1)
    train(network, batch, target, objective, Settings(max_iter=2))
    together = vectors(network, batch, "both")
    alone = np.concatenate([vectors(network, batch[i : i + 1], "both") for i in range(len(batch))])
    np.testing.assert_allclose(alone, together, rtol=1e-6, atol=1e-9)
    assert vectors(network, batch[:0], "both").shape == (0, together.shape[1])


@pytest.mark.parametrize("fraction", [0.0, 0.1])
def test_a_training_that_runs_away_says_so(problem, fraction):
    schema, batch, target, objective = problem
    settings = Settings(learning_rate_init=1e6, validation_fraction=fraction)
    message = r"^loss must stay finite, got (nan|inf) in pass 1; learning_rate_init=1e\+06 may be too large$"
    with pytest.raises(ValueError, match=message):
        train(TableNetwork(schema, 1), batch, target, objective, settings)
    infinite = target.clone()
    infinite[::3] = torch.inf
    message = "loss must stay finite, got (nan|inf) in pass 1; learning_rate_init=0.003 may be too large"
    with pytest.raises(ValueError, match=message):
        train(TableNetwork(schema, 1), batch, infinite, objective, Settings(averaging=0.9))
