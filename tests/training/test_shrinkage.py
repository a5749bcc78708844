from __future__ import annotations

import copy
import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.utils import parametrize

from tabembed import CategoricalList, TableEncoder
from tabembed.training.crossfit import fit_with_folds
from tabembed.training.loop import Settings, train
from tabembed.training.masked_columns import make_masked_columns
from tabembed.training.masked_network import table_network
from tabembed.training.network import TableNetwork
from tabembed.training.objective import make_objective
from tabembed.training.shrinkage import Shrunk, make_plain, shrink_rare

N_ROWS = 137


@pytest.fixture(scope="module")
def problem():
    """Categories and lists with gaps, empty cells, and one category of a single row."""
    draw = np.random.RandomState(0)
    X = pd.DataFrame(
        {
            "city": draw.choice(["Oslo", "Rome", "Lima", None], N_ROWS, p=[0.6, 0.2, 0.05, 0.15]),
            "km": draw.randn(N_ROWS),
            "tags": [None if i % 11 == 0 else ["a", "b", "c", "d"][: i % 4] for i in range(N_ROWS)],
            "open": draw.rand(N_ROWS) < 0.1,
        }
    )
    X.loc[5, "city"] = "Nuuk"
    encoder = TableEncoder(columns={"tags": CategoricalList()}).fit(X)
    objective, target = make_objective((X["city"] == "Oslo") + X["km"].to_numpy())
    return encoder.schema_, encoder.transform(X), target, objective


def ids_of(schema, batch):
    ids = {column.name: batch.ids[:, j].tolist() for j, column in enumerate(schema.categorical)}
    return ids | {column.name: batch.lists[column.name].ids.tolist() for column in schema.lists}


def blended(table, ids, shrinkage):
    """Every entry by itself: a known id's row and the unknown one's, as rows weigh against ``shrinkage``."""
    counts = Counter(ids)
    blend = []
    for i, row in enumerate(table.tolist()):
        share = 1.0 if i < 3 else counts[i] / (counts[i] + shrinkage)
        blend.append([share * a + (1 - share) * b for a, b in zip(row, table[2].tolist(), strict=True)])
    return torch.tensor(blend)


def drawn(schema, **own):
    """A network whose reserved rows are no zeros either, but for padding."""
    network = TableNetwork(schema, 1, hidden_layer_sizes=(5, 3), **own)
    generator = torch.Generator().manual_seed(1)
    for name in ("city", "tags", "open"):
        with torch.no_grad():
            network.embedding.weight(name)[1:].normal_(generator=generator)
    return network


@pytest.mark.parametrize("shrinkage", [0.3, 10, 1e4])
def test_every_table_is_that_of_a_loop(problem, shrinkage):
    schema, batch, *_ = problem
    network = drawn(schema, shrinkage=shrinkage)
    own = {name: network.embedding.weight(name).detach().clone() for name in ids_of(schema, batch)}
    network.shrink_rare(batch)
    assert set(own) == {"city", "tags", "open"}
    for name, ids in ids_of(schema, batch).items():
        seen = network.embedding.weight(name)
        torch.testing.assert_close(seen, blended(own[name], ids, shrinkage))
        assert torch.equal(seen[:3], own[name][:3])
        assert not torch.allclose(seen[3:], own[name][3:])
    expected = copy.deepcopy(drawn(schema))
    for name in own:
        with torch.no_grad():
            expected.embedding.weight(name).copy_(network.embedding.weight(name))
    assert torch.equal(network(**batch.tensors()), expected(**batch.tensors()))


def test_a_table_keeps_its_dtype():
    table = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    shrink = Shrunk(torch.tensor([0, 0, 0, 4, 1]), 10.0)
    for dtype in (torch.float64, torch.bfloat16):
        assert shrink(table.to(dtype)).dtype == dtype
    torch.testing.assert_close(shrink(table.double()).float(), shrink(table))


