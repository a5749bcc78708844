"""Gated recurrent units, against torch's own module."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tabembed.nn.recurrence import Recurrence
from tabembed.nn.sequence_layout import layout_of

LENGTHS = [3, 0, 17, 1, 8, 8, 2, 30]


def peer_of(stack):
    peer = nn.GRU(6, 6, num_layers=len(stack.layers), batch_first=True)
    with torch.no_grad():
        for weights, layer in zip(peer.all_weights, stack.layers, strict=True):
            for weight, own in zip(weights, layer.parameters(), strict=True):
                weight.copy_(own)
    return peer


@pytest.mark.parametrize("n_layers", [1, 3])
def test_packed_rows_as_torchs_module(n_layers):
    stack = Recurrence(6, n_layers=n_layers, seed=0)
    ends = torch.tensor([0, *LENGTHS]).cumsum(0).tolist()
    x = torch.randn(1, ends[-1], 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    out, _ = stack(x, layout_of(torch.arange(ends[-1])[None], None, ends))
    peer = peer_of(stack)
    wanted = torch.cat([peer(x[:, a:b])[0] for a, b in zip(ends, ends[1:], strict=False) if b > a], 1)
    assert_close(out, wanted, rtol=0, atol=1e-6)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    ours = torch.autograd.grad(out, [x, *stack.parameters()], direction)
    theirs = torch.autograd.grad(wanted, [x, *(w for one in peer.all_weights for w in one)], direction)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_padded_rows_go_on_from_what_is_known():
    stack = Recurrence(6, n_layers=2, seed=0)
    x = torch.randn(3, 7, 6, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[0, 1, 0, 1, 1, 0, 0], [0] * 7, [1] * 7]).bool()
    known = stack.initial_state(3)
    out, after = stack(x, layout_of(torch.zeros(3, 7).long(), mask), known)
    for i in (0, 2):
        rows, last = peer_of(stack)(x[i][mask[i]][None])
        assert_close(out[i][mask[i]], rows[0], rtol=0, atol=1e-6)
        assert_close(torch.stack([one[i] for one in after]), last[:, 0], rtol=0, atol=1e-6)
    assert all(one[1].eq(0).all() for one in after)


def test_dropout_stands_between_layers():
    layout, x = layout_of(torch.arange(5)[None]), torch.randn(1, 5, 6)
    for n_layers, moved in ((1, False), (2, True)):
        stack = Recurrence(6, n_layers=n_layers, dropout=0.5, seed=0)
        assert torch.equal(stack(x, layout)[0], stack.eval()(x, layout)[0]) != moved


def test_few_blocks_of_steps():
    seen = []
    stack = Recurrence(6, n_layers=1, seed=0)
    stack.layers[0].register_forward_hook(lambda _, inputs, __: seen.append(tuple(inputs[0].shape[:2])))
    ends = torch.tensor([0, *range(1, 65)]).cumsum(0).tolist()
    stack(torch.randn(1, ends[-1], 6), layout_of(torch.zeros(1, ends[-1]).long(), None, ends))
    assert sum(steps for _, steps in seen) == 64
    assert sum(n * steps for n, steps in seen) < 1.5 * ends[-1]
