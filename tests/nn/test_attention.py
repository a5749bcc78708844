"""``attention`` against softmax written out in float64, and against itself: padded, packed, one at a time."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tabembed.nn import attention_batch, attention_flex
from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.attention import attention
from tabembed.nn.attention_scores import takes_groups
from tabembed.nn.decay import RelativeDecay
from tabembed.nn.rotary import RotaryEmbedding

NOW = 1_700_000_000 * 10**9
MINUTE = 60 * 10**9
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
HEADS, DIM = 4, 8

SCHEMES = {
    "none": {},
    "rotary": {"rotary": RotaryEmbedding(DIM)},
    "alibi": {"bias": ALiBiEmbedding(HEADS)},
    "causal alibi": {"bias": ALiBiEmbedding(HEADS, mode="causal", slopes="learned")},
    "decay": {"rotary": RelativeDecay(DIM, half_lives=(3.0, 90.0), rotary=RotaryEmbedding(DIM))},
    "rotary and alibi": {"rotary": RotaryEmbedding(DIM), "bias": ALiBiEmbedding(HEADS)},
    "decay and alibi": {"rotary": RelativeDecay(DIM, half_lives=20.0), "bias": ALiBiEmbedding(HEADS)},
}
SCHEME = pytest.mark.parametrize("scheme", SCHEMES)


def timed(scheme: str) -> dict[str, object]:
    """The same schemes for nanoseconds."""
    alibi = ALiBiEmbedding(HEADS, unit=2 * MINUTE)
    slow = [2 * math.pi / (MINUTE * 10**i) for i in range(DIM // 2)]
    return {
        "none": {},
        "rotary": {"rotary": RotaryEmbedding(DIM, frequencies=slow)},
        "alibi": {"bias": alibi},
        "causal alibi": {"bias": ALiBiEmbedding(HEADS, mode="causal", unit=2 * MINUTE)},
        "decay": {"rotary": RelativeDecay(DIM, half_lives=(3.0 * MINUTE, 90.0 * MINUTE))},
        "rotary and alibi": {"rotary": RotaryEmbedding(DIM, frequencies=slow), "bias": alibi},
        "decay and alibi": {"rotary": RelativeDecay(DIM, half_lives=20.0 * MINUTE), "bias": alibi},
    }[scheme]


def rows(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def some(
    n: int, n_batch: int = 1, n_k_heads: int = HEADS, dtype=torch.float32, dim: int = DIM
) -> list[Tensor]:
    return [
        rows(n_batch, h, n, dim, seed=i, dtype=dtype) for i, h in enumerate((HEADS, n_k_heads, n_k_heads))
    ]


def some_times(*shape: int, seed: int = 3) -> Tensor:
    """Nanoseconds, a few minutes apart, ties among them."""
    gaps = torch.randint(4, shape, generator=torch.Generator().manual_seed(seed))
    return NOW + (gaps * 97 * 10**9).cumsum(-1)


def exact(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    alibi: ALiBiEmbedding | None = None,
    positions: Tensor | None = None,
    allowed: Tensor | None = None,
    causal: bool = True,
) -> Tensor:
    """Softmax of all scores, written out in float64."""
    q, k, v = q.double(), *(x.double().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    n_q, n_k = q.shape[2], k.shape[2]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if alibi is not None:
        places = torch.arange(n_k) if positions is None else positions
        gaps = (places[..., n_k - n_q :, None] - places[..., None, :]).double().abs() / alibi.unit
        scores = scores - alibi.slopes.double()[:, None, None] * gaps.unsqueeze(-3)
    if causal:
        scores = scores.masked_fill(~torch.ones(n_q, n_k).tril(n_k - n_q).bool(), -math.inf)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return scores.softmax(-1).nan_to_num() @ v


def lost_by(dtype: torch.dtype) -> float:
    """What torch's attention loses of values of order 1."""
    return {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]


# Against softmax written out: short blocks are written, long ones go through channels.


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k_heads", [HEADS, 2, 1])
@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (5, 5), (1, 40), (40, 40), (300, 300), (270, 301)])
def test_plain_attention(n_q, n_k, n_k_heads, dtype):
    q, k, v = some(n_k, 2, n_k_heads, dtype)
    q = q[:, :, n_k - n_q :]
    for causal in (True, False):
        out = attention(q, k, v, causal=causal)
        assert (out.shape, out.dtype) == (q.shape, dtype)
        assert_close(out.double(), exact(q, k, v, causal=causal), rtol=0, atol=lost_by(dtype))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("slopes", ["paper", "learned"])
