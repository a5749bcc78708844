from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tabembed.batch import TableBatch
from tabembed.nn import LearnedFourierFeatures
from tabembed.training.fourier import FourierNetwork, fourier_vectors, unscaled
from tabembed.training.loop import Settings, train
from tabembed.training.objective import make_objective


def numbers(values):
    none = torch.zeros(len(values), 0, dtype=torch.int64)
    return TableBatch(none, values, torch.zeros_like(values, dtype=torch.bool), none)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_loop_trains_it():
    x = drawn(400, 2)
    objective, target = make_objective(torch.sin(2 * x[:, 0]).numpy())
    network = FourierNetwork(LearnedFourierFeatures(2, 4, seed=0), 1)
    before = network.features.frequencies.detach().clone()
    losses = train(network, numbers(x), target, objective, Settings(max_iter=20), seed=0)
    assert min(losses) < 0.05 * losses[0]
    assert not torch.equal(network.features.frequencies, before)


def test_every_parameter_is_in_one_group():
    network = FourierNetwork(LearnedFourierFeatures(2, 4, hidden_features=3), 1)
    groups = network.param_groups(0.1, 0.2)
    found = [id(p) for group in groups for p in group["params"]]
    assert sorted(found) == sorted(id(p) for p in network.parameters())
    frequencies, weights, biases = groups
    assert (frequencies["lr"], frequencies["weight_decay"]) == (pytest.approx(0.1 / (2 * math.pi)), 0.0)
    assert (weights["lr"], weights["weight_decay"], biases["weight_decay"]) == (0.1, 0.2, 0.0)
    assert [len(group["params"]) for group in groups] == [1, 3, 3]


def test_vectors_are_the_features_row_by_row():
    network = FourierNetwork(LearnedFourierFeatures(3, 4, seed=0), 2)
    x = drawn(7, 3)
    together = fourier_vectors(network, numbers(x))
    assert together.dtype == np.float64
    np.testing.assert_allclose(together, network.features(x).detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(together[3:4], fourier_vectors(network, numbers(x[3:4])), atol=1e-14)
    assert network.features.weight.dtype == torch.float32


@pytest.mark.parametrize("hidden", [None, 6])
def test_unscaled_features_take_columns_as_they_come(hidden):
    centre, scale = np.array([2000.0, -0.3, 5e6]), np.array([7.0, 0.01, 1e5])
    features = LearnedFourierFeatures(3, 4, hidden_features=hidden, seed=0)
    before = {name: tensor.clone() for name, tensor in features.state_dict().items()}
    z = drawn(20, 3).double()
    moved = unscaled(features, centre, scale).double()
    x = z * torch.from_numpy(scale) + torch.from_numpy(centre)
    assert_close(moved(x), features.double()(z), rtol=0, atol=3e-6)
    for name, tensor in features.float().state_dict().items():
        assert_close(tensor, before[name], rtol=0, atol=0)
