from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import rtdl_num_embeddings
import torch
from torch.testing import assert_close

from tabembed import PiecewiseLinearEmbedding, TableEncoder, tree_edges
from tabembed.training.bins import adapt_bins
from tabembed.training.loop import Settings, train
from tabembed.training.network import TableNetwork
from tabembed.training.objective import make_objective


def rows(n_rows=3000, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n_rows, 3, generator=generator)
    y = torch.sin(3 * x[:, 0]) + (x[:, 1] > 0.3) + 0.3 * torch.randn(n_rows, generator=generator)
    return x, y


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("n_bins", [2, 5, 48])
def test_equals_rtdl(classes, n_bins):
    x, y = rows()
    y = y.mul(2).round().clamp(-1, 3) if classes else y
    own = {"min_samples_leaf": 64, "min_impurity_decrease": 1e-4}
    theirs = rtdl_num_embeddings.compute_bins(x, n_bins, tree_kwargs=own, y=y, regression=not classes)
    for ours, other in zip(tree_edges(x, y, n_bins, classes=classes), theirs, strict=True):
        assert_close(ours, other, rtol=0, atol=0)


def test_missing_numbers_take_no_part():
    x, y = rows(300)
    missing = torch.rand(300, 3, generator=torch.Generator().manual_seed(1)) < 0.3
    found = tree_edges(
        x.masked_fill(missing, torch.nan), y, 8, classes=False, missing=missing, min_samples_leaf=9
    )
    for j in range(3):
        there = ~missing[:, j]
        (alone,) = tree_edges(x[there, j, None], y[there], 8, classes=False, min_samples_leaf=9)
        assert_close(found[j], alone, rtol=0, atol=0)


@pytest.mark.parametrize(("n_rows", "smallest"), [(64, 2), (640, 20), (2048, 64), (4000, 64)])
def test_bins_of_small_tables_hold_fewer_rows(n_rows, smallest):
    x, y = rows(n_rows)
    (edges,) = tree_edges(x[:, :1], y, n_rows, classes=False, min_impurity_decrease=0.0)
    counts = torch.histc(torch.bucketize(x[:, 0].contiguous(), edges[1:-1]).float(), len(edges) - 1)
    assert counts.min() >= smallest
    assert counts.min() < 2 * smallest


def test_arguments_of_the_tree_change_the_edges():
    x, y = rows()

    def n_edges(**own):
        return len(tree_edges(x[:, :1], y, classes=False, **own)[0])

    assert n_edges(min_samples_leaf=1000) < n_edges() < n_edges(min_samples_leaf=5)
    assert n_edges(min_impurity_decrease=0.1) < n_edges() <= n_edges(min_impurity_decrease=0.0)
    assert n_edges(n_bins=4) == 5
    assert n_edges(n_bins=1) == 2


def test_columns_without_a_number_or_with_one():
    missing = torch.tensor([[True, False, False]] * 100)
    x = torch.stack((torch.full((100,), torch.nan), torch.full((100,), 7.0), torch.arange(100.0)), 1)
    edges = tree_edges(x, (torch.arange(100) > 49).double(), classes=True, missing=missing)
    assert [e.tolist() for e in edges] == [[0], [7], [0, 49.5, 99]]


def test_global_generators_are_not_touched():
    np.random.randint(9)
    before, own = np.random.get_state(), torch.get_rng_state()
    tree_edges(*rows(200), classes=False)
    after = np.random.get_state()
    assert np.array_equal(after[1], before[1])
    assert after[2] == before[2]
    assert torch.equal(torch.get_rng_state(), own)


@pytest.mark.parametrize(
    ("given", "own", "error", "text"),
    [
        ((torch.zeros(4), torch.zeros(4)), {}, ValueError, r"must be \(n_rows, n_columns\) and \(n_rows,\)"),
        ((torch.zeros(4, 2), torch.zeros(3)), {}, ValueError, r"got shapes \(4, 2\) and \(3,\)"),
        ((torch.zeros(4, 2), torch.zeros(4)), {"n_bins": 0}, ValueError, "n_bins must be at least 1, got 0"),
        (
            (torch.zeros(4, 2), torch.zeros(4)),
            {"min_samples_leaf": 0},
            ValueError,
            "min_samples_leaf must be",
        ),
        (
            (torch.zeros(4, 2), torch.zeros(4)),
            {"min_impurity_decrease": -1.0},
            ValueError,
            "min_impurity_decrease must be finite and at least 0, got -1",
        ),
        (
            (torch.full((4, 2), torch.nan), torch.zeros(4)),
            {},
            ValueError,
            "values must be finite where not missing, got nan",
        ),
        (
            (torch.zeros(4, 2), torch.zeros(4)),
            {"missing": torch.zeros(4, 2)},
            TypeError,
            "missing must be bool",
        ),
    ],
)
def test_bad_arguments(given, own, error, text):
    with pytest.raises(error, match=text):
        tree_edges(*given, classes=False, **own)


def network_of(x, numeric, n_outputs=1):
    encoder = TableEncoder(scaler="standard").fit({"a": x[:, 0].numpy(), "b": x[:, 1].numpy()})
    batch = encoder.transform({"a": x[:, 0].numpy(), "b": x[:, 1].numpy()})
    return TableNetwork(
        encoder.schema_, n_outputs, hidden_layer_sizes=(8,), embedding={"numeric": numeric}
    ), batch


TREES = partial(PiecewiseLinearEmbedding.from_columns, n_bins=8, bins="tree")


@pytest.mark.parametrize("classes", [False, True])
def test_a_module_is_adapted_to_rows_and_target(classes):
    x, y = rows(500)
    objective, target = make_objective(
        np.array(["a", "b", "c"])[(x[:, 1] > 0.3).int() + (x[:, 0] > 1).int()] if classes else y.numpy()
    )
    network, batch = network_of(x, TREES, objective.n_outputs)
    before = network.embedding.numeric.edges.clone()
    adapt_bins(network, batch, target, objective)
    found = network.embedding.numeric.edges
    for j, expected in enumerate(tree_edges(batch.values, target, 8, classes=classes)):
        assert_close(found[j].unique(), expected, rtol=0, atol=0)
    assert not torch.equal(before, found)


@pytest.mark.parametrize("numeric", [None, partial(PiecewiseLinearEmbedding.from_columns, n_bins=8)])
def test_other_modules_are_left_alone(numeric):
    x, y = rows(500)
    objective, target = make_objective(y.numpy())
    network, batch = network_of(x, numeric)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    adapt_bins(network, batch, target, objective)
    assert_close(dict(network.state_dict()), before, rtol=0, atol=0)


def test_training_adapts_to_training_rows_and_not_to_those_held_out():
    x, y = rows(400)
    objective, target = make_objective(y.numpy())
    network, batch = network_of(x, TREES)
    seen = []
    network.embedding.numeric.adapt = lambda values, missing, edges: seen.append(values)
    train(network, batch, target, objective, Settings(max_iter=1, validation_fraction=0.25))
    assert [len(values) for values in seen] == [300]


def test_adaption_can_be_watched_without_a_number_column():
    encoder = TableEncoder().fit({"c": ["a", "b"]})
    network = TableNetwork(encoder.schema_, 1, hidden_layer_sizes=(2,))
    objective, target = make_objective(np.array([0.0, 1.5]))
    adapt_bins(network, encoder.transform({"c": ["a", "b"]}), target, objective)
    assert network.embedding.numeric is None
