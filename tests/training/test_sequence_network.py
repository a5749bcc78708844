from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch

from tabembed import PiecewiseLinearEmbedding
from tabembed.training.bins import adapt_bins, tree_edges
from tabembed.training.loop import train
from tabembed.training.next_row import make_next_row
from tabembed.training.objective import make_objective, with_gaps
from tabembed.training.sequence_examples import SequenceExamples, SequenceSettings
from tabembed.training.sequence_network import SequenceNetwork
from tabembed.training.sequence_vectors import sequence_vectors
from tests.training.sequences import encode, frame

SMALL = {"d_model": 16, "num_layers": 1}


def history(n_entities=60, seed=0):
    """Rows that are late when the row before was: what is to be learned lies in the past alone."""
    lengths = tuple(np.random.RandomState(seed).randint(1, 30, n_entities))
    table = frame(lengths, seed)
    before = table.groupby("entity")["delay"].shift().fillna(-1)
    return table, (before > 0.3).to_numpy()


@pytest.fixture(scope="module")
def problem():
    table, y = history()
    schema, batch = encode(table)
    objective, target = make_objective(y)
    return schema, batch, target, objective


@pytest.mark.parametrize("position", ["rotary", "gru"])
def test_training_learns_what_lies_in_the_past(problem, position):
    schema, batch, target, objective = problem
    network = SequenceNetwork(schema, 1, sequence={**SMALL, "position": position})
    settings = SequenceSettings(learning_rate_init=0.02, batch_size=64, max_iter=12)
    losses = train(network, batch, target, objective, settings)
    assert losses[0] == pytest.approx(np.log(2), abs=1e-6)
    assert min(losses) < 0.45
    assert not network.training
    assert not any(weight.requires_grad for weight in network.parameters())


@pytest.mark.parametrize("pooling", ["last", "mean", "decay"])
def test_training_learns_a_target_of_entities(pooling):
    draw = np.random.RandomState(1)
    table = frame(tuple(draw.randint(3, 12, 150)), 1)
    y = draw.randint(0, 2, 150)
    table["km"] = table["km"].fillna(0) * 0.3 + 2 * y[table["entity"]]
    schema, batch = encode(table)
    objective, target = make_objective(y)
    network = SequenceNetwork(schema, 1, per="entity", sequence={**SMALL, "pooling": pooling})
    settings = SequenceSettings(learning_rate_init=0.02, batch_size=64, max_iter=12)
    assert min(train(network, batch, target, objective, settings)) < 0.2


def test_seed_alone_decides_and_global_generators_stay(problem):
    schema, batch, target, objective = problem
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    results = []
    for seed in (3, 3, 4):
        own = {**SMALL, "dropout": 0.2, "embedding": {"unknown_dropout": 0.1}}
        network = SequenceNetwork(schema, 1, sequence=own)
        train(network, batch, target, objective, SequenceSettings(max_iter=2, batch_size=64), seed=seed)
        results.append(sequence_vectors(network, batch, "row"))
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])
    assert torch.equal(torch_state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])


def test_entities_are_held_out_whole(problem, monkeypatch):
    schema, batch, target, objective = problem
    seen = []
    ready = SequenceExamples.ready
    monkeypatch.setattr(
        SequenceExamples,
        "ready",
        lambda self, settings: seen.append(self.batch.entities.tolist()) or ready(self, settings),
    )
    losses = train(
        SequenceNetwork(schema, 1, sequence=SMALL),
        batch,
        target,
        objective,
        SequenceSettings(max_iter=1, validation_fraction=0.25),
    )
    assert len(seen[0]) == len(set(seen[0])) == 45
    assert len(losses) == 2


def test_few_entities_are_all_trained_on(problem):
    schema, batch, target, objective = problem
    part = batch[slice(0, 4)]
    network = SequenceNetwork(schema, 1, sequence=SMALL)
    assert train(network, part, target[: part.n_rows], objective, SequenceSettings(max_iter=1)) == []