@pytest.mark.parametrize("n_k_heads", [HEADS, 2])
@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (5, 7), (40, 40), (300, 300), (270, 301), (3, 530)])
def test_alibi(n_q, n_k, n_k_heads, slopes, causal):
    q, k, v = some(n_k, 2, n_k_heads)
    q, alibi = q[:, :, n_k - n_q :], ALiBiEmbedding(HEADS, slopes=slopes)
    out = attention(q, k, v, bias=alibi, causal=causal)
    assert_close(out.double(), exact(q, k, v, alibi=alibi, causal=causal), rtol=0, atol=1e-5)


@pytest.mark.parametrize("unit", [2000 * MINUTE, MINUTE, MINUTE // 60000])
@pytest.mark.parametrize("causal", [True, False])
def test_alibi_of_real_time(causal, unit):
    """However far apart rows are: where channels would lose digits, the bias of a block is written out."""
    (q, k, v), times = some(300, 2), some_times(2, 300)
    alibi = ALiBiEmbedding(HEADS, unit=unit)
    out = attention(q, k, v, bias=alibi, positions=times, causal=causal)
    assert_close(out.double(), exact(q, k, v, alibi=alibi, positions=times, causal=causal), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [30, 700])
def test_alibi_in_half_precision_loses_what_attention_does(dtype, n):
    q, k, v = some(n, 1, dtype=dtype, dim=16)
    times, alibi = some_times(n), ALiBiEmbedding(HEADS, mode="causal", unit=MINUTE)
    out = attention(q, k, v, bias=alibi, positions=times)
    assert_close(out.double(), exact(q, k, v, alibi=alibi, positions=times), rtol=0, atol=lost_by(dtype))


def test_channels_are_used_and_only_where_they_are_exact(monkeypatch):
    used = []
    channels = attention_batch.attend_with_channels
    monkeypatch.setattr(
        attention_batch,
        "attend_with_channels",
        lambda *a, **kw: used.append(a[0].shape[2]) or channels(*a, **kw),
    )
    q, k, v = some(600)
    attention(q, k, v, bias=ALiBiEmbedding(HEADS))
    assert used == [256, 256, 88]
    used.clear()
    attention(q, k, v, bias=ALiBiEmbedding(HEADS, unit=0.1))
    attention(q[:, :, -1:], k, v, bias=ALiBiEmbedding(HEADS))
    attention(q, k, v, bias=ALiBiEmbedding(HEADS), causal=False)
    assert used == []
    times = torch.cat((torch.arange(300), torch.arange(300) + 10**9))  # a long gap in the second block
    attention(q, k, v, bias=ALiBiEmbedding(HEADS), positions=times)
    assert used == [256, 64, 128, 88]
    used.clear()
    attention(q, k, v, bias=ALiBiEmbedding(HEADS), positions=2 * torch.arange(600))  # slopes from 0.25 down
    assert used == [256, 256, 88]
    used.clear()
    attention(q, k, v, bias=ALiBiEmbedding(HEADS), positions=4 * torch.arange(600))
    assert used == [128, 128, 128, 128, 88]


def test_what_is_written_out_is_not_cut_for_channels(monkeypatch):
    sizes, attend = [], attention_batch.attend
    monkeypatch.setattr(
        attention_batch, "attend", lambda *a, **kw: sizes.append(a[0].shape[2]) or attend(*a, **kw)
    )
    (q, k, v), times = some(600), some_times(600)
    attention(q, k, v, bias=ALiBiEmbedding(HEADS, unit=MINUTE), positions=times, causal=False)
    attention(q, k, v, bias=rows(600), positions=times)
    assert sizes == [256, 256, 88] * 2


def test_blocks_keep_digits_that_one_block_loses(monkeypatch):
    q, k, v = some(2048, dim=16)
    alibi = ALiBiEmbedding(HEADS, unit=0.5)
    truth = exact(q, k, v, alibi=alibi)
    error = (attention(q, k, v, bias=alibi) - truth).abs().max()
    monkeypatch.setattr(attention_batch, "ROWS", 2048)
    monkeypatch.setattr(attention_batch, "STEEPEST", math.inf)
    in_one = (attention(q, k, v, bias=alibi) - truth).abs().max()
    assert error < 1e-5
    assert in_one > 4 * error


@pytest.mark.parametrize("n", [7, 300])
def test_a_tensor_as_bias(n):
    q, k, v = some(n, 2, 2)
    for shape in ((2, HEADS, n, n), (1, HEADS, n, n), (HEADS, 1, n), (n, n), (n,), ()):
        bias = rows(*shape, seed=9).requires_grad_()
        expected = exact_with(q, k, v, bias)
        out = attention(q, k, v, bias=bias)
        assert_close(out.double(), expected, rtol=0, atol=1e-5)
        found, wanted = (torch.autograd.grad(x.sin().sum(), bias)[0] for x in (out, expected))
        assert_close(found, wanted, rtol=1e-4, atol=2e-5)


def exact_with(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    q, k, v = q.double(), *(x.double().repeat_interleave(2, 1) for x in (k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias.double()
    return scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -math.inf).softmax(-1) @ v


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_bias_is_not_rounded_to_half_precision(dtype):
    (q, k, v), bias = some(9, dtype=dtype), rows(9, 9, seed=9)
    assert_close(
        attention(q, k, v, bias=bias + 1000), attention(q, k, v, bias=bias), rtol=0, atol=lost_by(dtype)
    )


def test_a_bias_of_minus_infinity_is_a_mask():
    q, k, v = some(5)
    bias = torch.zeros(5, 5).masked_fill(torch.arange(5) == 0, -math.inf)
    out = attention(q, k, v, bias=bias)
    assert (out[:, :, 0] == 0).all()
    assert_close(out[:, :, 1:], attention(q[:, :, 1:], k[:, :, 1:], v[:, :, 1:]))


def test_more_queries_than_keys_without_an_order():
    q, k, v = some(5)
    out = attention(torch.cat((q, q), 2), k, v, causal=False)
    assert_close(out.double(), exact(torch.cat((q, q), 2), k, v, causal=False), rtol=0, atol=1e-5)
    bias = rows(10, 5)
    assert attention(torch.cat((q, q), 2), k, v, causal=False, bias=bias).shape == (1, HEADS, 10, DIM)


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 0), (0, 3)])
@SCHEME
def test_no_queries(scheme, n_q, n_k):
    q, k, v = some(n_k)
    out = attention(q[:, :, n_k - n_q :].requires_grad_(), k, v, **SCHEMES[scheme])
    assert out.shape == (1, HEADS, n_q, DIM)
    out.sum().backward()


def test_no_keys_give_zeros():
    q, k = rows(1, HEADS, 3, DIM), torch.zeros(1, HEADS, 0, DIM)
    for mask in (None, torch.ones(1, 0).bool(), torch.ones(1, 1, 3, 0).bool()):
        assert (attention(q, k, k, mask=mask, causal=False) == 0).all()


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 0), (0, 3), (3, 0)])
@pytest.mark.parametrize("packed", [True, False])
def test_empty_inputs_get_gradients_of_zeros(n_q, n_k, packed):
    if packed and n_q != n_k:
        return
    alibi = ALiBiEmbedding(HEADS, slopes="learned")
    q, k, v = (x.fill_(math.nan).requires_grad_() for x in (rows(1, HEADS, n, DIM) for n in (n_q, n_k, n_k)))
    ends = torch.tensor([0, 0]) if packed else None
    for bias in (alibi,) if n_q <= n_k else (torch.zeros((), requires_grad=True),):
        attention(q, k, v, bias=None if packed and bias is not alibi else bias, cu_seqlens=ends,
                  causal=n_q <= n_k).sum().backward()  # fmt: skip
        for x in (q, k, v, *([alibi.learned_slopes] if bias is alibi else [bias])):
            assert (x.grad == 0).all()


