from __future__ import annotations

import copy
import pickle
import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from tabembed.batch import Ragged, TableBatch, places_of

CELLS = [[3, 4, 5], [], [6], [], [7, 1, 7]]  # row 3 is missing as a whole, row 4 holds a gap


def ragged(cells, missing):
    ids = torch.tensor([i for cell in cells for i in cell], dtype=torch.int64)
    lengths = torch.tensor([0, *map(len, cells)])
    return Ragged(ids, lengths.cumsum(0), torch.tensor(missing, dtype=torch.bool))


def cells(column):
    return [column.ids[a:b].tolist() for a, b in zip(column.offsets, column.offsets[1:], strict=False)]


@pytest.fixture
def batch():
    rows = torch.arange(5)
    return TableBatch(
        ids=torch.stack((rows + 3, 10 * rows), dim=1),
        values=rows[:, None].float() / 2,
        missing=rows[:, None] == 2,
        times=rows[:, None] * 10**18,
        lists={"tags": ragged(CELLS, [0, 0, 0, 1, 0])},
    )


def same_rows(part, batch, rows):
    """Row by row with plain Python, so that a permuted answer does not pass."""
    for name in ("ids", "values", "missing", "times"):
        assert getattr(part, name).tolist() == [getattr(batch, name)[row].tolist() for row in rows]
        assert getattr(part, name).dtype == getattr(batch, name).dtype
    assert cells(part.lists["tags"]) == [CELLS[row] for row in rows]
    assert part.lists["tags"].missing.tolist() == [row == 3 for row in rows]
    assert part.lists["tags"].offsets.dtype == torch.int64


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (slice(1, 4), [1, 2, 3]),
        (slice(None, None, 2), [0, 2, 4]),
        (slice(-2, None), [3, 4]),
        (slice(9, 12), []),
        (torch.tensor([4, 0, 0, 3]), [4, 0, 0, 3]),
        (torch.tensor([-1, 1]), [4, 1]),
        (torch.tensor([True, False, False, True, True]), [0, 3, 4]),
        ([2, 1], [2, 1]),
        ([False, True, False, False, True], [1, 4]),
        ([], []),
    ],
)
def test_rows_by_index(batch, index, rows):
    part = batch[index]
    assert isinstance(part, TableBatch)
    assert len(part) == len(rows)
    same_rows(part, batch, rows)


def test_a_single_row_is_no_batch(batch):
    text = (
        r"^TableBatch must be indexed by a slice, a mask or a list of numbers, such as \[3\], got 3; "
        r"in a DataLoader use sampler=BatchSampler\(...\) and batch_size=None$"
    )
    with pytest.raises(TypeError, match=text):
        batch[3]


@pytest.mark.parametrize(
    "index", [None, "x", 1.0, [0.5], torch.zeros(2), np.zeros((1, 2), int), [[0], [1, 2]]]
)
def test_what_is_no_index_is_refused(batch, index):
    text = r"^TableBatch must be indexed by a slice, a mask or a list of numbers, such as \[0\], got "
    with pytest.raises(TypeError, match=text + re.escape(f"{index!r:.60}")):
        batch[index]


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (np.array([0, 3, 4])[::-1], [4, 3, 0]),
        (np.array([3, 1], np.uint16), [3, 1]),
        (pd.Series([True, False, True, False, False], index=[4, 3, 2, 1, 0]), [0, 2]),
        (slice(None, None, -2), [4, 2, 0]),
        (slice(1, None, -1), [1, 0]),
    ],
)
def test_indices_of_other_libraries_go_by_place(batch, index, rows):
    same_rows(batch[index], batch, rows)


def test_a_position_out_of_range_is_an_error(batch):
    with pytest.raises(IndexError):
        batch[torch.tensor([5])]


def test_length_and_shape(batch):
    assert len(batch) == 5
    assert batch.shape == (5, 5)
    assert batch[:0].shape == (0, 5)
    assert replace(batch, lists={}).shape == (5, 4)


@pytest.mark.parametrize("name", ["ids", "values", "missing", "times"])
def test_unequal_rows_are_refused(batch, name):
    with pytest.raises(
        ValueError, match=rf"TableBatch must have equally many rows everywhere, got .*'{name}': 4"
    ):
        replace(batch, **{name: getattr(batch, name)[:4]})


def test_unequal_rows_of_a_list_are_refused(batch):
    with pytest.raises(ValueError, match=r"equally many rows everywhere, got .*lists\['short'\].*: 1"):
        replace(batch, lists={"short": ragged([[3]], [0])})


def test_a_batch_is_frozen(batch):
    with pytest.raises(FrozenInstanceError):
        batch.ids = batch.ids


