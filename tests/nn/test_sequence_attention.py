"""Who sees whom, however rows are batched, and that rows of one instant count as one."""

from __future__ import annotations

import pytest
import torch
from slow_sequence import HALF_HOUR, SCHEMES, drawn, net_of, packed, padded, schema_of, some
from torch.testing import assert_close

from tabembed.nn.sequence_attention import SequenceTransformer, attention_of
from tabembed.nn.sequence_layout import layout_of
from tabembed.nn.time_scale import TimeScale

ATTENDING = pytest.mark.parametrize("position", [one for one in SCHEMES if one != "gru"])
CLOSE = {"rtol": 0.0, "atol": 1e-5}
SCALE = TimeScale(True, 1.0, 4.0, 90.0)


def taken(rows, index):
    chosen = {name: x[index] for name, x in rows.items() if name != "lists"}
    return {**chosen, "lists": {name: cells.take(index) for name, cells in rows["lists"].items()}}


@pytest.mark.parametrize("clock", ["time", "index"])
@ATTENDING
@torch.no_grad()
def test_a_row_of_the_same_instant_is_no_neighbour(position, clock):
    net = net_of(position, clock=clock, schema=schema_of(strict=True))
    rows, _ = drawn(7, 3)
    times = torch.tensor([0, 0, 5, 5, 5, 9, 9]) * HALF_HOUR
    whole, parts = net(rows, times), some()
    for gone, kept in (
        (4, [0, 1, 2, 3]),  # none of the rows before, nor of its own instant, are told of it
        (6, [0, 1, 2, 3, 4, 5]),
    ):
        index = torch.tensor([i for i in range(7) if i != gone])
        out = net(taken(rows, index), times[index])
        assert_close(out[[i for i, j in enumerate(index.tolist()) if j in kept]], whole[kept], **CLOSE)
    turned = torch.tensor([1, 0, 4, 3, 2, 6, 5])
    assert_close(net(taken(rows, turned), times), whole[turned], **CLOSE)
    batch = packed([*parts, (rows, times)])
    assert_close(net(**batch)[-7:], whole, **CLOSE)
    sides = padded([*parts, (rows, times)], "middle")
    assert_close(net(**sides)[-1][sides["mask"][-1]], whole, **CLOSE)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("strict", [True, False])
@torch.no_grad()
def test_queries_see_what_the_layout_lets_them(strict, causal):
    times = torch.tensor([[0, 0, 3, 7, 7, 9]])
    mask = torch.tensor([[True, True, True, False, True, True]])
    stack = SequenceTransformer(None, SCALE, d_model=16, n_layers=1, causal=causal, seed=0)
    ones, rows = torch.zeros(1, 1, 6, 16), torch.eye(6, 16)[None, None]

    def sees(i, j):
        if not mask[0, i] or not mask[0, j]:
            return False
        if strict and times[0, i] == times[0, j]:
            return i == j
        return j <= i or not causal

    wanted = torch.tensor([[float(sees(i, j)) for j in range(6)] for i in range(6)])
    wanted = wanted / wanted.sum(1, keepdim=True).clamp(min=1)
    layout = layout_of(times, mask, strict=strict)
    real = mask[0]
    attend = attention_of(layout, stack.position, causal=causal, n_new=6)
    assert_close(attend(ones, ones, rows)[0, 0, real, :6], wanted[real], **CLOSE)
    if causal:
        attend = attention_of(layout, stack.position, causal=causal, n_new=2)
        assert_close(attend(ones[:, :, :2], ones, rows)[0, 0, :, :6], wanted[4:], **CLOSE)
    whole = layout_of(times[mask][None], None, [0, 3, 3, 5], strict=strict)
    attend = attention_of(whole, stack.position, causal=causal, n_new=5)
    apart = wanted[real][:, real].clone()
    apart[:3, 3:], apart[3:, :3] = 0, 0
    apart = apart / apart.sum(1, keepdim=True)
    rows = torch.eye(5, 16)[None, None]
    assert_close(attend(ones[:, :, :5], ones[:, :, :5], rows)[0, 0, :, :5], apart, **CLOSE)


def test_widths_of_heads():
    for d_model, n_heads in ((2, 1), (16, 1), (30, 1), (32, 2), (48, 3)):
        stack = SequenceTransformer("rotary", SCALE, d_model=d_model, n_layers=1)
        assert stack.transformer.n_heads == n_heads
    with pytest.raises(ValueError, match="d_model must be a multiple of 16, or even and below 32, got 34"):
        SequenceTransformer("rotary", SCALE, d_model=34, n_layers=1)