# One sequence, however it is laid out.


@SCHEME
@pytest.mark.parametrize("when", ["rows", "time"])
def test_padded_packed_alone_and_one_at_a_time_are_equal(scheme, when):
    n, wide = 9, 14
    q, k, v = some(n, 1, 2)
    times = some_times(n) if when == "time" else None
    kwargs = timed(scheme) if when == "time" else SCHEMES[scheme]
    alone = attention(q, k, v, positions=times, **kwargs)

    one_at_a_time = [
        attention(
            q[:, :, i : i + 1], k[:, :, : i + 1], v[:, :, : i + 1],
            positions=None if times is None else times[: i + 1], **kwargs,
        )
        for i in range(n)
    ]  # fmt: skip
    assert_close(torch.cat(one_at_a_time, 2), alone, rtol=0, atol=1e-5)

    for left in (0, wide - n, 2):
        mask = torch.zeros(1, wide, dtype=torch.bool)
        mask[:, left : left + n] = True
        padded = [laid(x, left, wide, math.nan) for x in (q, k, v)]
        places = None if times is None else laid(times[None, None, :, None], left, wide, -(2**63))[:, 0, :, 0]
        out = attention(*padded, positions=places, mask=mask, **kwargs)
        assert_close(out[:, :, left : left + n], alone, rtol=0, atol=1e-5)
        assert (out[:, :, ~mask[0]] == 0).all()

    other = some(4, 1, 2)
    packed = [torch.cat((b[:, :, :3], a, b), 2) for a, b in zip((q, k, v), other, strict=True)]
    places = None if times is None else torch.cat((times[:3], times, times[:4]))
    ends = torch.tensor([0, 3, 3, 3 + n, 7 + n])
    out = attention(*packed, positions=places, cu_seqlens=ends, **kwargs)
    assert_close(out[:, :, 3 : 3 + n], alone, rtol=0, atol=1e-5)
    last = attention(*other, positions=None if times is None else times[:4], **kwargs)
    assert_close(out[:, :, 3 + n :], last, rtol=0, atol=1e-5)