def test_tensors_are_the_arguments_of_a_module(batch):
    arguments = batch.tensors()
    assert list(arguments) == ["ids", "values", "missing", "times", "lists"]
    assert arguments["ids"] is batch.ids
    assert arguments["lists"] == batch.lists
    assert arguments["lists"] is not batch.lists
    plain = replace(batch, times=batch.times[:, :0], lists={}).tensors()
    assert list(plain) == ["ids", "values", "missing"]


@pytest.mark.parametrize(("size", "lengths"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_batches_in_order(batch, size, lengths):
    parts = list(batch.batches(size))
    assert [len(part) for part in parts] == lengths
    assert torch.cat([part.ids for part in parts]).equal(batch.ids)
    start = 0
    for part in parts:
        same_rows(part, batch, range(start, start + len(part)))
        start += len(part)


def test_shuffled_batches_hold_every_row_once_and_follow_the_generator(batch):
    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        parts = list(batch.batches(2, shuffle=True, generator=generator))
        rows = [int(i) for part in parts for i in part.ids[:, 0] - 3]
        start = 0
        for part in parts:
            same_rows(part, batch, rows[start : start + len(part)])
            start += len(part)
        return rows

    orders = [drawn(seed) for seed in range(6)]
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert orders[0] == drawn(0)
    assert len(set(map(tuple, orders))) > 1


def test_an_own_generator_leaves_the_global_one_alone(batch):
    before = torch.random.get_rng_state()
    list(batch.batches(2, shuffle=True, generator=torch.Generator().manual_seed(0)))
    assert torch.random.get_rng_state().equal(before)


def test_an_empty_batch_has_no_parts(batch):
    assert list(batch[:0].batches(2)) == []
    assert list(batch[:0].batches(2, shuffle=True)) == []


@pytest.mark.parametrize("size", [0, -1])
def test_batch_size_must_be_positive(batch, size):
    with pytest.raises(ValueError, match=f"batch_size must be at least 1, got {size}"):
        next(batch.batches(size))


def test_to_moves_every_tensor_and_keeps_dtypes(batch):
    moved = batch.to("meta")
    assert {t.device.type for t in (moved.ids, moved.values, moved.missing, moved.times)} == {"meta"}
    assert {t.device.type for t in moved.lists["tags"]} == {"meta"}
    assert batch.to(torch.float64) is batch
    assert batch.to("cpu", non_blocking=True).values.dtype == torch.float32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_pinned_memory(batch):
    pinned = batch.pin_memory()
    assert pinned.ids.is_pinned()
    assert pinned.lists["tags"].ids.is_pinned()
    same_rows(pinned.to("cuda", non_blocking=True).to("cpu"), batch, range(5))


@pytest.mark.parametrize("way", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_copies_are_equal(batch, way):
    same_rows(way(batch), batch, range(5))


@pytest.mark.parametrize("n_workers", [0, 2])
def test_in_a_data_loader(batch, n_workers):
    sampler = BatchSampler(SequentialSampler(range(len(batch))), batch_size=2, drop_last=False)
    loader = DataLoader(batch, sampler=sampler, batch_size=None, num_workers=n_workers)
    parts = list(loader)
    assert [type(part) for part in parts] == [TableBatch] * 3
    for part, rows in zip(parts, ([0, 1], [2, 3], [4]), strict=True):
        same_rows(part, batch, rows)


def test_in_a_shuffling_data_loader(batch):
    generator = torch.Generator().manual_seed(1)
    sampler = BatchSampler(RandomSampler(range(len(batch)), generator=generator), 2, drop_last=True)
    parts = list(DataLoader(batch, sampler=sampler, batch_size=None))
    assert [len(part) for part in parts] == [2, 2]
    for part in parts:
        same_rows(part, batch, (part.ids[:, 0] - 3).tolist())


def test_taking_cells_twice_is_taking_them_once():
    column = ragged(CELLS, [0, 0, 0, 1, 0])
    twice = column.take(torch.tensor([4, 3, 0])).take(torch.tensor([2, 0, 0]))
    assert cells(twice) == [[3, 4, 5], [7, 1, 7], [7, 1, 7]]
    assert cells(column.take(torch.tensor([], dtype=torch.int64))) == []


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(
    ("bounds", "groups"),
    [
        ([0, 3, 3, 4, 9, 11], [4, 0, 0, 3, 1, 2]),
        ([0, 3, 3, 4, 9, 11], [1, 1]),
        ([0, 3, 3, 4, 9, 11], []),
        ([2, 3, 7], [1, 0]),
        ([0], []),
    ],
)
def test_places_of_groups(bounds, groups, dtype):
    places, offsets = places_of(torch.tensor(bounds, dtype=dtype), torch.tensor(groups, dtype=torch.int64))
    taken = [list(range(bounds[group], bounds[group + 1])) for group in groups]
    assert places.tolist() == [place for group in taken for place in group]
    assert offsets.tolist() == [sum(map(len, taken[:i])) for i in range(len(taken) + 1)]
    assert (places.dtype, offsets.dtype) == (torch.int64, dtype)
