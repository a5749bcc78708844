from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tabembed.kernels import use_backend
from tabembed.nn import ALiBiEmbedding, RelativeDecay, attention
from tabembed.nn.attention_blocks import Block, blocks, halved, over_blocks, spans, written_rows


@pytest.mark.parametrize(("n", "size"), [(0, 4), (1, 4), (4, 4), (5, 4), (12, 4), (13, 1)])
def test_blocks_cover_every_row_once(n, size):
    pieces = blocks(0, n, size)
    assert [row for block in pieces for row in range(block.first, block.last)] == list(range(n))
    assert all(0 < block.n_rows <= size for block in pieces)


def test_halves_stay_in_order_and_end_at_one_row():
    assert halved([Block(3, 8)], lambda block: False) == blocks(3, 8, 1)
    assert halved([Block(0, 8), Block(8, 9)], lambda block: block.n_rows <= 4) == [
        *blocks(0, 8, 4),
        Block(8, 9),
    ]
    assert halved([], lambda block: False) == []


def test_rows_written_at_once_shrink_with_the_batch():
    assert written_rows(1, 8, 8192) == 256
    assert written_rows(1, 1, 10) == 256
    assert written_rows(4, 8, 8192) == 64
    assert written_rows(1000, 8, 8192) == 16


def test_spans_are_those_of_the_widest_sequence():
    times = torch.tensor([[0, 5, 7], [2**62, 2**62 + 1, 2**62 + 9]])
    assert spans(times, False)(Block(0, 3)) == 9
    assert spans(times.double(), False)(Block(0, 2)) == 5
    assert spans(torch.tensor([[-(2**63), 2**63 - 1]]), False)(Block(0, 2)) == 2.0**64
    assert spans(times, True)(Block(0, 3)) == 2
    assert spans(times.to("meta"), False)(Block(0, 3)) == math.inf


def test_gradients_of_blocks_are_those_of_the_whole():
    x = torch.randn(2, 10, 3, requires_grad=True)
    attend = lambda block: x[:, block.first : block.last].sin()  # noqa: E731
    for size in (10, 4):
        for needs_gradient in (True, False):
            out = over_blocks(attend, blocks(0, 10, size), needs_gradient)
            assert torch.equal(out, x.sin())
            assert torch.equal(torch.autograd.grad(out.sum(), x)[0], x.cos())


@pytest.mark.parametrize("context", [lambda: use_backend("reference"), lambda: sdpa_kernel(SDPBackend.MATH)])
def test_a_gradient_may_be_asked_for_outside_of_what_chose_the_kernels(context):
    def gradient(outside):
        q = torch.randn(1, 2, 300, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()
        with context():
            out = attention(q, q, q, rotary=RelativeDecay(16, half_lives=50.0), bias=ALiBiEmbedding(2))
            if not outside:
                return torch.autograd.grad(out.square().sum(), q)[0]
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(torch.autograd.grad, out.square().sum(), q).result()[0]

    torch.testing.assert_close(gradient(outside=True), gradient(outside=False))