def laid(x: Tensor, left: int, wide: int, garbage: float) -> Tensor:
    out = torch.full((*x.shape[:2], wide, x.shape[3]), garbage, dtype=x.dtype)
    out[:, :, left : left + x.shape[2]] = x
    return out


@SCHEME
@pytest.mark.parametrize("n", [40, 300])
def test_garbage_in_padding_changes_nothing_and_takes_no_gradient(scheme, n):
    mask = torch.ones(3, n, dtype=torch.bool)
    mask[0, :17], mask[1, 5:], mask[2] = False, False, False
    times = some_times(3, n)
    real = mask[:, None, :, None].expand(-1, HEADS, -1, DIM)
    seen = []
    for garbage in (0.0, math.nan, math.inf, -1e30):
        q, k, v = (x.masked_fill(~real, garbage).requires_grad_() for x in some(n, 3))
        places = times.masked_fill(~mask, -(2**63) if garbage else 0)
        out = attention(q, k, v, mask=mask, positions=places, **timed(scheme))
        gradients = torch.autograd.grad(out.sin().sum(), (q, k, v))
        assert (out[~real] == 0).all()
        assert all((g[~real] == 0).all() for g in gradients)
        seen.append((out, *gradients))
    for other in seen[1:]:
        for a, b in zip(other, seen[0], strict=True):
            assert_close(a, b, rtol=0, atol=0)
    assert seen[0][0].isfinite().all()


@pytest.mark.parametrize("kind", [RotaryEmbedding, RelativeDecay])
def test_garbage_in_padding_reaches_no_learned_frequency(kind):
    mask = torch.tensor([[True, True, True, False], [False, True, True, True]])
    module = RotaryEmbedding(DIM, learnable=True)
    module = (
        module
        if kind is RotaryEmbedding
        else RelativeDecay(DIM, half_lives=9.0, rotary=module, learnable=True)
    )
    seen = []
    for garbage in (0.0, math.nan):
        q, k, v = (x.masked_fill(~mask[:, None, :, None], garbage) for x in some(4, 2))
        attention(q, k, v, mask=mask, rotary=module).sin().sum().backward()
        seen.append([p.grad for p in module.parameters()])
        module.zero_grad()
    assert_close(*seen, rtol=0, atol=0)
    assert all(g.isfinite().all() and g.any() for g in seen[0])


@pytest.mark.parametrize("scheme", ["none", "rotary", "alibi", "rotary and alibi"])
@pytest.mark.parametrize("n", [9, 300])
def test_garbage_in_padding_without_an_order(scheme, n):
    """Queries are rows of the keys where they are as many, or where positions say which they are."""
    mask = torch.ones(2, n, dtype=torch.bool)
    mask[0, :5], mask[1, 6:] = False, False
    projections = [rows(DIM, DIM, seed=i + 10) for i in range(3)]
    for n_q in (n, n - 2) if scheme != "none" else (n,):
        seen = []
        for garbage in (0.0, math.nan, math.inf, -1e30):
            x = rows(2, HEADS, n, DIM).masked_fill(~mask[:, None, :, None], garbage).requires_grad_()
            q, k, v = (x @ p for p in projections)
            out = attention(q[:, :, n - n_q :], k, v, mask=mask, causal=False, **SCHEMES[scheme])
            padded = ~mask[:, None, n - n_q :].expand(-1, HEADS, -1)
            assert (out[padded] == 0).all()
            (gradient,) = torch.autograd.grad(out.sin().sum(), x)
            assert (gradient.transpose(1, 2)[~mask] == 0).all()
            seen.append((out, gradient))
        for other in seen[1:]:
            assert_close(other, seen[0], rtol=0, atol=0)
        first = SCHEMES[scheme] | {"causal": False}
        alone = attention(*(y[:1, :, 5:].detach() for y in projected(mask, projections, n)), **first)
        assert_close(seen[0][0][:1, :, 5 - n :], alone[:, :, 5 - n :], rtol=0, atol=1e-5)


