"""``attention`` where nothing can be read: compiled, for any length, and under function transforms."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.attention import attention
from tabembed.nn.decay import RelativeDecay
from tabembed.nn.rotary import RotaryEmbedding

HEADS, DIM = 4, 8

SCHEMES = {
    "none": {},
    "rotary": {"rotary": RotaryEmbedding(DIM)},
    "alibi": {"bias": ALiBiEmbedding(HEADS)},
    "learned alibi": {"bias": ALiBiEmbedding(HEADS, mode="causal", slopes="learned")},
    "decay": {"rotary": RelativeDecay(DIM, half_lives=(3.0, 90.0), rotary=RotaryEmbedding(DIM))},
    "fast decay": {"rotary": RelativeDecay(DIM, half_lives=(0.5, 3.0), learnable=True)},
    "decay and alibi": {"rotary": RelativeDecay(DIM, half_lives=20.0), "bias": ALiBiEmbedding(HEADS)},
}


def some(n: int, n_batch: int = 1, seed: int = 0) -> list[Tensor]:
    drawn = torch.Generator().manual_seed(seed)
    return [torch.randn(n_batch, HEADS, n, DIM, generator=drawn) for _ in range(3)]


def compiled(function, backend="eager"):
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, backend=backend)


def decay(layout: str = "half", learnable: bool = False) -> RelativeDecay:
    rotary = RotaryEmbedding(DIM, layout=layout)
    return RelativeDecay(DIM, half_lives=(7.0, 30.0), rotary=rotary, learnable=learnable)


# What cannot be read is treated as if it did not fit.


@pytest.mark.parametrize(
    ("kind", "layout", "dtype"),
    [
        (torch.int64, "half", torch.float32),
        (torch.float64, "interleaved", torch.float64),
        (torch.int64, "interleaved", torch.float16),
        (torch.float64, "half", torch.bfloat16),
    ],
    ids=str,
)
def test_compiled_decay_over_years(kind, layout, dtype):
    q, k, v = (x.to(dtype) for x in some(64, 2))
    module, times = decay(layout), (50 * torch.arange(64) + 1_700_000_000).to(kind)
    call = lambda q, t: attention(q, k[:, :2], v[:, :2], rotary=module, positions=t)  # noqa: E731
    lost = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-5)
    assert_close(compiled(call)(q, times), call(q, times), rtol=0, atol=lost)
    assert_close(compiled(call)(q[:, :, -5:], times), call(q, times)[:, :, -5:], rtol=0, atol=lost)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmapped_decay_over_years():
    (q, k, v), times = some(64, 3), 50 * torch.arange(64) + torch.tensor([[0], [7], [10**9]])
    for module in (decay(), decay(learnable=True)):
        call = lambda q, k, v, t, m=module: attention(q[None], k[None], v[None], rotary=m, positions=t)[0]  # noqa: E731
        expected = torch.stack([call(*x) for x in zip(q, k, v, times, strict=True)])
        assert_close(torch.func.vmap(call)(q, k, v, times), expected, rtol=0, atol=1e-5)


def test_compiled_decay_with_learned_half_lives():
    """Over row numbers, too: how far a block may reach depends on the rate."""
    q, k, v = some(200)
    module = RelativeDecay(DIM, half_lives=(1.0, 3.0), learnable=True)
    call = lambda q: attention(q, k, v, rotary=module)  # noqa: E731
    expected = attention(q, k, v, rotary=RelativeDecay(DIM, half_lives=(1.0, 3.0)))
    assert_close(call(q), expected, rtol=0, atol=1e-5)
    assert_close(compiled(call)(q), expected, rtol=0, atol=1e-5)


def test_a_function_of_learned_half_lives():
    (q, k, v), times = some(30), 5 * torch.arange(30)
    module, learned = decay(learnable=True), torch.linspace(-1, 1, DIM // 2)

    def call(values: Tensor) -> Tensor:
        return torch.func.functional_call(Call(module), {"module.log_half_lives": values}, (q, k, v, times))

    with torch.no_grad():
        module.log_half_lives.copy_(learned)
    eager = attention(q, k, v, rotary=module, positions=times)
    eager.sin().sum().backward()
    assert_close(torch.func.vmap(call)(learned[None])[0], eager, rtol=0, atol=1e-5)
    gradient = torch.func.grad(lambda x: call(x).sin().sum())(learned)
    assert_close(gradient, module.log_half_lives.grad, rtol=1e-4, atol=1e-5)


class Call(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, q, k, v, times):
        return attention(q, k, v, rotary=self.module, positions=times)


@pytest.mark.parametrize("extra", ["", "mask", "bias", "alibi"])
def test_gradients_of_a_compiled_decay(extra):
    (q, k, v), times = some(40, 2), (9.0 * torch.arange(40)).requires_grad_()
    mask, bias = torch.ones(2, 40, dtype=torch.bool), torch.linspace(-1, 1, 40).requires_grad_()
    mask[0, :7], mask[1, 30:] = False, False
    added = {"": {}, "mask": {"mask": mask}, "bias": {"bias": bias}, "alibi": {"bias": ALiBiEmbedding(HEADS)}}
    module = decay(learnable=True)
    given = [*(x.requires_grad_() for x in (q, k, v)), times, module.log_half_lives]
    given += [bias] if extra == "bias" else []
    call = lambda q, t: attention(q, k, v, rotary=module, positions=t, **added[extra])  # noqa: E731
    out = [call(q, times), compiled(call)(q, times)]
    assert_close(out[1], out[0], rtol=0, atol=1e-5)
    found = [torch.autograd.grad(x.sin().sum(), given) for x in out]
    assert_close(found[1], found[0], rtol=1e-3, atol=1e-5)


def test_compiled_slopes_that_are_learned_to_be_steep():
    (q, k, v), module = some(300), ALiBiEmbedding(HEADS, slopes="learned")
    with torch.no_grad():
        module.learned_slopes.mul_(1000)
    call = lambda q: attention(q, k, v, bias=module)  # noqa: E731
    truth = attention(*(x.double() for x in (q, k, v)), bias=copy.deepcopy(module).double()).float()
    assert_close(compiled(call)(q), truth, rtol=0, atol=2e-5)


def test_compiled_times_of_any_span():
    (q, k, v), alibi = some(300), ALiBiEmbedding(HEADS, unit=10**6)
    times = 10**18 + 97 * 10**9 * torch.arange(300)
    call = lambda t: attention(q, k, v, bias=alibi, positions=t)  # noqa: E731
    assert_close(compiled(call)(times), call(times), rtol=0, atol=1e-5)


# Compiled for any length.


@pytest.mark.parametrize(
    ("scheme", "padded", "timed"),
    [(scheme, False, False) for scheme in ("rotary", "alibi", "decay")]
    + [
        pytest.param(scheme, padded, padded, marks=pytest.mark.slow)
        for scheme in SCHEMES
        for padded in (False, True)
        if padded or scheme not in ("rotary", "alibi", "decay")
    ],
)
def test_two_graphs_serve_every_length_of_one_block(scheme, padded, timed):
    torch.compiler.reset()
    counter = CompileCounter()

    def call(q, k, v, mask, times):
        return attention(q, k, v, mask=mask, positions=times, **SCHEMES[scheme])

    any_length = torch.compile(call, fullgraph=True, backend=counter)
    for n in (7, 9, 5, 100, 256):
        mask = torch.arange(n) > torch.tensor([[-1], [2]]) if padded else None
        given = (*some(n, 2), mask, 3 * torch.arange(n) if timed else None)
        assert_close(any_length(*given), call(*given), rtol=0, atol=1e-5)
    assert counter.frame_count <= 2


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["alibi", "decay"])
def test_beyond_a_block_a_graph_for_every_number_of_blocks(scheme):
    torch.compiler.reset()
    counter = CompileCounter()
    call = lambda q, k, v: attention(q, k, v, **SCHEMES[scheme])  # noqa: E731
    any_length = torch.compile(call, fullgraph=True, backend=counter)
    for n, n_graphs in ((290, 1), (300, 2), (500, 2), (514, 3), (700, 3), (260, 3)):
        assert_close(any_length(*some(n)), call(*some(n)), rtol=0, atol=1e-5)
        assert counter.frame_count == n_graphs


def test_one_query_at_a_time_against_any_number_of_keys():
    torch.compiler.reset()
    counter = CompileCounter()
    scheme = {"rotary": RotaryEmbedding(DIM), "bias": ALiBiEmbedding(HEADS)}
    step = torch.compile(lambda q, k, v: attention(q, k, v, **scheme), fullgraph=True, backend=counter)
    for n in (7, 8, 300):
        q, k, v = some(n)
        assert_close(step(q[:, :, -1:], k, v), attention(q, k, v, **scheme)[:, :, -1:], rtol=0, atol=1e-5)
    assert counter.frame_count == 2


SLOW = [("rotary and alibi", 20), ("learned alibi", 300), ("decay", 300)]


@pytest.mark.parametrize(
    ("scheme", "n", "backend"),
    [(scheme, n, "eager") for scheme, n in SLOW]
    + [pytest.param(scheme, n, "aot_eager", marks=pytest.mark.slow) for scheme, n in SLOW],
)
def test_compiles_in_one_graph(scheme, n, backend):
    kwargs = {**SCHEMES["rotary"], **SCHEMES["alibi"]} if scheme == "rotary and alibi" else SCHEMES[scheme]
    q, k, v = (x.requires_grad_() for x in some(n, 2))
    mask = torch.ones(2, n, dtype=torch.bool)
    mask[0, :7] = False

    def call(q, k, v):
        return attention(q, k, v, mask=mask, **kwargs)

    out = compiled(call, backend)(q, k, v)
    assert_close(out, call(q, k, v), rtol=0, atol=1e-5)
    gradients = [torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (out, call(q, k, v))]
    assert_close(*gradients, rtol=0, atol=2e-5)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_function_transforms():
    (q, k, v), alibi = some(300, 2), ALiBiEmbedding(HEADS)
    call = lambda q, k, v: attention(q[None], k[None], v[None], rotary=RotaryEmbedding(DIM), bias=alibi)[0]  # noqa: E731
    out = torch.func.vmap(call)(q, k, v)
    assert_close(out, torch.stack([call(*x) for x in zip(q, k, v, strict=True)]))
    gradient = torch.func.grad(lambda q: call(q, k[0], v[0]).sin().sum())(q[0])
    leaf = q[0].clone().requires_grad_()
    assert_close(gradient, torch.autograd.grad(call(leaf, k[0], v[0]).sin().sum(), leaf)[0])
