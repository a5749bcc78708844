from __future__ import annotations

import numpy as np
import pytest
import torch

from tabembed.training.examples import TableExamples
from tabembed.training.loop import Settings
from tabembed.training.sequence_examples import SequenceExamples, SequenceSettings
from tests.training.sequences import encode, frame

LENGTHS = (3, 1, 17, 6, 2, 9)


@pytest.fixture(scope="module")
def batch():
    return encode(frame(LENGTHS))[1]


def by_row(batch):
    return SequenceExamples(batch, batch.times.double(), "row")


def by_entity(batch):
    return SequenceExamples(batch, torch.arange(len(batch)) * 10.0, "entity")


def test_minibatches_of_rows_are_each_row_once(batch):
    examples = TableExamples(batch.rows, torch.arange(len(batch.rows)))
    settings = Settings(batch_size=16)
    steps = list(examples.ready(settings).steps(settings, torch.Generator().manual_seed(0)))
    assert [len(step) for step in steps] == [16, 16, 6]
    assert len(steps) == examples.n_steps(settings)
    drawn = torch.cat([step.target for step in steps])
    assert sorted(drawn.tolist()) == list(range(38))
    order = torch.cat([step.batch.ids for step in steps])
    assert torch.equal(order, batch.rows.ids[drawn])


@pytest.mark.parametrize(("max_length", "batch_size"), [(512, 16), (5, 16), (4, 1), (1, 7)])
def test_minibatches_of_sequences_hold_every_row_once_with_its_target(batch, max_length, batch_size):
    settings = SequenceSettings(batch_size=batch_size, max_length=max_length)
    examples = by_row(batch).ready(settings)
    generator = torch.Generator().manual_seed(0)
    passes = [list(examples.steps(settings, generator)) for _ in range(2)]
    for steps in passes:
        assert sorted(torch.cat([step.batch.times for step in steps]).tolist()) == sorted(
            batch.times.tolist()
        )
        for step in steps:
            assert torch.equal(step.target, step.batch.times.double())
            assert int(step.batch.lengths.max()) <= max_length
            assert len(step) == 1 or step.batch.n_rows <= batch_size


def test_every_pass_has_an_order_of_its_own():
    batch = encode(frame((4,) * 40))[1]
    settings = SequenceSettings(batch_size=16)
    generator = torch.Generator().manual_seed(0)
    passes = [list(by_row(batch).steps(settings, generator)) for _ in range(2)]
    first, second = ([step.batch.times.tolist() for step in steps] for steps in passes)
    assert first != second
    again = list(by_row(batch).steps(settings, torch.Generator().manual_seed(0)))
    assert [step.batch.times.tolist() for step in again] == first


def test_entities_keep_their_target_and_their_last_rows(batch):
    settings = SequenceSettings(batch_size=16, max_length=5)
    examples = by_entity(batch).ready(settings)
    seen = {}
    for step in examples.steps(settings, torch.Generator().manual_seed(0)):
        for i, target in enumerate(step.target.tolist()):
            seen[int(target) // 10] = step.batch[[i]].times.tolist()
    offsets = batch.cu_seqlens.tolist()
    expected = {
        i: batch.times[max(offsets[i], offsets[i + 1] - 5) : offsets[i + 1]].tolist() for i in range(6)
    }
    assert seen == expected


def test_units_are_whole_sequences(batch):
    chosen = torch.tensor([4, 2])
    for examples in (by_row(batch), by_entity(batch)):
        part = examples[chosen]
        assert len(part) == 2
        assert part.batch.lengths.tolist() == [2, 17]
    assert torch.equal(by_row(batch)[chosen].target, by_row(batch)[chosen].batch.times.double())
    assert by_entity(batch)[chosen].target.tolist() == [40, 20]
    assert torch.equal(by_row(batch).places(chosen), torch.tensor([*range(27, 29), *range(4, 21)]))
    assert TableExamples(batch.rows, batch.times).places(chosen) is chosen


def test_parts_are_all_sequences_whole(batch):
    parts = list(by_row(batch).parts())
    assert sum(part.batch.n_rows for part in parts) == 38
    assert all(torch.equal(part.target, part.batch.times.double()) for part in parts)


def test_the_target_of_rows(batch):
    assert torch.equal(by_row(batch).row_target, batch.times.double())
    expected = np.repeat(np.arange(6) * 10.0, LENGTHS)
    assert np.array_equal(by_entity(batch).row_target, expected)
    many = SequenceExamples(batch, torch.zeros(38, 2), "row")
    assert many.row_target is None


def test_unseen_ids_are_unknown(batch):
    training, held_out = by_row(batch)[torch.tensor([1])], by_row(batch)[torch.tensor([2, 3])]
    found = held_out.unseen_to_unknown(training)
    for column in range(2):
        seen = training.rows.ids[:, column]
        ids = held_out.rows.ids[:, column]
        assert torch.equal(found.rows.ids[:, column], ids.where(torch.isin(ids, seen), 2))
    assert not torch.equal(found.rows.ids, held_out.rows.ids)
    assert torch.equal(found.target, held_out.target)


def test_steps_are_counted_nearly(batch):
    settings = SequenceSettings(batch_size=10, max_length=5)
    examples = by_row(batch).ready(settings)
    steps = list(examples.steps(settings, torch.Generator().manual_seed(0)))
    assert examples.n_steps(settings) == 4 <= len(steps) <= 8


@pytest.mark.parametrize(("n_rows", "expected"), [(100, 32), (30_000, 234), (300_000, 2048)])
def test_auto_counts_rows(n_rows, expected):
    assert SequenceSettings().rows_per_step(n_rows) == expected
    assert SequenceSettings(batch_size=7).rows_per_step(n_rows) == 7


def test_max_length_is_checked():
    with pytest.raises(ValueError, match="max_length must be at least 1, got 0"):
        SequenceSettings(max_length=0)
    with pytest.raises(ValueError, match="max_iter must be at least 1, got 0"):
        SequenceSettings(max_iter=0)
