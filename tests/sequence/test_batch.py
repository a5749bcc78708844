from __future__ import annotations

import copy
import math
import pickle
import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from made_sequences import LENGTHS, assert_holds, made, owned, same

from tabembed.sequence import SequenceBatch
from tabembed.sequence.batch import example


@pytest.mark.parametrize(
    ("index", "numbers"),
    [
        (slice(1, 4), [1, 2, 3]),
        (slice(None, None, 3), [0, 3, 6]),
        (slice(9, 12), []),
        (slice(None, 4, -1), [6, 5]),
        (torch.tensor([4, 0, 0, 6]), [4, 0, 0, 6]),
        (torch.tensor([-1, 1]), [6, 1]),
        (torch.tensor([True, False, False, True, True, False, False]), [0, 3, 4]),
        (np.array([2, 1]), [2, 1]),
        ([2, 1], [2, 1]),
        ([], []),
    ],
)
def test_sequences_by_index(index, numbers):
    batch = made(LENGTHS["odd"])
    rows = owned(batch)
    assert_holds(batch[index], (batch, [rows[i] for i in numbers]))
    assert batch[index].entities.tolist() == [f"card {i}" for i in numbers]


@pytest.mark.parametrize("index", [3, np.int64(3), torch.tensor(3)])
def test_a_single_sequence_is_no_batch(index):
    text = r"SequenceBatch must be indexed by a slice, a mask or a list of numbers, such as \[[03]\], got"
    with pytest.raises(TypeError, match=text):
        made((3, 1, 2, 4))[index]


@pytest.mark.parametrize("index", [None, "x", 1.0, [0.5], torch.zeros(2), np.zeros((1, 2), int)])
def test_what_is_no_index_is_refused(index):
    batch, text = (
        made((3, 1)),
        r"must be indexed by a slice, a mask or a list of numbers, such as \[0\], got ",
    )
    for owner, name in ((batch, "SequenceBatch"), (batch.windows(2), "Windows")):
        with pytest.raises(TypeError, match=f"^{name} {text}" + re.escape(f"{index!r:.60}")):
            owner[index]


def test_a_number_out_of_range_is_an_error():
    with pytest.raises(IndexError):
        made((3, 1))[torch.tensor([2])]


@pytest.mark.parametrize("n", [1, 2, 3, 20])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_the_last_rows_of_every_sequence(lengths, n):
    batch = made(lengths)
    last = batch.last(n)
    assert_holds(last, (batch, [rows[-n:] for rows in owned(batch)]))
    assert last.entities.tolist() == batch.entities.tolist()


def cut_by_hand(rows, length):
    """As few pieces as can be; the longer ones first, by one row."""
    count = max(math.ceil(len(rows) / length), 1)
    return [part.tolist() for part in np.array_split(np.array(rows, dtype=int), count)]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 20])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_long_sequences_are_cut_and_nothing_is_lost(lengths, length):
    batch = made(lengths)
    pieces = [cut_by_hand(rows, length) for rows in owned(batch)]
    cut = batch.cut(length)
    for piece, wanted in zip(cut.lengths.tolist(), [len(p) for s in pieces for p in s], strict=True):
        assert piece <= length
        assert piece == wanted
    owners = [entity for entity, parts in zip(batch.entities, pieces, strict=True) for _ in parts]
    assert_holds(cut, (batch, [piece for parts in pieces for piece in parts]))
    assert cut.entities.tolist() == owners


