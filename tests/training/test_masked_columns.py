from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from tabembed import CategoricalList, TableEncoder
from tabembed.training.masked_columns import N_BINS, MaskedColumns, make_masked_columns
from tabembed.training.masked_examples import LEAST_HIDDEN, MOST_HIDDEN, MaskedExamples, hide


def frame(n_rows=137):
    draw = np.random.RandomState(0)
    return pd.DataFrame(
        {
            "city": draw.choice(["Oslo", "Rome", "Lima", None], n_rows),
            "km": np.where(draw.rand(n_rows) < 0.1, np.nan, draw.randn(n_rows)),
            "rooms": draw.choice([1, 2, 5], n_rows),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(draw.randint(0, 1000, n_rows), unit="h"),
            "tags": [["a", "b"][: i % 3] for i in range(n_rows)],
        }
    )


@pytest.fixture(scope="module")
def problem():
    table = frame()
    table.loc[3, "when"] = pd.NaT
    encoder = TableEncoder(columns={"tags": CategoricalList()}).fit(table)
    encoder = TableEncoder().fit(table)
    batch = encoder.transform(table)
    return table, encoder.schema_, batch, MaskedColumns(encoder.schema_, batch)


def test_classes_are_ids_distinct_numbers_and_bins(problem):
    table, _, batch, task = problem
    city, km, rooms, when = task.target(batch).unbind(1)
    missing = table["city"].isna().to_numpy()
    assert np.array_equal(np.isnan(city.numpy()), missing)
    assert np.array_equal(city.numpy()[~missing], batch.ids[:, 0].numpy()[~missing])
    assert rooms.tolist() == [{1: 0, 2: 1, 5: 2}[n] for n in table["rooms"]]
    assert np.array_equal(km.isnan().numpy(), table["km"].isna())
    assert np.array_equal(when.isnan().numpy(), table["when"].isna())
    for classes, column in ((km, table["km"]), (when, table["when"])):
        there = ~classes.isnan().numpy()
        # Classes rise with the number, and each has its share of the rows.
        order = np.argsort(column.to_numpy()[there], kind="stable")
        assert (np.diff(classes.numpy()[there][order]) >= 0).all()
        counts = np.bincount(classes.numpy()[there].astype(int))
        assert len(counts) == N_BINS
        assert counts.max() <= there.sum() / N_BINS + 3


def test_the_loss_is_the_mean_over_columns_of_the_textbook_one(problem):
    _, _, batch, task = problem
    examples = hide(batch, task.target(batch), torch.Generator().manual_seed(1))
    output = torch.randn(len(batch), task.n_outputs, generator=torch.Generator().manual_seed(0))
    means, start = [], 0
    for part, n_classes in enumerate(task.n_classes):
        terms = []
        for row in range(len(batch)):
            goal = examples.target[row, part].item()
            if not np.isnan(goal):
                logits = output[row, start : start + n_classes].double()
                terms.append(-float(logits[int(goal)] - logits.exp().sum().log()))
        means.append(np.mean(terms) / np.log(n_classes))
        start += n_classes
    assert start == task.n_outputs
    assert task.loss(output, examples.target).item() == pytest.approx(np.mean(means), rel=1e-5)


def test_a_guess_costs_one_and_an_absent_column_nothing(problem):
    _, _, batch, task = problem
    target = task.target(batch)
    output = torch.zeros(len(batch), task.n_outputs, requires_grad=True)
    assert task.loss(output, target).item() == pytest.approx(1)
    only = target.clone()
    only[:, 1:] = torch.nan
    loss = task.loss(output, only)
    assert loss.item() == pytest.approx(1)
    loss.backward()
    assert output.grad[:, task.n_classes[0] :].eq(0).all()
    assert task.loss(output, torch.full_like(target, torch.nan)).item() == 0


def test_rare_values_are_predicted_as_unknown():
    table = pd.DataFrame({"id": np.arange(1500).astype(str), "km": np.arange(1500.0)})
    encoder = TableEncoder().fit(table)
    batch = encoder.transform(table)
    objective, target = make_masked_columns(encoder.schema_, batch)
    assert objective.target_type == "masked_columns"
    assert objective.n_outputs == 1024 + N_BINS
    ids = batch.ids[:, 0]
    assert torch.equal(target[:, 0], ids.where(ids < 1024, 2).float())


def test_hidden_cells_are_unknown_or_missing_and_alone_have_a_target(problem):
    _, _, batch, task = problem
    target = task.target(batch)
    found = hide(batch, target, torch.Generator().manual_seed(3))
    hidden = torch.zeros(target.shape, dtype=torch.bool)
    hidden[:, :1] = (found.batch.ids != batch.ids) | (found.batch.ids == 2)
    hidden[:, 1:3] = found.batch.missing & ~batch.missing
    hidden[:, 3:] = (found.batch.times != batch.times) | (found.batch.times == -(2**63))
    with_target = ~found.target.isnan()
    assert torch.equal(with_target & ~target.isnan(), with_target)
    assert torch.equal(hidden & ~target.isnan(), with_target)
    assert torch.equal(found.target[with_target], target[with_target])
    assert (found.batch.ids[hidden[:, :1]] == 2).all()
    assert (found.batch.values[found.batch.missing] == 0).all()
    kept = ~found.batch.missing
    assert torch.equal(found.batch.values[kept], batch.values[kept])
    assert found.batch.lists["tags"] is batch.lists["tags"]
    share = with_target.sum() / (~target.isnan()).sum()
    assert share.item() == pytest.approx((LEAST_HIDDEN + MOST_HIDDEN) / 2, abs=0.06)


def test_minibatches_hide_other_cells_every_time_and_held_out_rows_always_the_same(problem):
    _, _, batch, task = problem
    examples = MaskedExamples(batch, task.target(batch))

    class Settings:
        def rows_per_step(self, n_rows):
            return 50

    def passes(seed):
        generator = torch.Generator().manual_seed(seed)
        ready = examples.to("cpu").ready(None)
        return [[part.target for part in ready.steps(Settings(), generator)] for _ in range(2)]

    first, second = passes(0)
    assert [len(part) for part in first] == [50, 50, 37]
    assert torch.equal(first[0].nan_to_num(-1), passes(0)[0][0].nan_to_num(-1))
    assert not torch.equal(first[0].nan_to_num(-1), second[0].nan_to_num(-1))
    assert not torch.equal(first[0].nan_to_num(-1), passes(1)[0][0].nan_to_num(-1))
    some = examples[torch.arange(100)].unseen_to_unknown(examples)
    once, again = next(some.parts()), next(some.parts())
    assert torch.equal(once.target.nan_to_num(-1), again.target.nan_to_num(-1))
    assert once.target.isnan().sum() > some.target.isnan().sum()
    assert examples.row_target is None
