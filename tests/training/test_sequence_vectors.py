from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tabembed.training import sequence_vectors as module
from tabembed.training.loop import train
from tabembed.training.objective import make_objective
from tabembed.training.sequence_examples import SequenceSettings
from tabembed.training.sequence_network import SequenceNetwork
from tabembed.training.sequence_vectors import sequence_vectors
from tests.training.sequences import encode, frame

LENGTHS = (3, 1, 17, 6, 2, 9, 40, 23, 1, 31)


def trained(position="rotary", **own):
    table = frame(LENGTHS)
    schema, batch = encode(table)
    objective, target = make_objective(np.random.RandomState(0).randn(len(table)))
    network = SequenceNetwork(
        schema, 1, sequence={"d_model": 32, "position": position, "pooling": "decay", **own}
    )
    train(network, batch, target, objective, SequenceSettings(max_iter=2, batch_size=32))
    return network, batch


@pytest.mark.parametrize("position", ["rotary", "alibi", "decay", "sinusoidal", "learned", None, "gru"])
def test_a_vector_does_not_depend_on_the_sequences_beside_it(position, monkeypatch):
    network, batch = trained(position)
    together = sequence_vectors(network, batch, "row")
    pooled = sequence_vectors(network, batch, "entity")
    assert together.dtype == pooled.dtype == np.float32
    offsets = batch.cu_seqlens.tolist()
    for i in range(len(batch)):
        rows = slice(offsets[i], offsets[i + 1])
        alone = sequence_vectors(network, batch[[i]], "row")
        np.testing.assert_allclose(alone, together[rows], rtol=1e-6, atol=1e-6)
        entity = sequence_vectors(network, batch[[i]], "entity")
        np.testing.assert_allclose(entity, pooled[[i]], rtol=1e-6, atol=1e-6)
    order = np.random.RandomState(1).permutation(len(batch))
    monkeypatch.setattr(module, "BUDGET", 20)
    turned = batch[order]
    rows = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in order])
    np.testing.assert_allclose(sequence_vectors(network, turned, "row"), together[rows], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        sequence_vectors(network, turned, "entity"), pooled[order], rtol=1e-6, atol=1e-6
    )


def test_vectors_are_those_of_the_network():
    network, batch = trained()
    with torch.no_grad():
        rows, entities = network.rows(**batch.tensors()), network.entities(**batch.tensors())
    np.testing.assert_allclose(sequence_vectors(network, batch, "row"), rows, atol=1e-5)
    np.testing.assert_allclose(sequence_vectors(network, batch, "entity"), entities, atol=1e-5)


def test_the_network_is_left_as_it_is():
    network, batch = trained()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    sequence_vectors(network, batch, "row")
    for name, weight in network.state_dict().items():
        assert torch.equal(weight, before[name])
        assert weight.dtype == before[name].dtype


def test_own_observed_cells_and_the_future_do_not_reach_a_vector():
    network, batch = trained()
    values = batch.rows.values.clone()
    values[-1] += 5
    known = [c.name for c in network.schema.rows.continuous].index("km")
    values[-1, known] = batch.rows.values[-1, known]
    changed = dataclasses.replace(batch, rows=dataclasses.replace(batch.rows, values=values))
    a, b = (sequence_vectors(network, x, "row") for x in (batch, changed))
    assert np.array_equal(a, b)


def test_no_sequences_have_no_vectors():
    network, batch = trained()
    assert sequence_vectors(network, batch[:0], "row").shape == (0, 32)
    assert sequence_vectors(network, batch[:0], "entity").shape == (0, 32)


def test_output_is_checked():
    network, batch = trained()
    with pytest.raises(ValueError, match="output must be one of row, entity, got 'both'"):
        sequence_vectors(network, batch, "both")


def test_a_bar_counts_the_rows_of_many(monkeypatch, capsys):
    network, batch = trained()
    monkeypatch.setattr(module, "BUDGET", 45)
    assert np.array_equal(
        sequence_vectors(network, batch, "row", verbose=1), sequence_vectors(network, batch, "row")
    )
    assert f"{sum(LENGTHS)}/{sum(LENGTHS)}" in capsys.readouterr().out