@pytest.mark.parametrize(("way", "name"), [(SequenceBatch.last, "n"), (SequenceBatch.cut, "length")])
def test_bad_lengths_are_errors(way, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        way(made((3, 1)), 0)
    with pytest.raises(TypeError, match=f"{name} must be an integer, got 2.0"):
        way(made((3, 1)), 2.0)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_back_to_the_order_of_the_table(lengths, dtype, shape):
    batch = made(lengths)
    vectors = torch.randn(batch.n_rows, *shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    wanted = torch.full((batch.n_input, *shape), torch.nan, dtype=dtype)
    for vector, row in zip(vectors, batch.row, strict=True):
        wanted[row] = vector
    for merged, into in batch.merged.tolist():
        wanted[merged] = wanted[into]
    same(batch.to_input_order(vectors), wanted)


def test_gradients_pass_through_the_order_of_the_table():
    batch = made((3, 2))
    vectors = torch.randn(5, 2, requires_grad=True)
    batch.to_input_order(vectors).nan_to_num().sum().backward()
    # the first and the last row also stand for a merged one
    assert vectors.grad.tolist() == [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_only_floats_go_back_to_the_table(dtype):
    with pytest.raises(TypeError, match=f"vectors must be floats: rows not here are NaN, got {dtype}"):
        made((3, 2)).to_input_order(torch.zeros(5, dtype=dtype))


def test_only_tensors_go_back_to_the_table():
    with pytest.raises(TypeError, match="vectors must be a tensor, got ndarray"):
        made((3, 2)).to_input_order(np.zeros(5))


@pytest.mark.parametrize("shape", [(4,), (6, 2), ()])
def test_as_many_vectors_as_rows_go_back_to_the_table(shape):
    with pytest.raises(ValueError, match=r"vectors must have 5 rows, got shape \("):
        made((3, 2)).to_input_order(torch.zeros(shape))


@pytest.mark.parametrize("name", ["rows", "times", "elapsed", "gap", "row"])
def test_unequal_rows_are_refused(name):
    batch = made((3, 2))
    with pytest.raises(
        ValueError, match=rf"SequenceBatch must have equally many rows everywhere, got .*'{name}': 4"
    ):
        replace(batch, **{name: getattr(batch, name)[:4]})


def test_entities_must_be_one_a_sequence():
    batch = made((3, 2))
    with pytest.raises(ValueError, match="entities must be 2, one a sequence, got 1"):
        replace(batch, entities=batch.entities[:1])


@pytest.mark.parametrize("bounds", [[1, 5], [0, 4, 3, 5]])
def test_sequences_must_follow_each_other(bounds):
    batch = made((5,))
    entities = np.array(["a"] * (len(bounds) - 1), dtype=object)
    with pytest.raises(ValueError, match=r"cu_seqlens must begin with 0 and not fall, got \["):
        replace(batch, cu_seqlens=torch.tensor(bounds, dtype=torch.int32), entities=entities)


def test_tensors_are_the_arguments_of_a_module():
    batch = made((3, 2))
    arguments = batch.tensors()
    assert list(arguments) == ["rows", "times", "cu_seqlens"]
    assert arguments["rows"]["ids"] is batch.rows.ids
    assert arguments["times"] is batch.times


def test_to_moves_every_tensor_and_keeps_dtypes():
    batch = made((3, 2))
    assert batch.to(torch.float32) is batch
    moved = batch.to("cpu", torch.float32, non_blocking=True)
    assert_holds(moved, (batch, owned(batch)))
    assert moved.merged.dtype == torch.int64


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_views_on_another_device():
    batch = made(LENGTHS["odd"])
    there = batch.pin_memory().to("cuda", non_blocking=True)
    for way in (SequenceBatch.last, SequenceBatch.cut):
        same(way(there, 3).row.cpu(), way(batch, 3).row)
        same(way(there, 3).cu_seqlens.cpu(), way(batch, 3).cu_seqlens)
    for here, moved in [
        (batch.padded("left"), there.padded("left")),
        (batch.windows(4, 2)[:], there.windows(4, 2)[:]),
    ]:
        assert moved.times.is_cuda
        same(moved.to("cpu").row, here.row)
        same(moved.to("cpu").rows["lists"]["tags"].ids, here.rows["lists"]["tags"].ids)
    assert [part.n_rows for part in there.packed(6)] == [part.n_rows for part in batch.packed(6)]
    same(there.nested()["row"].values().cpu(), batch.row)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_copies_are_equal(way):
    batch = made((3, 2))
    again = way(batch)
    assert_holds(again, (batch, owned(batch)))
    assert again.entities.tolist() == batch.entities.tolist()
    assert again.n_input == batch.n_input
    same(again.merged, batch.merged)


def test_it_is_frozen_and_says_what_it_holds():
    batch = made((3, 2))
    assert repr(batch) == "SequenceBatch(2 sequences, 5 rows; 2 rows of the table are not here)"
    # what was merged into the first row went with it
    assert repr(batch[1:]) == "SequenceBatch(1 sequence, 2 rows; 6 rows of the table are not here)"
    assert repr(batch[[0, 1, 1]]) == "SequenceBatch(3 sequences, 7 rows; 2 rows of the table are not here)"
    assert repr(made((3, 2), absent=0)) == "SequenceBatch(2 sequences, 5 rows)"
    assert repr(example().last(2)) == "SequenceBatch(1 sequence, 2 rows; 1 row of the table is not here)"
    assert repr(example().last(1)) == "SequenceBatch(1 sequence, 1 row; 2 rows of the table are not here)"
    with pytest.raises(FrozenInstanceError):
        batch.times = batch.times
