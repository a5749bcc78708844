from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tabembed import TableEncoder
from tabembed.training.averaging import Averaged
from tabembed.training.loop import Settings, train
from tabembed.training.network import TableNetwork
from tabembed.training.objective import make_objective

N_ROWS = 137
N_STEPS = 7
"""Minibatches of 20 rows in a pass over the rows that are not held out, or over all of them."""


@pytest.fixture(scope="module")
def problem():
    draw = np.random.RandomState(0)
    X = pd.DataFrame({"city": draw.choice(["Oslo", "Rome", "Lima"], N_ROWS), "km": draw.randn(N_ROWS)})
    y = (X["city"] == "Oslo") + 0.5 * X["km"] + draw.randn(N_ROWS)
    encoder = TableEncoder().fit(X)
    objective, target = make_objective(y.to_numpy())
    return encoder.schema_, encoder.transform(X), target, objective


def trained(problem, settings, shrinkage=0.0, **own):
    """A trained network, its losses, and its parameters after every step, in float64."""
    schema, batch, target, objective = problem
    network = TableNetwork(schema, 1, hidden_layer_sizes=(16, 4), shrinkage=shrinkage)
    steps = []

    def watch(*_):
        steps.append({name: p.detach().double().clone() for name, p in network.named_parameters()})

    handle = register_optimizer_step_post_hook(watch)
    try:
        losses = train(network, batch, target, objective, settings, seed=5, **own)
    finally:
        handle.remove()
    return network, losses, steps


def slow_mean(steps, decay):
    """A plain mean of the first steps, until the newest would count for less than ``1 − decay``."""
    mean = {name: torch.zeros_like(weight) for name, weight in steps[0].items()}
    for n, weights in enumerate(steps, 1):
        share = max(1 / n, 1 - decay)
        for name in mean:
            mean[name] = (1 - share) * mean[name] + share * weights[name]
    return mean


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.99])
def test_weights_are_the_mean_of_those_of_every_step(problem, decay):
    settings = Settings(max_iter=3, batch_size=20, averaging=decay, validation_fraction=0.0)
    network, _, steps = trained(problem, settings)
    assert len(steps) == 3 * N_STEPS
    last, mean = steps[-1], slow_mean(steps, decay)
    state = dict(network.named_parameters())
    assert set(state) == set(mean)
    state["embedding.categorical.weights.0"][1] = mean["embedding.categorical.weights.0"][
        1
    ]  # no row lacks it
    for name, weight in mean.items():
        torch.testing.assert_close(state[name].double(), weight, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(mean["head.weight"], last["head.weight"], atol=1e-5, rtol=1e-4)
    if decay == 0.99:  # of so few steps a plain one
        torch.testing.assert_close(
            mean["head.weight"], torch.stack([s["head.weight"] for s in steps]).mean(0)
        )


def test_the_mean_is_of_what_is_learned_and_shared_afterwards(problem):
    settings = Settings(max_iter=2, batch_size=20, averaging=0.8, validation_fraction=0.0)
    network, _, steps = trained(problem, settings, shrinkage=30.0)
    own = slow_mean(steps, 0.8)["embedding.categorical.weights.parametrizations.0.original"]
    counts = torch.bincount(problem[1].ids[:, 0], minlength=len(own))
    table = network.embedding.weight("city").double()
    for i in range(3, len(own)):
        share = counts[i] / (counts[i] + 30.0)
        torch.testing.assert_close(table[i], share * own[i] + (1 - share) * own[2], atol=1e-6, rtol=1e-5)


def test_without_averaging_the_last_weights_stay(problem):
    settings = Settings(max_iter=2, batch_size=20, validation_fraction=0.0)
    assert settings.averaging == 0
    network, _, steps = trained(problem, settings)
    for name, weight in network.named_parameters():
        expected = steps[-1][name].float()
        if name == "embedding.categorical.weights.0":
            expected[1] = expected[2]  # no row lacks its city
        assert torch.equal(weight, expected)


def test_the_mean_of_the_best_pass_is_kept(problem):
    """Losses are those of the mean after every pass on held-out rows, and the smallest one's weights stay."""
    schema, batch, target, objective = problem
    settings = Settings(
        max_iter=12, batch_size=20, averaging=0.9, learning_rate_init=0.03, validation_fraction=0.2
    )
    network, losses, steps = trained(problem, settings)
    held_out = torch.randperm(N_ROWS, generator=torch.Generator().manual_seed(5))[: round(0.2 * N_ROWS)]
    expected, means = [], []
    fresh = TableNetwork(schema, 1, hidden_layer_sizes=(16, 4)).eval()
    n_steps = -(-(N_ROWS - len(held_out)) // 20)
    assert len(steps) == n_steps * (len(losses) - 1)
    for n in range(0, len(steps) + 1, n_steps):
        if n:
            means.append(slow_mean(steps[:n], 0.9))
            fresh.load_state_dict(means[-1], strict=False)
        output = fresh(**batch[held_out].tensors())
        expected.append(objective.loss(output, target[held_out]).item())
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    best = int(np.argmin(expected))
    assert 0 < best < len(losses) - 1  # else this would not see which is kept
    for name in ("head.weight", "hidden.0.linear.weight"):
        found = network.state_dict()[name].double()
        torch.testing.assert_close(found, means[best - 1][name], atol=1e-6, rtol=1e-4)


def test_the_copy_is_of_its_own(problem):
    network = TableNetwork(problem[0], 1, hidden_layer_sizes=(3,))
    before = copy.deepcopy(network.state_dict())
    mean = Averaged(network, 0.5)
    with torch.no_grad():
        mean.network.head.bias.fill_(7.0)
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())
    mean.update()
    assert torch.equal(mean.network.head.bias, network.head.bias)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (1.0, ValueError, "averaging must be at least 0 and below 1, got 1.0"),
        (-0.1, ValueError, "averaging must be at least 0 and below 1, got -0.1"),
        ("much", TypeError, "averaging must be a number, got 'much'"),
    ],
)
def test_averaging_is_checked(value, error, message):
    with pytest.raises(error, match=message):
        Settings(averaging=value)