def test_ids_without_a_training_row_get_the_unknown_vector(problem):
    schema, batch, target, objective = problem
    chosen = ~(batch.rows.ids == 4).any(1)
    ids = batch.rows.ids.where(batch.rows.ids != 4, 3)
    assert not chosen.all()
    without = dataclasses.replace(batch, rows=dataclasses.replace(batch.rows, ids=ids))
    network = SequenceNetwork(schema, 1, sequence=SMALL)
    train(network, without, target, objective, SequenceSettings(max_iter=1))
    halves = {"kind": network.embedding.known, "late": network.embedding.after}
    for name, half in halves.items():
        weight = half.weight(name)
        assert torch.equal(weight[4], weight[2])
        assert not torch.equal(weight[3], weight[2])


def test_every_parameter_is_in_one_group(problem):
    network = SequenceNetwork(problem[0], 1, sequence={**SMALL, "pooling": "decay"})
    groups = network.param_groups(0.1, 0.2)
    found = [id(p) for group in groups for p in group["params"]]
    assert sorted(found) == sorted(id(p) for p in network.parameters())


def test_bins_of_known_numbers_follow_the_target():
    schema, batch = encode(history()[0], columns=("kind", "delay", "km"), observed=("delay",))
    trees = partial(PiecewiseLinearEmbedding.from_columns, n_bins=6, bins="tree")
    network = SequenceNetwork(schema, 1, sequence={**SMALL, "embedding": {"numeric": trees}})
    km = [c.name for c in schema.rows.continuous].index("km")
    objective, target = make_objective(batch.rows.values[:, km].sin().numpy(), "continuous")
    after = network.embedding.after.numeric.edges.clone()
    adapt_bins(network, batch.rows, target, objective)
    values, missing = (part[:, [km]] for part in (batch.rows.values, batch.rows.missing))
    (expected,) = tree_edges(values, target, 6, classes=False, missing=missing)
    torch.testing.assert_close(network.embedding.known.numeric.edges[0].unique(), expected, rtol=0, atol=0)
    assert torch.equal(network.embedding.after.numeric.edges, after)


def test_bins_from_trees_train_with_every_objective(problem):
    schema, batch, target, objective = problem
    trees = partial(PiecewiseLinearEmbedding.from_columns, n_bins=6, bins="tree")
    own = {**SMALL, "embedding": {"numeric": trees}}
    one = SequenceSettings(max_iter=1)
    train(SequenceNetwork(schema, 1, sequence=own), batch, target, objective, one)
    following, target = make_next_row(schema, batch)
    losses = train(SequenceNetwork(schema, following.n_outputs, sequence=own), batch, target, following, one)
    assert losses[1] < losses[0]


def test_per_is_checked(problem):
    with pytest.raises(ValueError, match="per must be one of row, entity, got 'column'"):
        SequenceNetwork(problem[0], 1, per="column")


def markov(n_entities=80, seed=0):
    """A chain of three states that mostly goes on to the next one, after a gap that its state decides."""
    draw = np.random.RandomState(seed)
    lengths = tuple(draw.randint(2, 20, n_entities))
    table = frame(lengths, seed)
    state, last = 0, -1
    for i, entity in enumerate(table["entity"]):
        state = draw.randint(3) if entity != last else (state + (draw.rand() < 0.9)) % 3
        last = entity
        table.loc[i, "kind"] = "abc"[state]
    step = table["kind"].map({"a": 60, "b": 600, "c": 6000})
    table["time"] = step.groupby(table["entity"]).transform(lambda x: x.shift(fill_value=0).cumsum())
    return table


def test_the_next_row_is_predicted_better_than_by_its_share(problem):
    schema, batch = encode(markov(), observed=(), columns=("kind",))
    objective, target = make_next_row(schema, batch)
    network = SequenceNetwork(schema, objective.n_outputs, sequence=SMALL)
    settings = SequenceSettings(max_iter=10, batch_size=64, learning_rate_init=0.02)
    losses = train(network, batch, target, objective, settings)
    kinds = target[:, 0][~target[:, 0].isnan()].long()
    share = kinds.bincount().double() / len(kinds)
    gaps = target[:, 1][~target[:, 1].isnan()]
    entropy = -(share[share > 0].log() * share[share > 0]).sum() / np.log(schema.rows["kind"].n_ids)
    huber = torch.nn.functional.huber_loss(gaps, gaps.median().expand_as(gaps))
    marginal = float(entropy + huber) / 2
    assert losses[0] > marginal
    assert min(losses) < 0.6 * marginal


