"""``attention`` under ``torch.func`` and forward mode, in which torch's own kernels have no rules."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.autograd import forward_ad
from torch.testing import assert_close

from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.attention import attention
from tabembed.nn.decay import RelativeDecay
from tabembed.nn.rotary import RotaryEmbedding

HEADS, DIM, N = 2, 4, 5
REAL = torch.tensor([[True, True, False, True, True]])

SCHEMES = {
    "none": {},
    "in both directions": {"causal": False},
    "padded": {"mask": REAL},
    "rotary": {"rotary": RotaryEmbedding(DIM, learnable=True)},
    "alibi": {"bias": ALiBiEmbedding(HEADS)},
    "learned alibi": {"bias": ALiBiEmbedding(HEADS, slopes="learned")},
    "learned alibi in both directions": {"bias": ALiBiEmbedding(HEADS, slopes="learned"), "causal": False},
    "decay": {"rotary": RelativeDecay(DIM, half_lives=(0.02, 30.0), learnable=True)},
    "a tensor": {"bias": torch.linspace(-1, 1, N).requires_grad_()},
}
SCHEME = pytest.mark.parametrize("scheme", SCHEMES)


def some(*shape: int) -> list[torch.Tensor]:
    drawn = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, 1, heads, N, DIM, generator=drawn) for heads in (HEADS, 1, 1)]


@pytest.fixture(autouse=True)
def _nothing_is_slow_in_silence():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="There is a performance drop")
        yield


@SCHEME
def test_over_each_argument(scheme):
    call = lambda q, k, v: attention(q, k, v, **SCHEMES[scheme])  # noqa: E731
    given = some(3)
    for mapped in ((0, 0, 0), (0, None, None), (None, None, 0)):
        taken = [x if d == 0 else x[0] for x, d in zip(given, mapped, strict=True)]
        rows = [[x[i] if d == 0 else x for x, d in zip(taken, mapped, strict=True)] for i in range(3)]
        expected = torch.stack([call(*one) for one in rows])
        assert_close(torch.func.vmap(call, mapped)(*taken), expected, rtol=0, atol=1e-5)


@SCHEME
@pytest.mark.parametrize("argument", range(3))
def test_derivatives_are_those_of_autograd(scheme, argument):
    given = some()
    x = given[argument]

    def loss(x):
        return attention(*given[:argument], x, *given[argument + 1 :], **SCHEMES[scheme]).sin().sum()

    (expected,) = torch.autograd.grad(loss(leaf := x.clone().requires_grad_()), leaf)
    assert_close(torch.func.grad(loss)(x), expected, rtol=1e-4, atol=1e-5)
    each = torch.func.vmap(torch.func.grad(loss))(x[None])
    assert_close(each[0], expected, rtol=1e-4, atol=1e-5)
    slope = (expected * x).sum()
    assert_close(torch.func.jvp(loss, (x,), (x,))[1], slope, rtol=1e-4, atol=1e-5)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(loss(forward_ad.make_dual(x, x))).tangent
    assert_close(tangent, slope, rtol=1e-4, atol=1e-5)
    step = 1e-2 * torch.ones_like(x)
    curved = torch.func.hessian(loss)(x).flatten(x.ndim).flatten(0, x.ndim - 1)
    assert_close(torch.func.grad(loss)(x + step) - torch.func.grad(loss)(x - step),
                 (curved @ step.flatten()).view_as(x) * 2, rtol=0.02, atol=1e-4)  # fmt: skip


def test_many_rows_are_differentiated_in_blocks():
    q, k, v = (x.repeat(1, 1, 60, 1) for x in some())
    bias = ALiBiEmbedding(HEADS, slopes="learned")
    loss = lambda q: attention(q, k, v, bias=bias).sin().sum()  # noqa: E731
    (expected,) = torch.autograd.grad(loss(leaf := q.clone().requires_grad_()), leaf)
    assert_close(torch.func.grad(loss)(q), expected, rtol=1e-4, atol=1e-5)
    assert_close(torch.func.jvp(loss, (q,), (q,))[1], (expected * q).sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_gives_half_precision(dtype):
    given = [x.to(dtype) for x in some()]
    out = torch.func.vmap(attention)(*(x[None] for x in given))
    assert out.dtype == dtype
    assert_close(out[0], attention(*given), rtol=0, atol=2e-2)
