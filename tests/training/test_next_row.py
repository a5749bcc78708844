from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional as F

from tabembed.datasets import load_flights
from tabembed.sequence import SequenceEncoder
from tabembed.training.loop import train
from tabembed.training.next_row import NextRow, make_next_row
from tabembed.training.sequence_examples import SequenceSettings
from tabembed.training.sequence_network import SequenceNetwork
from tests.training.sequences import encode, frame


@pytest.fixture(scope="module")
def problem():
    table = frame()
    return table, *encode(table)


def part_names(schema):
    rows = schema.rows
    return [c.name for c in (*rows.categorical, *rows.continuous, *rows.datetime)] + ["gap"]


def test_targets_are_those_of_a_loop_over_rows(problem):
    table, schema, batch = problem
    target = make_next_row(schema, batch)[1]
    median = np.median(batch.gap[batch.gap > 0])
    for place, name in enumerate(part_names(schema)):
        expected = []
        for i in range(len(table)):
            last = i + 1 == len(table) or table["entity"][i + 1] != table["entity"][i]
            own = name in ("late", "delay")
            at = i if own else i + 1
            if last and not own:
                expected.append(np.nan)
            elif name == "gap":
                expected.append(np.log1p((table["time"][at] - table["time"][i]) / median))
            elif name in ("kind", "late"):
                ids = batch.rows.ids[:, [c.name for c in schema.rows.categorical].index(name)]
                expected.append(float(ids[at]))
            elif name in ("km", "delay"):
                place_of = [c.name for c in schema.rows.continuous].index(name)
                gone = pd.isna(table[name][at])
                expected.append(np.nan if gone else float(batch.rows.values[at, place_of]))
            else:
                due = table["due"]
                expected.append(2 * (due[at] - due.min()) / (due.max() - due.min()) - 1)
        np.testing.assert_allclose(target[:, place], expected, rtol=1e-5, atol=1e-6)


def test_missing_categories_are_predicted_as_the_id_that_they_are(problem):
    table, schema, batch = problem
    target = make_next_row(schema, batch)[1][:, part_names(schema).index("late")]
    assert table["late"].isna().any()
    assert torch.equal(target == 1, torch.tensor(table["late"].isna()))


def test_the_loss_is_the_mean_over_parts_of_the_textbook_ones(problem):
    _, schema, batch = problem
    objective, target = make_next_row(schema, batch)
    output = torch.randn(batch.n_rows, objective.n_outputs, generator=torch.Generator().manual_seed(0))
    parts, start = [], 0
    for place, column in enumerate(schema.rows.categorical):
        there = ~target[:, place].isnan()
        logits = output[there, start : start + column.n_ids].double()
        chances = logits.exp() / logits.exp().sum(1, keepdim=True)
        entropy = -chances[torch.arange(len(logits)), target[there, place].long()].log()
        parts.append(entropy.mean() / np.log(column.n_ids))
        start += column.n_ids
    for place in range(len(schema.rows.categorical), target.shape[1]):
        there = ~target[:, place].isnan()
        parts.append(F.huber_loss(output[there, start].double(), target[there, place].double()))
        start += 1
    assert start == objective.n_outputs
    assert objective.loss(output, target).item() == pytest.approx(float(sum(parts)) / len(parts), rel=1e-5)


def test_a_part_that_no_row_of_a_minibatch_has_does_not_count(problem):
    _, schema, batch = problem
    objective, target = make_next_row(schema, batch)
    output = torch.randn(batch.n_rows, objective.n_outputs, requires_grad=True)
    last = (batch.cu_seqlens[1:] - 1).long()  # these have nothing but what is observed
    loss = objective.loss(output[last], target[last])
    loss.backward()
    assert torch.isfinite(output.grad).all()
    assert output.grad[:, -1].eq(0).all()
    none = objective.loss(output[last], torch.full_like(target[last], torch.nan))
    assert none == 0
    alone = torch.full_like(target[:2], torch.nan)
    alone[0, -1] = 3.0
    gap = F.huber_loss(output[0, -1], torch.tensor(3.0))
    torch.testing.assert_close(objective.loss(output[:2], alone), gap)


def test_a_guess_among_all_ids_costs_one():
    schema, batch = encode(frame(), columns=("kind", "late"))
    task = NextRow(dataclasses.replace(schema, gaps=()))
    outputs = torch.zeros(batch.n_rows, task.n_outputs)
    assert task.loss(outputs, task.target(batch)).item() == pytest.approx(1)


def test_rare_values_are_predicted_as_unknown():
    table = frame((1500,))
    table["kind"] = np.arange(1500).astype(str)
    schema, batch = encode(table, columns=("kind", "km"), observed=())
    objective, target = make_next_row(schema, batch)
    assert schema.rows["kind"].n_ids == 1503
    assert objective.n_outputs == 1024 + 2
    ids = batch.rows.ids[1:, 0]
    assert torch.equal(target[:-1, 0], ids.where(ids < 1024, 2).float())


@pytest.mark.parametrize("columns", [("km",), ("tags",), ("due",)])
def test_tables_of_one_kind(columns):
    schema, batch = encode(frame(), observed=(), columns=columns)
    objective, target = make_next_row(schema, batch)
    assert target.shape[1] == objective.n_outputs == 1 + (columns != ("tags",))
    assert objective.loss(torch.zeros(batch.n_rows, objective.n_outputs), target) > 0


def test_nothing_to_predict_is_an_error():
    schema, batch = encode(frame((1, 1, 1)), observed=(), columns=("kind", "km"))
    with pytest.raises(ValueError, match="X must have an entity with two rows, or an observed column"):
        make_next_row(schema, batch)
    schema, batch = encode(frame((1, 1, 1)))
    assert make_next_row(schema, batch)[1].shape[0] == 3


def test_the_time_unit_does_not_matter():
    table = frame()
    slow = table.assign(time=table["time"] * 1000)
    plain, scaled = (make_next_row(*encode(t))[1][:, -1] for t in (table, slow))
    torch.testing.assert_close(plain, scaled, equal_nan=True)
    assert pd.notna(plain.nanmean().item())


def test_flights_teach_what_comes_next():
    flights = load_flights()
    known = ["carrier", "dest", "distance", "hour"]
    few = flights["tailnum"].isin(flights["tailnum"].unique()[:30])
    table = flights.loc[few, ["tailnum", "time_hour", *known, "dep_delay"]]
    encoder = SequenceEncoder("tailnum", "time_hour", observed=["dep_delay"]).fit(table)
    batch = encoder.transform(table)
    objective, target = make_next_row(encoder.schema_, batch)
    own = {"d_model": 16, "num_layers": 1}
    network = SequenceNetwork(encoder.schema_, objective.n_outputs, sequence=own)
    settings = SequenceSettings(max_iter=2, batch_size=256, max_length=64, learning_rate_init=0.01)
    losses = train(network, batch, target, objective, settings)
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.75 * losses[0]