def projected(mask: Tensor, projections: list[Tensor], n: int) -> list[Tensor]:
    x = rows(2, HEADS, n, DIM).masked_fill(~mask[:, None, :, None], 0)
    return [x @ p for p in projections]


def test_padding_of_keys_that_are_other_rows():
    """Without an order the mask says nothing about queries."""
    q, (_, k, v) = rows(2, HEADS, 3, DIM, seed=8), some(5, 2)
    mask = torch.tensor([[True, True, False, True, False], [False] * 5])
    k, v = k.masked_fill(~mask[:, None, :, None], math.nan), v.masked_fill(~mask[:, None, :, None], math.nan)
    out = attention(q, k, v, mask=mask, causal=False)
    assert_close(out[:1], attention(q[:1], k[:1, :, mask[0]], v[:1, :, mask[0]], causal=False))
    assert (out[1] == 0).all()


@pytest.mark.parametrize("scheme", ["none", "rotary", "alibi", "rotary and alibi"])
def test_fewer_queries_with_positions_are_rows_of_the_keys_without_an_order(scheme):
    """Those on padding give zeros, the others what they give among all."""
    (q, k, v), mask = some(9, 2), torch.arange(9) < torch.tensor([[9], [6]])
    kwargs = {"mask": mask, "positions": some_times(2, 9), "causal": False, **timed(scheme)}
    out, whole = attention(q[:, :, 4:], k, v, **kwargs), attention(q, k, v, **kwargs)
    assert_close(out, whole[:, :, 4:], rtol=0, atol=1e-5)
    assert (out[1, :, 2:] == 0).all()


@SCHEME
@pytest.mark.parametrize("n", [9, 300])
def test_a_mask_of_pairs(scheme, n):
    q, k, v = (x.requires_grad_() for x in some(n, 2, 2))
    drawn = torch.Generator().manual_seed(2)
    for shape in ((2, HEADS, n, n), (1, 1, n, n), (2, 1, 1, n), (1, HEADS, n, 1)):
        mask = torch.rand(shape, generator=drawn) < 0.6
        out = attention(q, k, v, mask=mask, **SCHEMES[scheme])
        blind = ~(mask & torch.ones(n, n).tril().bool()).any(-1).expand(2, HEADS, n)
        assert (out[blind] == 0).all()
        gradients = torch.autograd.grad(out.sin().sum(), (q, k, v))
        assert all(g.isfinite().all() for g in gradients)
        assert (gradients[0][blind] == 0).all()
        if "rotary" not in scheme and "decay" not in scheme:
            expected = exact(q, k, v, alibi=SCHEMES[scheme].get("bias"), allowed=mask)
            assert_close(out.double(), expected, rtol=0, atol=1e-5)