@pytest.mark.parametrize("strict", [False, True])
def test_what_no_later_row_has_carried_is_forgotten(strict):
    """An observed value that stands in last rows alone has taught nothing: its vector is the unknown one."""
    table = frame((4, 5, 3, 6))
    table["late"] = np.where(table["entity"].diff(-1).ne(0), "at the end", "before")
    if strict:  # the last two rows of every entity happen at once, so neither carries anything
        last_two = table.groupby("entity").cumcount(ascending=False) < 2
        table["time"] = table["time"].where(~last_two, table.groupby("entity")["time"].transform("max"))
        table.loc[last_two, "late"] = "at the end"
    table["kind"] = table["late"]  # the same words in a column that is known
    schema, batch = encode(table, strict=strict)
    objective, target = make_objective(np.random.RandomState(0).randn(len(table)))
    network = SequenceNetwork(schema, 1, sequence=SMALL)
    train(network, batch, target, objective, SequenceSettings(max_iter=1))
    end = int(batch.rows.ids[-1, [c.name for c in schema.rows.categorical].index("late")])
    after, known = network.embedding.after.weight("late"), network.embedding.known.weight("kind")
    assert torch.equal(after[end], after[2])
    assert not torch.equal(after[7 - end], after[2])
    assert not torch.equal(known[end], known[2])


@pytest.mark.parametrize("position", ["rotary", "gru"])
def test_rows_without_a_target_add_nothing_to_the_loss(problem, position):
    schema, batch, target, objective = problem
    there = torch.rand(len(target), generator=torch.Generator().manual_seed(0)) < 0.5
    gaps, whole = with_gaps(objective, target[there], there)
    output = torch.randn(len(target), 1, requires_grad=True)
    loss = gaps.loss(output, whole)
    torch.testing.assert_close(loss, objective.loss(output[there], target[there]))
    loss.backward()
    assert output.grad[~there].eq(0).all()
    none = gaps.loss(output, torch.full_like(whole, torch.nan))
    assert none == 0
    network = SequenceNetwork(schema, 1, sequence={**SMALL, "position": position})
    settings = SequenceSettings(learning_rate_init=0.02, batch_size=64, max_iter=8)
    losses = train(network, batch, whole, gaps, settings)
    assert losses[0] == pytest.approx(np.log(2), abs=1e-6)
    assert min(losses) < 0.6


def test_held_out_entities_need_a_target(problem):
    schema, batch, target, objective = problem
    first = torch.zeros(len(target), dtype=torch.bool)
    first[:2] = True
    gaps, whole = with_gaps(objective, target[first], first)
    for seed in range(3):
        network = SequenceNetwork(schema, 1, sequence=SMALL)
        losses = train(network, batch, whole, gaps, SequenceSettings(max_iter=1), seed=seed)
        assert losses == [] or np.log(2) in [pytest.approx(loss) for loss in losses]


def test_bins_from_trees_follow_the_rows_that_have_a_target(problem):
    schema, batch, _, _ = problem
    km = [c.name for c in schema.rows.continuous].index("km")
    there = torch.arange(batch.n_rows) % 3 > 0
    objective, target = make_objective(batch.rows.values[there, km].sin().numpy(), "continuous")
    gaps, whole = with_gaps(objective, target, there)
    trees = partial(PiecewiseLinearEmbedding.from_columns, n_bins=6, bins="tree")
    network = SequenceNetwork(schema, 1, sequence={**SMALL, "embedding": {"numeric": trees}})
    adapt_bins(network, batch.rows, whole, gaps)
    values, missing = (part[there][:, [km]] for part in (batch.rows.values, batch.rows.missing))
    (expected,) = tree_edges(values, target, 6, classes=False, missing=missing)
    torch.testing.assert_close(network.embedding.known.numeric.edges[0].unique(), expected, rtol=0, atol=0)
