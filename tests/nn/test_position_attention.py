"""What every position scheme promises inside of ``attention``, against the scalar loops."""

from __future__ import annotations

import math

import pytest
import reference
import torch
from padding import PADDED, mask_of, padded, real_rows, rows
from torch.testing import assert_close

from tabembed.functional.position import row_positions
from tabembed.nn import ALiBiEmbedding, RelativeDecay, RotaryEmbedding
from tabembed.nn.attention import attention

DIM, HEADS = 8, 2
FAR = [65_536.0, 65_537.0, 65_540.0]
NOW = 1_700_000_000 * 10**9 + 123_456_789
HOUR = 3600 * 10**9


def alibi_symmetric():
    return {"bias": ALiBiEmbedding(HEADS)}


def alibi_causal():
    return {"bias": ALiBiEmbedding(HEADS, mode="causal")}


def turned():
    return {"rotary": RotaryEmbedding(DIM)}


def faded():
    return {"rotary": RelativeDecay(DIM, half_lives=(1.5, 6.0))}


def faded_and_turned():
    return {"rotary": RelativeDecay(DIM, half_lives=(1.5, 6.0), rotary=RotaryEmbedding(DIM))}


def bare():
    return {}


HALF_LIVES = [1.5 * 4 ** (i / 3) for i in range(4)] * 2  # of a pair (i, i + 4)


def attention_loop(make, q, k, v, positions, causal=True):
    """One head, all rows: scores by the loops, then softmax. ``positions`` of keys; queries are the last."""
    ladder, n_before = reference.ladder(4, DIM), len(k) - len(q)

    def score(head, i, j):
        a, b, t, s = q[i], k[j], positions[n_before + i], positions[j]
        if make in (turned, faded_and_turned):
            a, b = reference.rotary(a, t, ladder), reference.rotary(b, s, ladder)
        fade = HALF_LIVES if make in (faded, faded_and_turned) else [math.inf] * DIM
        scale = [2.0 ** -((t - s) / h) for h in fade]
        bias = 0.0
        if make in (alibi_symmetric, alibi_causal):
            mode = "causal" if make is alibi_causal else "symmetric"
            bias = reference.alibi_bias(t, s, reference.alibi_slopes(HEADS)[head], mode=mode)
        return sum(x * y * w for x, y, w in zip(a, b, scale, strict=True)) / math.sqrt(DIM) + bias

    def of_head(head):
        out = []
        for i in range(len(q)):
            bias = [score(head, i, j) for j in range(len(k))]
            seen = [not causal or j <= n_before + i for j in range(len(k))]
            out.append(reference.attention([0.0] * DIM, k, v, bias, seen))
        return out

    return of_head


def attended(make, q, k, v, positions, causal=True):
    """The loops of all heads and batches, as a tensor."""
    q, k, v, positions = (t.tolist() for t in (q, k, v, positions))
    return torch.tensor(
        [
            [attention_loop(make, q[b][h], k[b][h], v[b][h], positions[b], causal)(h) for h in range(HEADS)]
            for b in range(len(q))
        ],
        dtype=torch.float64,
    )


SCHEMES = pytest.mark.parametrize(
    "make",
    [bare, turned, alibi_symmetric, alibi_causal, faded, faded_and_turned],
    ids=lambda f: f.__name__,
)


# Padding


@pytest.mark.parametrize("fill", [0.0, 1e4, math.nan])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", PADDED)
@SCHEMES
def test_padding_changes_no_attention(make, form, causal, fill):
    q, k, v = (rows(1, HEADS, 3, DIM, seed=seed) for seed in range(3))
    mask = mask_of(form)
    if make in (faded, faded_and_turned) and not causal:
        with pytest.raises(ValueError, match="causal"):
            attention(q, k, v, **make(), causal=False)
        return
    with torch.no_grad():
        out = attention(
            *(padded(t, form, fill) for t in (q, k, v)),
            **make(),
            positions=row_positions(mask),
            mask=mask,
            causal=causal,
        )
    expected = attended(make, q, k, v, torch.arange(3).unsqueeze(0), causal)
    assert_close(real_rows(out, form).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1, math.nan, math.inf])
@pytest.mark.parametrize("form", ["left", "right"])
@SCHEMES
def test_padding_may_stand_at_any_time(make, form, time):
    mask = mask_of(form)
    kind = torch.int64 if isinstance(time, int) else torch.float64
    places = torch.full(mask.shape, time, dtype=kind).masked_scatter(mask, torch.tensor([4, 5, 9]).to(kind))
    parts = [rows(1, HEADS, 3, DIM, seed=seed).requires_grad_() for seed in range(3)]
    out = attention(*(padded(t, form) for t in parts), **make(), positions=places, mask=mask)
    expected = attended(make, *parts, torch.tensor([[4, 5, 9]]))
    assert_close(real_rows(out, form).double(), expected, rtol=1e-5, atol=1e-5)
    assert all(g.isfinite().all() for g in torch.autograd.grad(real_rows(out, form).sum(), parts))


