from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from made_sequences import LENGTHS, assert_laid_out, cells, made, owned, same


def filled(sequences, side):
    longest = max(map(len, sequences), default=0)
    gaps = [[None] * (longest - len(sequence)) for sequence in sequences]
    both = list(zip(sequences, gaps, strict=True))
    return [gap + rows if side == "left" else rows + gap for rows, gap in both]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_every_cell(lengths, side):
    batch = made(lengths)
    padded = batch.padded(side)
    assert_laid_out(padded, batch, filled(owned(batch), side))
    assert padded.entities.tolist() == batch.entities.tolist()
    assert len(padded) == len(lengths)


def test_right_is_the_side_without_a_word():
    batch = made((2, 3))
    assert batch.padded().mask.tolist() == [[True, True, False], [True, True, True]]


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_mask_gives_the_flat_rows_back(side):
    batch = made(LENGTHS["odd"])
    padded = batch.padded(side)
    for name in ("times", "elapsed", "gap", "row"):
        same(getattr(padded, name)[padded.mask], getattr(batch, name))
    same(padded.rows["ids"][padded.mask], batch.rows.ids)


def test_one_sequence_in_three_forms():
    """Casebook H13: the first real row is position 0 in all forms, the real rows agree."""
    batch = made((3, 5))
    left, right = batch.padded("left"), batch.padded("right")
    alone = batch[:1].padded()
    for form in (left, right, alone):
        real = form.mask[0]
        assert form.positions[0][real].tolist() == [0, 1, 2]
        same(form.times[0][real], batch.times[:3])
        same(form.rows["values"][0][real], batch.rows.values[:3])
    assert (left.shape, right.shape, alone.shape) == ((2, 5), (2, 5), (1, 3))


def test_the_batch_is_not_touched():
    batch = made((3, 1))
    before = copy.deepcopy(batch)
    padded = batch.padded()
    padded.rows["ids"].fill_(7)
    padded.times.fill_(7)
    for name in ("times", "elapsed", "gap", "row"):
        same(getattr(batch, name), getattr(before, name))
    same(batch.rows.ids, before.rows.ids)


def test_tensors_are_the_arguments_of_a_module():
    padded = made((3, 1)).padded()
    arguments = padded.tensors()
    assert list(arguments) == ["rows", "times", "mask"]
    assert list(arguments["rows"]) == ["ids", "values", "missing", "times", "lists"]
    assert arguments["times"] is padded.times
    assert arguments["mask"] is padded.mask


def test_absent_kinds_are_left_out():
    batch = made((3, 1))
    plain = replace(batch, rows=replace(batch.rows, times=batch.rows.times[:, :0], lists={})).padded()
    assert list(plain.rows) == ["ids", "values", "missing"]


@pytest.mark.parametrize("side", ["middle", 1, None])
def test_another_side_is_an_error(side):
    with pytest.raises(ValueError, match=rf"side must be one of right, left, got {side!r}"):
        made((3, 1)).padded(side)


def test_to_moves_every_tensor_and_keeps_dtypes():
    padded = made((3, 1)).padded()
    moved = padded.to("meta")
    flat = [moved.times, moved.mask, moved.positions, moved.elapsed, moved.gap, moved.row]
    flat += [moved.rows[name] for name in ("ids", "values", "missing", "times")]
    assert {tensor.device.type for tensor in [*flat, *moved.rows["lists"]["tags"]]} == {"meta"}
    assert padded.to(torch.float64) is padded
    same(padded.to("cpu", torch.float32, non_blocking=True).elapsed, padded.elapsed)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_pinned_memory():
    padded = made((3, 1)).padded().pin_memory()
    assert padded.times.is_pinned()
    assert padded.rows["lists"]["tags"].ids.is_pinned()


@pytest.mark.parametrize("way", [copy.deepcopy, lambda padded: pickle.loads(pickle.dumps(padded))])
def test_copies_are_equal(way):
    padded = made((3, 1)).padded()
    again = way(padded)
    same(again.gap, padded.gap)
    assert cells(again.rows["lists"]["tags"]) == cells(padded.rows["lists"]["tags"])
    assert again.entities.tolist() == padded.entities.tolist()


def test_it_is_frozen_and_says_what_it_is():
    padded = made((3, 1)).padded()
    assert repr(padded) == "PaddedSequences(2 sequences of length 3)"
    with pytest.raises(FrozenInstanceError):
        padded.times = padded.times