def test_a_mask_of_pairs_without_an_order():
    (q, k, v), mask = some(5), torch.rand(1, 1, 5, 5) < 0.5
    for kwargs in ({}, {"bias": ALiBiEmbedding(HEADS)}):
        out = attention(q, k, v, mask=mask, causal=False, **kwargs)
        expected = exact(q, k, v, alibi=kwargs.get("bias"), allowed=mask, causal=False)
        assert_close(out.double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("left", [True, False])
def test_much_padding(left):
    """More padded keys than a kernel takes at once."""
    n, wide = 30, 1300
    q, k, v = some(n)
    at = wide - n if left else 0
    mask = torch.zeros(1, wide, dtype=torch.bool)
    mask[:, at : at + n] = True
    for kwargs in ({}, {"bias": ALiBiEmbedding(HEADS)}):
        out = attention(*(laid(x, at, wide, math.nan) for x in (q, k, v)), mask=mask, **kwargs)
        assert_close(out[:, :, at : at + n], attention(q, k, v, **kwargs), rtol=0, atol=1e-5)


@SCHEME
@pytest.mark.parametrize("width", [1, 3, 24])
@pytest.mark.parametrize("n", [0, 9, 300])
def test_values_of_another_width(scheme, n, width):
    """As if every feature of the values were looked up by itself."""
    (q, k, _), v = some(n, 2, 2), rows(2, 2, n, 24, seed=9)
    mask = torch.arange(n) > torch.tensor([[-1], [3]])
    for causal in (True, False) if "decay" not in scheme else (True,):
        for kwargs in ({}, {"mask": mask}):
            call = lambda v, c=causal, kw=kwargs: attention(q, k, v, causal=c, **kw, **SCHEMES[scheme])  # noqa: E731
            out = call(v[..., :width])
            assert out.shape == (2, HEADS, n, width)
            whole = torch.cat([call(part) for part in v.split(DIM, -1)], -1)
            assert_close(out, whole[..., :width], rtol=0, atol=1e-6)


def test_values_of_another_width_in_packed_sequences_and_without_keys():
    (q, k, _), v = some(9, 1, 2), rows(1, 2, 9, 3, seed=9)
    out = attention(q, k, v, cu_seqlens=torch.tensor([0, 4, 9]))
    assert_close(out[:, :, 4:], attention(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:]), rtol=0, atol=1e-6)
    nothing = attention(q[:, :, :0], k[:, :, :0], v[:, :, :0], cu_seqlens=torch.tensor([0]))
    assert nothing.shape == (1, HEADS, 0, 3)
    assert attention(q, k[:, :, :0], v[:, :, :0], causal=False).tolist() == [[[[0.0] * 3] * 9] * HEADS]


def test_keys_are_shared_by_heads_only_where_a_kernel_takes_that():
    class On(NamedTuple):
        is_cuda: bool
        dtype: torch.dtype

    for dtype, on_gpu in ((torch.float64, False), (torch.float32, False), (torch.float16, True)):
        assert takes_groups(On(False, dtype), None)
        assert takes_groups(On(True, dtype), None) == on_gpu
        assert not takes_groups(On(True, dtype), torch.ones(1, 1))
        assert not takes_groups(On(False, dtype), torch.ones(1, 1))


# Positions.


@SCHEME
@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("kind", ["nanoseconds", "float64"])
def test_a_shift_of_all_positions_changes_nothing(scheme, n, kind):
    (q, k, v), times = some(n), some_times(n) - NOW
    if kind == "float64":
        times = (times.double() / 256).round() * 256  # what float64 holds around Unix time in nanoseconds
    near, far = (attention(q, k, v, positions=t, **timed(scheme)) for t in (times, times + NOW))
    assert_close(far, near, rtol=0, atol=1e-5)


@SCHEME
def test_positions_decide_where_a_scheme_reads_them(scheme):
    (q, k, v), times = some(20), some_times(20)
    moved = attention(q, k, v, positions=times, **timed(scheme))
    even = attention(q, k, v, positions=NOW + MINUTE * torch.arange(20), **timed(scheme))
    assert torch.allclose(moved, even, atol=1e-4) == (scheme == "none")


@SCHEME
def test_row_numbers_are_the_default(scheme):
    q, k, v = some(20, 2)
    out = attention(q, k, v, **SCHEMES[scheme])
    for places in (torch.arange(20), torch.arange(20.0), torch.arange(20).expand(2, -1) + 7):
        assert_close(attention(q, k, v, positions=places, **SCHEMES[scheme]), out, rtol=0, atol=1e-5)