def test_the_unknown_row_learns_from_rare_categories(problem):
    schema, batch, *_ = problem
    network = drawn(schema, shrinkage=10.0)
    network.shrink_rare(batch)
    nuuk = 3 + schema["city"].n_known - 1  # of one row
    network.embedding.weight("city")[nuuk].sum().backward()
    gradient = network.embedding.categorical.weights.parametrizations["0"].original.grad[:, 0]
    expected = torch.zeros(len(gradient))
    expected[2], expected[nuuk] = 10 / 11, 1 / 11
    torch.testing.assert_close(gradient, expected)


def test_make_plain_leaves_plain_tables_of_what_was_seen(problem):
    schema, batch, *_ = problem
    network, plain = (drawn(schema, shrinkage=10.0) for _ in range(2))
    network.shrink_rare(batch)
    seen = {name: network.embedding.weight(name).detach().clone() for name in ("city", "tags", "open")}
    before = network(**batch.tensors())
    make_plain(network.embedding)
    assert list(network.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in network.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert [type(a) for a in network.modules()] == [type(b) for b in plain.modules()]
    assert all(torch.equal(network.embedding.weight(name), table) for name, table in seen.items())
    assert torch.equal(network(**batch.tensors()), before)
    make_plain(network.embedding)  # what is plain stays
    assert torch.equal(network(**batch.tensors()), before)


def test_a_table_without_categories_has_nothing_to_share():
    encoder = TableEncoder().fit({"km": [1.0, 2.0]})
    network = TableNetwork(encoder.schema_, 1, shrinkage=10.0)
    network.shrink_rare(encoder.transform({"km": [1.0, 2.0]}))
    network.forget_unseen(encoder.transform({"km": [1.0, 2.0]}))
    assert not any(parametrize.is_parametrized(module) for module in network.modules())


class Watched(TableNetwork):
    """Keeps the shares it was trained with."""

    def forget_unseen(self, training):
        tables = self.embedding.categorical.weights.parametrizations
        self.shares = {c.name: tables[str(j)][0].share for j, c in enumerate(self.schema.categorical)}
        self.shares["tags"] = self.embedding.lists[0].values.parametrizations.weight[0].share
        super().forget_unseen(training)


def shares(schema, batch, rows, shrinkage):
    return {
        name: [1.0] * 3
        + [Counter(ids)[i] / (Counter(ids)[i] + shrinkage) for i in range(3, schema[name].n_ids)]
        for name, ids in ids_of(schema, batch[rows]).items()
    }


def assert_shares(network, schema, batch, rows):
    expected = shares(schema, batch, rows, 10.0)
    for name, share in network.shares.items():
        torch.testing.assert_close(share[:, 0], torch.tensor(expected[name]))
    assert expected != shares(schema, batch, torch.arange(N_ROWS), 10.0)


def test_only_rows_that_are_trained_on_count(problem):
    schema, batch, target, objective = problem
    network = Watched(schema, 1, hidden_layer_sizes=(3,), shrinkage=10.0)
    train(network, batch, target, objective, Settings(max_iter=1, validation_fraction=0.3), seed=4)
    order = torch.randperm(N_ROWS, generator=torch.Generator().manual_seed(4))
    assert_shares(network, schema, batch, order[round(0.3 * N_ROWS) :])


def test_rows_of_another_fold_do_not_count(problem):
    schema, batch, target, objective = problem
    network = Watched(schema, 1, hidden_layer_sizes=(3,), shrinkage=10.0)
    rows, trained = np.arange(N_ROWS), []
    splits = [(rows[50:], rows[:50]), (rows[:50], rows[50:])]

    def vectors(network, batch):
        trained.append(network)
        return network.row(**batch.tensors()).numpy()

    settings = Settings(max_iter=1, validation_fraction=0.0)
    own = {"splits": splits, "seed": 0, "vectors": vectors, "aligned": []}
    fit_with_folds(network, batch, target, objective, settings, **own)
    assert len(trained) == 2
    for fold, (units, _) in zip(trained, splits, strict=True):
        assert_shares(fold, schema, batch, torch.from_numpy(units))


def trained(problem, masked=False, seed=0, averaging=0.9, kind=None, **own):
    schema, batch, target, objective = problem
    if masked:
        objective, target = make_masked_columns(schema, batch)
    n_outputs = objective.n_outputs
    make = kind or (lambda *a, **k: table_network(*a, masked=masked, **k))
    network = make(schema, n_outputs=n_outputs, hidden_layer_sizes=(5, 3), unknown_dropout=0.05, **own)
    train(network, batch, target, objective, Settings(max_iter=2, averaging=averaging), seed=seed)
    if masked:
        network.settle(batch)
    return network


def rows(network, batch):
    return network.row(**batch.tensors())


@pytest.mark.parametrize("masked", [False, True])
def test_a_trained_network_is_a_plain_one(problem, masked):
    schema, batch, *_ = problem
    network = trained(problem, masked, shrinkage=10.0)
    names = {"shrinkage": 10.0, "hidden_layer_sizes": (5, 3), "n_outputs": network.head.out_features}
    fresh = table_network(schema, masked=masked, **names)
    assert list(network.state_dict()) == list(fresh.state_dict())
    assert not any(parametrize.is_parametrized(module) for module in network.modules())
    fresh.load_state_dict(network.state_dict())
    copies = [copy.deepcopy(network), pickle.loads(pickle.dumps(network)), fresh.eval()]
    assert all(torch.equal(rows(other, batch), rows(network, batch)) for other in copies)
    program = torch.export.export(network, (), batch.tensors())
    torch.testing.assert_close(program.module()(**batch.tensors()), network(**batch.tensors()))


@pytest.mark.parametrize("masked", [False, True])
def test_seed_alone_decides_and_shrinkage_matters(problem, masked):
    _, batch, *_ = problem
    network = trained(problem, masked, shrinkage=10.0)
    assert rows(network, batch).isfinite().all()
    again = trained(problem, masked, shrinkage=10.0).state_dict()
    assert all(torch.equal(table, again[name]) for name, table in network.state_dict().items())
    for other in (trained(problem, masked, seed=1, shrinkage=10.0), trained(problem, masked, shrinkage=0.0)):
        assert not torch.allclose(rows(other, batch), rows(network, batch), atol=1e-5)


class Unshared(TableNetwork):
    def shrink_rare(self, training):
        pass


def test_without_shrinkage_every_category_is_left_to_itself(problem):
    plain, none, little = (
        trained(problem, kind=Unshared, shrinkage=10.0),
        trained(problem, shrinkage=0.0),
        trained(problem, shrinkage=1e-7),
    )
    for name, table in plain.state_dict().items():
        assert torch.equal(none.state_dict()[name], table)
        torch.testing.assert_close(little.state_dict()[name], table, atol=1e-4, rtol=1e-4)
    network = TableNetwork(problem[0], 1)
    shrink_rare(network.embedding, {}, 0.0)
    assert not any(parametrize.is_parametrized(module) for module in network.modules())


def test_an_unseen_category_is_the_unknown_one(problem):
    schema, batch, target, objective = problem
    network = TableNetwork(schema, 1, hidden_layer_sizes=(5,), unknown_dropout=0.05, shrinkage=10.0)
    gone = 3 + schema["city"].n_known - 1
    kept = batch.ids[:, 0] != gone
    settings = Settings(max_iter=2, validation_fraction=0.0, averaging=0.9)
    train(network, batch[kept], target[kept], objective, settings)
    table = network.embedding.weight("city")
    assert torch.equal(table[gone], table[2])
    assert all(not torch.equal(table[i], table[2]) for i in range(1, len(table)) if i not in (2, gone))
    tags = network.embedding.weight("tags")
    assert tags[0].eq(0).all()
    assert table[0].eq(0).all()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (-0.5, ValueError, "shrinkage must be finite and at least 0, got -0.5"),
        (float("inf"), ValueError, "shrinkage must be finite and at least 0, got inf"),
        ("10", TypeError, "shrinkage must be a number, got '10'"),
    ],
)
def test_shrinkage_is_checked(problem, value, error, message):
    with pytest.raises(error, match=message):
        TableNetwork(problem[0], 1, shrinkage=value)
