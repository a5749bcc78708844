from __future__ import annotations

import pickle

import pytest
import torch
from made_sequences import LENGTHS, assert_laid_out, made, owned
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler


def expected(batch, length, stride):
    """Windows of every sequence by a loop: backwards from its last row, until its first row is in one."""
    layout, entities = [], []
    for entity, rows in zip(batch.entities, owned(batch), strict=True):
        found, end = [], len(rows)
        while rows:
            found.insert(0, rows[max(end - length, 0) : max(end, min(length, len(rows)))])
            if end <= length:
                break
            end -= stride
        layout += [window + [None] * (length - len(window)) for window in found]
        entities += [entity] * len(found)
    return layout, entities


@pytest.mark.parametrize("stride", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_every_window(lengths, length, stride):
    batch = made(lengths)
    windows = batch.windows(length, stride)
    layout, entities = expected(batch, length, stride)
    assert len(windows) == len(layout)
    every = windows[:]
    assert every.shape == (len(layout), length)
    assert_laid_out(every, batch, layout)
    assert every.entities.tolist() == entities


def test_windows_by_hand():
    batch = made((7, 2))
    assert expected(batch, 3, 2)[0] == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [7, 8, None]]
    assert expected(batch, 3, 3)[0] == [[0, 1, 2], [1, 2, 3], [4, 5, 6], [7, 8, None]]


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_every_row_stands_in_a_window(stride):
    batch = made(LENGTHS["odd"])
    every = batch.windows(4, stride)[:]
    assert set(every.row[every.mask].tolist()) == set(batch.row.tolist())


@pytest.mark.parametrize(
    ("index", "numbers"),
    [
        (slice(1, 4), [1, 2, 3]),
        (slice(None, None, 5), [0, 5, 10, 15]),
        (slice(-2, None), [16, 17]),
        (slice(None, 15, -1), [17, 16]),
        (slice(40, 50), []),
        (torch.tensor([4, 0, 0, 17]), [4, 0, 0, 17]),
        (torch.tensor([-1, 1]), [17, 1]),
        ([2, 1], [2, 1]),
        ([], []),
        (torch.arange(18) % 7 == 3, [3, 10, 17]),
    ],
)
def test_windows_by_index(index, numbers):
    batch = made((9, 2, 3, 11))
    windows = batch.windows(3, 1)
    layout, entities = expected(batch, 3, 1)
    assert len(windows) == 18
    assert_laid_out(windows[index], batch, [layout[i] for i in numbers])
    assert windows[index].entities.tolist() == [entities[i] for i in numbers]


def test_full_windows_are_read_alike_beside_padded_ones():
    batch = made((9, 2, 11, 1))
    windows = batch.windows(4)
    layout, _ = expected(batch, 4, 1)
    full = [i for i, window in enumerate(layout) if None not in window]
    assert 0 < len(full) < len(layout)
    assert_laid_out(windows[full], batch, [layout[i] for i in full])
    assert_laid_out(batch[torch.tensor([0, 2])].windows(4)[:], batch, [layout[i] for i in full])


def test_columns_of_another_memory_layout():
    batch = made((9, 2, 11))
    rows = batch.rows
    turned = type(rows)(
        rows.ids.T.contiguous().T, rows.values.flip(0).flip(0), rows.missing, rows.times, rows.lists
    )
    other = type(batch)(**{**vars(batch), "rows": turned, "times": torch.stack((batch.times,) * 2, 1)[:, 0]})
    assert_laid_out(other.windows(4)[:], batch, expected(batch, 4, 1)[0])


def test_rows_that_are_a_part_of_larger_tensors():
    whole = made((9, 2, 11))
    flat = {name: getattr(whole, name)[9:] for name in ("rows", "times", "elapsed", "gap", "row")}
    cu_seqlens = torch.tensor([0, 2, 13], dtype=torch.int32)
    part = type(whole)(**{**vars(whole), **flat, "cu_seqlens": cu_seqlens, "entities": whole.entities[1:]})
    layout = [[place and place + 9 for place in window] for window in expected(part, 4, 1)[0][1:]]
    assert_laid_out(part.windows(4)[1:], whole, layout)


@pytest.mark.parametrize("index", [3, torch.tensor(3), torch.tensor([[3]])])
def test_a_single_window_is_no_batch(index):
    with pytest.raises(
        TypeError, match=r"Windows must be indexed by a slice, a mask or a list of numbers, .* got .*3.*"
    ):
        made((9, 2)).windows(4)[index]


@pytest.mark.parametrize("index", [[0, 7], [-8]])
def test_a_number_out_of_range_is_an_error(index):
    windows = made((9, 2)).windows(4)
    with pytest.raises(IndexError, match=rf"windows must be numbered from 0 to 6, got {index[-1]}"):
        windows[index]


def test_a_mask_of_another_length_is_an_error():
    with pytest.raises(IndexError, match="the mask must have 7 entries, one a window, got 6"):
        made((9, 2)).windows(4)[[True] * 6]


def test_numbers_must_be_integers():
    with pytest.raises(TypeError, match=r"Windows must be indexed by .*, got tensor\(\[0.0000, 1.5000\]\)"):
        made((9, 2)).windows(4)[torch.tensor([0.0, 1.5])]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((0,), ValueError, "length must be at least 1, got 0"),
        ((4, 0), ValueError, "stride must be at least 1, got 0"),
        ((4.0,), TypeError, "length must be an integer, got 4.0"),
        ((4, True), TypeError, "stride must be an integer, got True"),
    ],
)
def test_bad_sizes_are_errors(arguments, error, match):
    with pytest.raises(error, match=match):
        made((9, 2)).windows(*arguments)


@pytest.mark.parametrize("n_workers", [0, 2])
def test_in_a_data_loader(n_workers):
    batch = made((9, 2, 11))
    windows = batch.windows(4)
    layout, _ = expected(batch, 4, 1)
    sampler = BatchSampler(SequentialSampler(windows), batch_size=6, drop_last=False)
    parts = list(DataLoader(windows, sampler=sampler, batch_size=None, num_workers=n_workers))
    assert [len(part) for part in parts] == [6, 6, 3]
    for i, part in enumerate(parts):
        assert_laid_out(part, batch, layout[6 * i : 6 * i + 6])


def test_in_a_shuffling_data_loader():
    batch = made((9, 2, 11))
    windows = batch.windows(4)
    sampler = RandomSampler(windows, generator=torch.Generator().manual_seed(0))
    parts = list(DataLoader(windows, sampler=BatchSampler(sampler, 4, drop_last=False), batch_size=None))
    found = torch.cat([part.row for part in parts]).tolist()
    assert sorted(found) == sorted(windows[:].row.tolist())
    assert found != windows[:].row.tolist()


def test_a_data_loader_that_asks_for_single_windows_is_told_how():
    with pytest.raises(TypeError, match=r"in a DataLoader use sampler=BatchSampler\(\.\.\.\) and batch_size"):
        next(iter(DataLoader(made((9, 2)).windows(4), batch_size=3)))


def test_copies_read_alike():
    batch = made((9, 2, 11))
    again = pickle.loads(pickle.dumps(batch.windows(4, 3)))
    assert_laid_out(again[:], batch, expected(batch, 4, 3)[0])


def test_it_says_what_it_is():
    assert repr(made((9, 2), absent=0).windows(4, 3)) == (
        "Windows(4 of length 4, stride 3, of SequenceBatch(2 sequences, 11 rows))"
    )
