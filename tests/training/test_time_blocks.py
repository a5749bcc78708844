from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from tabembed.schema import MISSING_TIME
from tabembed.training.crossfit import ridge_map
from tabembed.training.loop import train
from tabembed.training.objective import make_objective
from tabembed.training.sequence_examples import SequenceSettings
from tabembed.training.sequence_fit import SequenceTask, fit_sequences
from tabembed.training.sequence_network import SequenceNetwork
from tabembed.training.sequence_vectors import in_input_order, sequence_vectors
from tabembed.training.time_blocks import fit_time_blocks, time_blocks
from tests.training.sequences import encode, frame

SMALL = {"d_model": 16, "num_layers": 1}
SETTINGS = SequenceSettings(max_iter=2, batch_size=32, learning_rate_init=0.01)


def test_blocks_hold_equally_many_rows():
    times = np.random.RandomState(0).permutation(1000)
    blocks = time_blocks(times, 5)
    assert np.bincount(blocks).tolist() == [200] * 5
    for block in range(4):
        assert times[blocks == block].max() < times[blocks == block + 1].min()


def test_no_instant_is_cut_in_two():
    times = np.random.RandomState(0).randint(0, 20, 500)
    times[:200] = 7
    times[::17] = MISSING_TIME
    blocks = time_blocks(times, 4)
    assert (blocks[times == MISSING_TIME] == -1).all()
    there = times != MISSING_TIME
    assert pd.Series(blocks[there]).groupby(times[there]).nunique().eq(1).all()
    order = np.argsort(times[there], kind="stable")
    assert (np.diff(blocks[there][order]) >= 0).all()
    numbers = np.unique(blocks[there])
    assert numbers.tolist() == list(range(len(numbers)))


def test_a_heavy_instant_makes_fewer_blocks():
    times = np.array([0] * 90 + list(range(1, 11)))
    assert time_blocks(times, 5).tolist() == [0] * 90 + [1] * 10


def test_times_of_nanoseconds_are_kept_apart():
    times = 1_700_000_000_000_000_000 + np.arange(4)
    assert time_blocks(times, 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("times", "n_blocks", "message"),
    [
        ([1, 2, 3], 1, "n_blocks must be at least 2, got 1"),
        ([1, 2, 3], 0, "n_blocks must be at least 1, got 0"),
        ([1, 1, MISSING_TIME, 1], 2, "time must have at least 2 instants for 2 blocks, got 1 instants"),
    ],
)
def test_bad_blocks(times, n_blocks, message):
    with pytest.raises(ValueError, match=message):
        time_blocks(np.array(times), n_blocks)


def in_time_order():
    """A table whose rows stand in time order, with a target."""
    table = frame((12, 1, 17, 6, 9, 15, 14))
    return table.sort_values("time", kind="stable", ignore_index=True)


def encode_rows(table, rows, schema_of=None):
    """Sequences of some rows of a table, ``row`` counting these rows; the schema of an encoder of others."""
    part = table.iloc[rows].reset_index(drop=True)
    order = np.lexsort((part["time"], part["entity"]))
    sorted_part = part.iloc[order].reset_index(drop=True)
    codes = np.unique(sorted_part["entity"], return_inverse=True)[1]
    schema, batch = encode(sorted_part.assign(entity=codes), columns=("km", "delay"), observed=("delay",))
    return schema, dataclasses.replace(batch, row=torch.from_numpy(order), n_input=len(part))


class Preparation:
    """What an estimator hands over: it looks at the rows that it is given, and keeps account of them."""

    def __init__(self, table, y):
        self.table, self.fits, self.encoded = table, [], []
        self.y = torch.tensor(y, dtype=torch.float32)
        self.objective = make_objective(y)[0]

    def start(self, rows):
        self.fits.append(rows)
        return SequenceNetwork(encode_rows(self.table, rows)[0], 1, sequence=SMALL), self.encode

    def task(self, rows):
        network, _ = self.start(rows)
        batch = encode_rows(self.table, rows)[1]
        target = self.y[torch.from_numpy(rows)][batch.row]
        return SequenceTask(network, batch, target, self.objective), self.encode

    def encode(self, rows):
        self.encoded.append(rows)
        return encode_rows(self.table, rows)[1]