@pytest.mark.parametrize("n", [30, 600])
def test_a_decay_depends_on_elapsed_time_alone(n):
    (q, k, v), times = some(n), some_times(n)
    life = 7 * MINUTE
    out = attention(q, k, v, rotary=RelativeDecay(DIM, half_lives=life), positions=times)
    weight = 0.5 ** ((times[:, None] - times).double().clamp(min=0) / life)
    scores = (q.double() @ k.double().mT) * weight / math.sqrt(DIM)
    scores = scores.masked_fill(~torch.ones(n, n).tril().bool(), -math.inf)
    assert_close(out.double(), scores.softmax(-1) @ v.double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_decay_out_of_reach_of_one_block(dtype):
    """Years between rows whose scores halve in minutes."""
    q, k, v = some(60, dtype=dtype)
    times = some_times(60) + torch.arange(60) // 7 * 10**17
    out = attention(q, k, v, rotary=RelativeDecay(DIM, half_lives=MINUTE), positions=times)
    weight = 0.5 ** ((times[:, None] - times).double().clamp(min=0) / MINUTE)
    scores = (q.double() @ k.double().mT) * weight / math.sqrt(DIM)
    scores = scores.masked_fill(~torch.ones(60, 60).tril().bool(), -math.inf)
    assert_close(out.double(), scores.softmax(-1) @ v.double(), rtol=0, atol=2 * lost_by(dtype))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("learnable", [True, False])
@pytest.mark.parametrize("lives", [(0.01, 0.01), (0.3, 500.0)])
@pytest.mark.parametrize("n_q", [1, 7, 150])
def test_a_decay_of_any_speed(n_q, lives, learnable, layout):
    """Far below the gaps and above them, pairs of features side by side: values and gradients."""
    (q, k, v), times = some(150, 2, 2), some_times(2, 150).double() / MINUTE - NOW / MINUTE
    q = q[:, :, 150 - n_q :]
    module = RelativeDecay(
        DIM, half_lives=lives, learnable=learnable, rotary=RotaryEmbedding(DIM, layout=layout)
    )
    with torch.no_grad():
        turned = module.rotary(q, k, positions=times[:, 150 - n_q :], k_positions=times)

    def written_out(q, k, v):
        k, v = (x.double().repeat_interleave(2, 1) for x in (k, v))
        elapsed = (times[:, 150 - n_q :, None] - times[:, None]).clamp(min=0)[:, None, ..., None]
        weights = 0.5 ** (elapsed / module.half_lives)
        scores = (q.double()[:, :, :, None] * k[:, :, None] * weights).sum(-1) / math.sqrt(DIM)
        seen = torch.ones(n_q, 150).tril(150 - n_q).bool()
        return scores.masked_fill(~seen, -math.inf).softmax(-1) @ v

    out = attention(q, k, v, rotary=module, positions=times)
    assert_close(out.double(), written_out(*turned, v), rtol=0, atol=2e-5)
    if learnable:
        found, wanted = (
            torch.autograd.grad(x.sin().sum(), module.log_half_lives)[0]
            for x in (out, written_out(*turned, v))
        )
        assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_decay_is_cut_no_finer_for_short_half_lives(monkeypatch):
    sizes, attend = [], attention_batch.attend
    monkeypatch.setattr(
        attention_batch, "attend", lambda *a, **kw: sizes.append(a[0].shape[2]) or attend(*a, **kw)
    )
    q, k, v = some(300)
    for positions in (None, torch.arange(300)):
        attention(q, k, v, rotary=RelativeDecay(DIM, half_lives=0.01), positions=positions)
    assert min(sizes) >= 12
    assert len(sizes) <= 26


# Gradients.


@pytest.mark.parametrize("n_k_heads", [HEADS, 2])
@pytest.mark.parametrize(("n_q", "n_k"), [(6, 6), (300, 300), (280, 300)])
@pytest.mark.parametrize("causal", [True, False])
def test_gradients_of_alibi(n_q, n_k, n_k_heads, causal):
    q, k, v = some(n_k, 2, n_k_heads)
    alibi = ALiBiEmbedding(HEADS, slopes="learned", unit=2.0)
    times = rows(2, n_k, seed=5).abs().cumsum(-1).requires_grad_()
    leaves = [x.requires_grad_() for x in (q[:, :, n_k - n_q :].detach().clone(), k, v)]
    given = (*leaves, times, alibi.learned_slopes)
    out = attention(*leaves, bias=alibi, positions=times, causal=causal)
    wanted = exact(*leaves, alibi=alibi, positions=times.double(), causal=causal)
    direction = rows(*out.shape, seed=7)
    found = torch.autograd.grad(out, given, direction)
    for a, b in zip(found, torch.autograd.grad(wanted, given, direction.double()), strict=True):
        assert_close(a, b, rtol=1e-4, atol=1e-4 * b.abs().max().item())


def test_gradients_of_every_scheme_are_those_of_differences():
    n = 5
    for scheme in SCHEMES:
        kwargs = {name: module.double() for name, module in SCHEMES[scheme].items()}
        q, k, v = (x.double().requires_grad_() for x in some(n))
        times = torch.tensor([0.0, 0.5, 2.0, 2.25, 7.0], dtype=torch.float64, requires_grad=True)
        call = lambda q, k, v, t, kwargs=kwargs: attention(q, k, v, positions=t, **kwargs)  # noqa: E731
        given = (q, k, v, times) if kwargs else (q, k, v, times.detach())
        assert torch.autograd.gradcheck(call, given, fast_mode=True)
    for module in [m for kwargs in SCHEMES.values() for m in kwargs.values()]:
        module.float()


@pytest.mark.parametrize("n", [3, 300])
def test_a_second_derivative_is_torchs_to_give(n):
    """Nothing silent where its kernel has none; in the formula it is that of softmax written out."""
    q, k, v = (x.double().requires_grad_() for x in some(n))
    alibi, weights = ALiBiEmbedding(HEADS).double(), rows(1, HEADS, n, DIM, seed=8)

    def second(call):
        first = torch.autograd.grad((call().sin() * weights).sum(), (q, k, v), create_graph=True)
        return torch.autograd.grad(sum(x.sin().sum() for x in first), (q, k, v))

    with pytest.raises(RuntimeError, match="derivative for .* is not implemented"):
        second(lambda: attention(q, k, v, bias=alibi))
    with sdpa_kernel(SDPBackend.MATH):
        found = second(lambda: attention(q, k, v, bias=alibi))
    assert_close(found, second(lambda: exact(q, k, v, alibi=alibi)), rtol=1e-8, atol=1e-8)


def test_blocks_are_forgotten_only_where_a_gradient_needs_them(monkeypatch):
    from tabembed.nn import attention_blocks

    calls, kept = [], attention_blocks.checkpoint
    monkeypatch.setattr(attention_blocks, "checkpoint", lambda *a, **kw: calls.append(1) or kept(*a, **kw))
    q, k, v = some(300)
    attention(q, k, v, bias=ALiBiEmbedding(HEADS))
    with torch.no_grad():
        attention(q.requires_grad_(), k, v, bias=ALiBiEmbedding(HEADS))
    attention(q[:, :, :200], k[:, :, :200], v[:, :, :200], bias=ALiBiEmbedding(HEADS))
    assert not calls
    attention(q, k, v, bias=ALiBiEmbedding(HEADS))
    attention(q.detach(), k, v, bias=ALiBiEmbedding(HEADS, slopes="learned"))
    assert len(calls) == 4


# What surrounds a call.


def test_autocast_changes_nothing():
    q, k, v = some(300)
    for scheme in SCHEMES.values():
        with torch.autocast("cpu", torch.bfloat16):
            out = attention(q, k, v, **scheme)
        assert_close(out, attention(q, k, v, **scheme), rtol=0, atol=0)


@pytest.mark.slow
def test_symmetric_alibi_through_flex_attention(monkeypatch):
    q, k, v = some(40, 2, 2, dim=16)
    for times in (None, some_times(40), some_times(2, 40)):
        alibi = ALiBiEmbedding(HEADS, unit=1.0 if times is None else MINUTE)
        for n in (40, 1):
            expected = attention(q[:, :, 40 - n :], k, v, bias=alibi, positions=times, causal=False)
            with monkeypatch.context() as patched:
                patched.setattr(attention_batch, "runs_flex", lambda *_: True)
                patched.setattr("warnings.warn", lambda *_, **__: None)
                out = attention(q[:, :, 40 - n :], k, v, bias=alibi, positions=times, causal=False)
            assert_close(out, expected, rtol=0, atol=1e-5)


def test_flex_attention_never_runs_on_the_cpu():
    q, k, v = some(40, dim=16)
    assert not attention_flex.runs_flex(q, torch.arange(40)[None], ALiBiEmbedding(HEADS))


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        made = [x for x in pytree.tree_leaves(out) if isinstance(x, Tensor)]
        self.bytes = max([self.bytes, *(x.untyped_storage().nbytes() for x in made)])
        return out


@pytest.mark.parametrize("slopes", ["paper", "learned"])
def test_nothing_grows_with_the_square_of_the_length(slopes):
    n = 2048
    (q, k, v), alibi = (x.requires_grad_() for x in some(n, dim=16)), ALiBiEmbedding(HEADS, slopes=slopes)
    kept = []
    with (
        Largest() as largest,
        torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x),
    ):
        out = attention(q, k, v, bias=alibi)
        n_kept = sum(x.numel() * x.element_size() for x in kept)
        out.sum().backward()
    written_out = HEADS * n * n * 4
    assert 10 * largest.bytes < written_out
    assert 10 * n_kept < written_out
    assert q.grad.isfinite().all()