@SCHEMES
def test_padding_gets_and_gives_no_gradient(make):
    scheme = make()
    grads = {}
    for form in PADDED:
        parts = [rows(1, HEADS, 3, DIM, seed=seed).requires_grad_() for seed in range(3)]
        mask = mask_of(form)
        places = row_positions(mask)
        out = attention(*(padded(t, form, math.nan) for t in parts), **scheme, positions=places, mask=mask)
        grads[form] = torch.autograd.grad(
            (real_rows(out, form) * rows(1, HEADS, 3, DIM, seed=4)).sum(), parts
        )
    assert all(grad.isfinite().all() for grad in grads["none"])
    for form in ("left", "right"):
        assert_close(grads[form], grads["none"], rtol=1e-5, atol=1e-6)


# Positions that are not rounded, streamed, irregular


@SCHEMES
def test_autocast_rounds_no_position_in_attention(make):
    """bfloat16 may round scores; positions rounded to it (512 apart at 65,536) would be all the same."""
    q, k, v = (rows(1, HEADS, 3, DIM, seed=seed) for seed in range(3))
    places = torch.tensor([FAR])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        out = attention(q, k, v, **make(), positions=places)
    assert_close(out.double(), attended(make, q, k, v, places), rtol=0.05, atol=0.05)


@SCHEMES
def test_the_last_queries_equal_the_full_pass(make):
    q, k, v = (rows(2, HEADS, 6, DIM, seed=seed) for seed in range(3))
    scheme = make()
    with torch.no_grad():
        full = attention(q, k, v, **scheme)
        for left in (1, 3):
            assert_close(attention(q[..., -left:, :], k, v, **scheme), full[..., -left:, :])
    expected = attended(make, q, k, v, torch.arange(6).expand(2, 6))
    assert_close(full.double(), expected, rtol=1e-5, atol=1e-5)


@SCHEMES
def test_attention_at_irregular_times(make):
    q, k, v = (rows(2, HEADS, 5, DIM, seed=seed) for seed in range(3))
    times = torch.tensor([[0.0, 0.5, 0.5, 3.25, 9.0], [-4.0, -1.0, 0.0, 0.125, 2.0]], dtype=torch.float64)
    with torch.no_grad():
        out = attention(q, k, v, **make(), positions=times)
    assert_close(out.double(), attended(make, q, k, v, times), rtol=1e-5, atol=1e-5)
    even = attention(q, k, v, **make(), positions=torch.arange(5).expand(2, 5))
    assert torch.allclose(out, even, atol=1e-2) == (make is bare)
    # A later row is hidden though it stands at the same time, and an earlier one is seen.
    v[0, :, 2] += 100
    moved = attention(q, k, v, **make(), positions=times)[0] - out[0]
    assert (moved[:, :2] == 0).all()
    v[0, :, 2] -= 100
    v[0, :, 1] += 100
    moved = attention(q, k, v, **make(), positions=times)[0] - out[0]
    assert (moved[:, 2] > 0.1).all()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("mode", ["symmetric", "causal"])
def test_learned_slopes_get_the_gradient_of_the_formula(mode, causal):
    """Distances to 400: what is lost in float32 is lost in sums, not in each term."""
    n_steps, module = 60, ALiBiEmbedding(HEADS, mode=mode, slopes="learned", unit=HOUR)
    q, k, v, g = (rows(1, HEADS, n_steps, DIM, seed=seed) for seed in range(4))
    hours = 400 * torch.rand(n_steps, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    times = (hours.sort().values * HOUR).long()
    out = attention(q, k, v, bias=module, positions=times + NOW, causal=causal)
    (got,) = torch.autograd.grad(out, list(module.parameters()), g)

    slopes = module.slopes.detach().double().requires_grad_()
    gap = (times.unsqueeze(1) - times).double() / HOUR
    scores = q.double() @ k.double().mT / math.sqrt(DIM) - slopes[:, None, None] * gap.abs()
    hidden = (gap < 0) & (mode == "causal") | torch.ones_like(gap).triu(1).bool() & causal
    expected = torch.softmax(scores.masked_fill(hidden, -math.inf), -1) @ v.double()
    (wanted,) = torch.autograd.grad(expected, slopes, g.double())
    assert_close(out.double(), expected.detach(), rtol=0, atol=1e-5)
    assert_close(got.double(), wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))