def test_blocks_are_encoded_by_fits_on_earlier_blocks_with_their_history():
    table = in_time_order()
    y = np.random.RandomState(0).randn(len(table))
    blocks = time_blocks(table["time"].to_numpy(), 3)
    prepare = Preparation(table, y)
    task = prepare.task(np.arange(len(table)))[0]
    prepare.fits.clear()
    full = fit_sequences(task, SETTINGS, splits=[], seed=0, output="row")[0]
    found = fit_time_blocks(full, task.batch, blocks, SETTINGS, rows=prepare, n_passes=2, seed=5)
    n = np.bincount(blocks).cumsum()
    assert [rows.tolist() for rows in prepare.fits] == [list(range(k)) for k in (n[0], n[0], n[1])]
    assert [rows.tolist() for rows in prepare.encoded] == [list(range(k)) for k in n]
    goal = in_input_order(sequence_vectors(full, task.batch, "row"), task.batch)
    for block in range(3):
        seen = np.arange(n[max(block - 1, 0)])
        own, until = np.flatnonzero(blocks == block), np.arange(n[block])
        task, _ = prepare.task(seen)
        network = copy.deepcopy(task.initial).eval()
        if block:
            own_settings = {"seed": 5 + block, "n_passes": 2}
            train(network, task.batch, task.target, task.objective, SETTINGS, **own_settings)
        now = encode_rows(table, until)[1]
        expected = in_input_order(sequence_vectors(network, now, "row"), now)[own]
        if block:
            theirs = in_input_order(sequence_vectors(network, task.batch, "row"), task.batch)
            expected = ridge_map(theirs, goal[seen])(expected)
        np.testing.assert_allclose(found[own], expected, rtol=1e-5, atol=1e-6)


def test_later_targets_do_not_reach_the_first_block_nor_later_cells_any():
    table = in_time_order()
    y = np.random.RandomState(0).randn(len(table))
    blocks = time_blocks(table["time"].to_numpy(), 3)
    network = SequenceNetwork(encode_rows(table, np.arange(len(table)))[0], 1, sequence=SMALL).eval()
    batch = encode_rows(table, np.arange(len(table)))[1]
    found = []
    for change in (0.0, 3.0):
        changed, other = table.copy(), y.copy()
        changed.loc[blocks == 2, ["km", "delay"]] += change
        other[blocks == 2] += change
        prepare = Preparation(changed, other)
        found.append(fit_time_blocks(network, batch, blocks, SETTINGS, rows=prepare, n_passes=1, seed=0))
    assert np.array_equal(found[0][blocks < 2], found[1][blocks < 2])
    assert not np.allclose(found[0][blocks == 2], found[1][blocks == 2])


def test_rows_without_a_block_have_no_vector():
    table = in_time_order()
    y = np.random.RandomState(0).randn(len(table))
    times = table["time"].to_numpy().copy()
    times[::10] = MISSING_TIME
    there = np.flatnonzero(times != MISSING_TIME)
    schema, batch = encode_rows(table, there)
    whole = dataclasses.replace(batch, row=torch.from_numpy(there)[batch.row], n_input=len(table))
    network = SequenceNetwork(schema, 1, sequence=SMALL).eval()
    found = fit_time_blocks(
        network,
        whole,
        time_blocks(times, 2),
        SETTINGS,
        rows=Preparation(table, y),
        n_passes=1,
        seed=0,
    )
    assert np.array_equal(np.isnan(found).any(1), times == MISSING_TIME)
    assert found.dtype == np.float32
