"""What is kept of sequences: where it starts, moves, is cut and goes on from."""

from __future__ import annotations

import io
import pickle

import pytest
import torch
from slow_sequence import OBSERVED, SCHEMES, net_of, padded, schema_of, sliced, some
from torch.testing import assert_close

CLOSE = {"rtol": 0.0, "atol": 1e-5}
SAME = {"rtol": 0.0, "atol": 0.0}
EACH = pytest.mark.parametrize(
    ("position", "observed", "strict"),
    [
        (position, observed, strict)
        for position in SCHEMES
        for observed in (OBSERVED, ())
        for strict in (False, True)
        if not (position == "gru" and strict)
    ],
    ids=lambda x: str(x) if x != () else "known",
)


def went(net, state, batch, start, stop):
    piece = sliced(batch, start, stop)
    return net.step(state, piece["rows"], piece["times"], mask=piece["mask"])


def tensors_of(part):
    if isinstance(part, torch.Tensor):
        return [part]
    return [tensor for one in part or () for tensor in tensors_of(one)]


def held_by(state):
    parts = (state.times, state.real, state.observed, state.count, state.origin, state.layers)
    return [tensor for part in parts for tensor in tensors_of(part)]


@pytest.mark.parametrize("cuts", [(0, 0, 4, 11), (0, 0, 0, 1, 1, 11), (0, 5, 5, 5, 11, 11)])
@EACH
@torch.no_grad()
def test_places_for_no_rows_move_nothing(position, observed, strict, cuts):
    net, batch = net_of(position, schema=schema_of(observed=observed, strict=strict)), padded(some(), "right")
    state, out = None, []
    for start, stop in zip(cuts, cuts[1:], strict=False):
        vectors, state = went(net, state, batch, start, stop)
        out.append(vectors)
    assert_close(torch.cat(out, 1), net(**batch), **CLOSE)
    assert state.count.tolist() == batch["mask"].sum(1).tolist()


@pytest.mark.parametrize("position", ["rotary", "gru"])
@torch.no_grad()
def test_moving_leaves_dtypes(position):
    net, batch = net_of(position), padded(some(), "left")
    _, state = went(net, None, batch, 0, 8)
    moved = state.to(torch.device("cpu"))
    for one, other in zip(held_by(moved), held_by(state), strict=True):
        assert_close(one, other, **SAME)
    assert {one.device.type for one in held_by(state.to("meta", non_blocking=True))} == {"meta"}
    for one, other in zip(held_by(state.to(torch.float16)), held_by(state), strict=True):
        assert one.dtype == other.dtype


@pytest.mark.parametrize("position", ["rotary", "gru"])
def test_a_pickle_goes_on(position):
    net, batch = net_of(position), padded(some(), "left")
    with torch.no_grad():
        _, state = went(net, None, batch, 0, 8)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    for again in (pickle.loads(pickle.dumps(state)), torch.load(file, weights_only=False)):
        assert_close(went(net, again, batch, 8, 11)[0], went(net, state, batch, 8, 11)[0], **SAME)


@pytest.mark.parametrize("position", SCHEMES)
def test_a_state_made_in_inference_trains_on(position):
    net, batch = net_of(position), padded(some(), "left")
    with torch.no_grad():
        wanted = net(**batch)[:, 8:]
    with torch.inference_mode():
        _, state = went(net, None, batch, 0, 8)
    out, _ = went(net, state.take(torch.arange(4)), batch, 8, 11)
    assert_close(out, wanted, **CLOSE)
    out, _ = went(net, state, batch, 8, 11)
    assert_close(out, wanted, **CLOSE)
    out.square().sum().backward()
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("position", ["rotary", "decay", "gru"])
@torch.no_grad()
def test_a_live_row_is_scored_before_its_outcome_is_known(position):
    net, batch = net_of(position), padded(some(), "left")
    _, before = went(net, None, batch, 0, 9)
    live = sliced(batch, 9, 10)
    blank = {**live["rows"], "ids": live["rows"]["ids"].clone(), "missing": live["rows"]["missing"].clone()}
    blank["ids"][..., 1], blank["missing"][..., 0] = 1, True
    scored, _ = net.step(before, blank, live["times"], mask=live["mask"])
    known, after = net.step(before, live["rows"], live["times"], mask=live["mask"])
    assert_close(scored, known, **SAME)
    assert_close(scored, net(**batch)[:, 9:10], **CLOSE)
    assert_close(went(net, after, batch, 10, 11)[0], net(**batch)[:, 10:], **CLOSE)


@pytest.mark.parametrize("position", ["rotary", "gru"])
@torch.no_grad()
def test_some_sequences_by_number_or_flag(position):
    net, batch = net_of(position), padded(some(), "left")
    _, state = went(net, None, batch, 0, 8)
    whole = held_by(state)
    for index, wanted in (([3], [3]), ([1, 1, 0], [1, 1, 0]), ([], []), ([True, False, False, True], [0, 3])):
        for given in (index, torch.tensor(index, dtype=None if index else torch.int64)):
            for one, other in zip(held_by(state.take(given)), whole, strict=True):
                assert_close(one, other[torch.tensor(wanted, dtype=torch.int64)], **SAME)
    for bad in (2, [0.5], "all"):
        with pytest.raises(
            TypeError, match="SequenceState must be indexed by a slice, a mask or a list of n"
        ):
            state.take(bad)


def test_of_another_kind_of_batch():
    net, batch = net_of(), padded(some(), "left")
    with pytest.raises(TypeError, match="cu_seqlens"):
        net.step(None, batch["rows"], batch["times"], cu_seqlens=torch.tensor([0, 4]))
