from __future__ import annotations

import math

import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.functional.exact_phase import in_turns
from tabembed.functional.rotary import LAYOUTS, amplitudes, rotate, rotate_gradient, turn

NS = 1_700_000_000_123_456_789
FREQUENCIES = [2.0, 0.3, 1e-9]


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def given(n_batch=2, dim=7, integers=False, shared=False):
    """Queries of 3 heads and 4 steps, keys of 1 and 5, positions, and frequencies of 3 pairs."""
    rows = 1 if shared else n_batch
    positions = [drawn(rows, n, seed=n) * 1000 for n in (4, 5)]
    if integers:
        positions = [NS + (p * 1e9).long() for p in positions]
    f = torch.tensor(FREQUENCIES, dtype=torch.float64)
    return drawn(n_batch, 3, 4, dim), drawn(n_batch, 1, 5, dim, seed=1), *positions, in_turns(f)


def loop(x, positions, layout, inverse=False):
    positions = positions.expand(len(x), -1).tolist()
    return torch.tensor(
        [
            [
                [
                    reference.rotary(row, p, FREQUENCIES, layout, inverse)
                    for row, p in zip(head, places, strict=True)
                ]
                for head in sample
            ]
            for sample, places in zip(x.tolist(), positions, strict=True)
        ],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("dim", "integers", "shared"), [(6, True, False), (7, False, True), (11, True, True)]
)
def test_equals_the_loop(dim, integers, shared, layout, inverse):
    q, k, *places = given(dim=dim, integers=integers, shared=shared)
    got = rotate(q, k, *places, None, None, layout == "interleaved", inverse)
    for x, turned, positions in zip((q, k), got, places[:2], strict=True):
        assert_close(turned, loop(x, positions, layout, inverse), rtol=0, atol=1e-8)
        assert torch.equal(turned[..., 6:], x[..., 6:])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_equal_the_loop(layout):
    q, k, *places = given(n_batch=1)
    q_positions, k_positions, f = places
    leaves = [t.requires_grad_() for t in (q, q_positions, f)]
    turned, _ = rotate(q, k[:, :0], q_positions, k_positions, f, None, None, layout == "interleaved", False)
    g = drawn(*turned.shape, seed=5)
    of_q, of_p, of_f = torch.autograd.grad(turned, leaves, g)
    total = torch.zeros(3, dtype=torch.float64)
    for s in range(4):
        rows, grads = q[0, :, s].tolist(), g[0, :, s].tolist()
        reached, position, frequencies = reference.rotary_gradients(
            rows, grads, q_positions[0, s].item(), FREQUENCIES, layout
        )
        assert_close(of_q[0, :, s], torch.tensor(reached, dtype=torch.float64))
        assert_close(of_p[0, s].item(), position, rtol=1e-9, atol=1e-9)
        total += torch.tensor(frequencies, dtype=torch.float64)
    for row in of_f:  # of each of the three numbers, per turn
        assert_close(row / math.tau, total, rtol=1e-9, atol=1e-6)
    angle = q_positions.detach()[0, :, None] * torch.tensor(FREQUENCIES, dtype=torch.float64)
    assert_close(of_q, rotate_gradient(g, angle, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_explicit_gradient_is_the_loops(layout):
    g, positions = drawn(4, 7), [0.0, 1.0, 2.5, -900.0]
    angle = torch.tensor(positions, dtype=torch.float64)[:, None] * torch.tensor(
        FREQUENCIES, dtype=torch.float64
    )
    expected = [
        reference.rotary_backward(row, p, FREQUENCIES, layout)
        for row, p in zip(g.tolist(), positions, strict=True)
    ]
    assert_close(rotate_gradient(g, angle, layout=layout), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_dtype_stays_and_is_rounded_to_once(dtype):
    q, k, *places = given(integers=True)
    got, _ = rotate(q.to(dtype), k.to(dtype), *places, None, None, False, False)
    assert got.dtype == dtype
    truth = loop(q.to(dtype).double(), places[0], "half")
    assert (got.double() - truth).abs().max() <= max(
        4e-6, torch.finfo(dtype).eps / 2 * 1.01 * truth.abs().max()
    )


def test_a_score_holds_the_decay_of_what_elapsed_wherever_the_origin_is():
    rates = torch.tensor([0.02, 0.001, 0.0], dtype=torch.float64)
    q, k, q_positions, k_positions, f = given(n_batch=1, dim=6, integers=True)
    q_positions, k_positions = (NS + torch.arange(n)[None] * 7 for n in (4, 5))
    scores = []
    for origin in (NS, NS + 20, NS - 300):
        at = torch.tensor([origin])
        a, b = rotate(q, k, q_positions, k_positions, f, rates, at, False, False)
        scores.append(a @ b.mT)
    assert_close(scores[1], scores[0], rtol=1e-9, atol=1e-9)
    assert_close(scores[2], scores[0], rtol=1e-9, atol=1e-9)
    for i, j in ((0, 0), (3, 1), (1, 4)):
        pairs = [
            (q[0, 0, i, p].item(), q[0, 0, i, p + 3].item(), k[0, 0, j, p].item(), k[0, 0, j, p + 3].item())
            for p in range(3)
        ]
        far = float(q_positions[0, i] - k_positions[0, j])
        expected = sum(
            math.exp(-rate * far) * ((a * c + b * d) * math.cos(angle) + (a * d - b * c) * math.sin(angle))
            for (a, b, c, d), rate, angle in zip(
                pairs, rates.tolist(), [freq * far for freq in FREQUENCIES], strict=True
            )
        )
        assert_close(scores[0][0, 0, i, j].item(), expected, rtol=1e-6, atol=1e-8)


def test_a_decay_ends_where_a_product_could_overflow():
    positions, origin = torch.tensor([[0, 10**18, -(10**18)]]), torch.tensor([0])
    for dtype, limit in ((torch.float16, 10), (torch.bfloat16, 80), (torch.float32, 80), (torch.float64, 80)):
        got = amplitudes(positions, torch.tensor([1.0], dtype=torch.float64), origin, dtype)[0, :, 0]
        assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert_close(got.double(), torch.tensor([0.0, limit, -limit]).double().exp(), rtol=1e-6, atol=0)


def test_turn_in_both_layouts():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 9.0])
    c, s = torch.tensor([0.6, 0.0]), torch.tensor([0.8, 1.0])
    assert_close(turn(x, c, s, interleaved=True), torch.tensor([-1.0, 2.0, -4.0, 3.0, 9.0]))
    assert_close(turn(x, c, s, interleaved=False), torch.tensor([-1.8, -4.0, 2.6, 2.0, 9.0]))


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="layout must be one of half, interleaved, got 'Interleaved'"):
        rotate_gradient(torch.ones(1, 4), torch.ones(1, 2), layout="Interleaved")
