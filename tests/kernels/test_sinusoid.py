"""The operator that adds waves, plain and in Triton's interpreter, against its formula."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
import reference
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import forward_ad
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from tabembed.functional.exact_phase import in_turns
from tabembed.functional.sinusoid import WAVES, add_waves
from tabembed.kernels import sinusoid, use_backend
from tabembed.kernels.sinusoid import sinusoid as op
from tabembed.nn import FrequencyEmbedding, GaussianFourierProjection, TimestepFeatures

sinusoid_triton = pytest.importorskip("tabembed.kernels.sinusoid_triton")
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BACKENDS = ("auto", "triton")  # plain PyTorch, and the interpreter


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def arguments(order="interleaved", dtype=torch.float32, shape=(2, 3, 5), n=3, times=True):
    """Rows, positions, frequencies, phases and scale; the width is odd where it may be."""
    dim = {"interleaved": 2 * n - 1, "sin": n}.get(order, 2 * n)
    whole = torch.randint(-(2**62), 2**62, (shape[0], shape[2]), generator=torch.Generator().manual_seed(1))
    positions = drawn(shape[0], shape[2], seed=2) * 1e3 if times else whole
    frequencies = in_turns(drawn(n, seed=3).abs())
    return (
        drawn(*shape, dim, dtype=dtype),
        positions,
        frequencies,
        drawn(n, seed=4),
        torch.tensor(1.75),
        order,
    )


def close(got, expected):
    """Equal up to the last digit of a dtype; the interpreter cuts bfloat16 where hardware rounds."""
    lost = {torch.float64: 1e-13, torch.float32: 2e-6}.get(got.dtype, torch.finfo(got.dtype).eps)
    assert_close(got, expected, rtol=lost, atol=min(lost, 4e-6))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", WAVES)
def test_forward_equals_the_formula(order, dtype, backend):
    for times in (False, True):
        given = arguments(order, dtype, times=times)
        with use_backend(backend):
            got = sinusoid(*given)
        assert got.is_contiguous()
        close(got, add_waves(*given))


def gradients(function, given, direction):
    leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in given[:-1]]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    return torch.autograd.grad(function(*leaves, given[-1]), wanted, direction)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", WAVES)
def test_every_gradient_equals_that_of_the_formula(order, dtype, backend):
    for times in (True, False):
        given = arguments(order, dtype, times=times)
        direction = drawn(*given[0].shape, seed=5, dtype=dtype)
        with use_backend(backend):
            got = gradients(sinusoid, given, direction)
        wide = (given[0].double(), *given[1:])
        expected = gradients(add_waves, wide, direction.double())
        assert len(got) == 4 + times
        assert torch.equal(got[0], direction)
        for one, truth in zip(got[1:], expected[1:], strict=True):
            assert one.dtype == truth.dtype
            scale = truth.abs().max().item()  # float32 waves, summed in float64
            assert_close(one, truth, rtol=0, atol=scale * (1e-12 if dtype == torch.float64 else 2e-6))


@pytest.mark.parametrize("n", [36, 40, 48, 130])
def test_widths_that_are_no_powers_of_two(n):  # 72, 80, 96 and more than one tile
    given = arguments("interleaved", shape=(1, 2, 3), n=n)
    given = (drawn(1, 2, 3, 2 * n, dtype=torch.float32), *given[1:])
    with use_backend("triton"):
        close(sinusoid(*given), add_waves(*given))
        halves = (*given[:-1], "sin_cos")
        close(sinusoid(*halves), add_waves(*halves))


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4, 1), (3, 1, 2), (1, 1, 70_000)], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_row_one_step_and_more_steps_than_a_grid_axis_holds(shape, backend):
    given = arguments("sin", shape=shape, n=1)
    with use_backend(backend):
        close(sinusoid(*given), add_waves(*given))


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0)], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_at_all(shape, backend):
    given = arguments(shape=shape)
    with use_backend(backend):
        assert sinusoid(*given).shape == (*shape, 5)
        assert all(not g.any() for g in gradients(sinusoid, given, given[0]))


def strided():
    """The same numbers as seen in other places of memory."""
    x, *others = arguments(shape=(2, 3, 5))
    yield x.permute(3, 0, 2, 1).contiguous().permute(1, 3, 2, 0), *others
    yield torch.cat((x, x.neg()), -1)[..., : x.shape[-1]], *others  # of a fused buffer
    yield torch.stack((x, x.neg()), -1)[..., 0], *others
    yield x[:, :1].expand_as(x), *others
    yield torch.zeros(()).expand_as(x), *others
    positions, frequencies, phases, scale, order = others
    yield x, positions.T.contiguous().T, frequencies.T.contiguous().T, phases, scale[None], order
    yield x, positions[:1].expand_as(positions), frequencies, phases[:1].expand(3), scale, order


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", range(7))
def test_any_strides(case, backend):
    given = list(strided())[case]
    with use_backend(backend):
        close(sinusoid(*given), add_waves(*given))
        for direction in (torch.ones(()).expand(given[0].shape), given[0].flip(1)):
            for one, truth in zip(
                gradients(sinusoid, given, direction), gradients(add_waves, given, direction), strict=True
            ):
                assert_close(one, truth, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("order", WAVES)
def test_nothing_is_written_around_the_output(order):
    given = arguments(order, shape=(2, 2, 5))
    guarded = torch.full((given[0].numel() + 200,), 7.0)
    out = guarded[100:-100].view(given[0].shape)
    sinusoid_triton.launch(out, *given)
    close(out, add_waves(*given))
    assert (guarded[:100] == 7).all()
    assert (guarded[-100:] == 7).all()


def test_rows_further_apart_than_32_bits_count():  # H38
    memory = torch.empty(2**31 + 8, dtype=torch.float16)  # only the pages that are touched exist
    x = memory.as_strided((2, 1, 1, 5), (2**31, 8, 8, 1)).copy_(drawn(2, 1, 1, 5))
    given = (x, *arguments(shape=(2, 1, 1))[1:])
    with use_backend("triton"):
        close(sinusoid(*given), add_waves(*given))


def test_rows_are_split_among_programs(monkeypatch):
    given = arguments("sin", shape=(1, 7, 3), n=2)
    monkeypatch.setattr(sinusoid_triton, "_PROGRAMS", 3)  # 3, 3 and 1 of them
    with use_backend("triton"):
        close(sinusoid(*given), add_waves(*given))


# The operator as PyTorch sees it


@pytest.mark.parametrize("order", WAVES)
def test_derivatives_of_first_and_second_order(order):
    x, positions, *others, _ = arguments(order, torch.float64, shape=(2, 2, 2), n=2)
    positions = positions / 1e3
    leaves = [t.double().requires_grad_() for t in (x, positions, *others)]
    assert torch.autograd.gradcheck(lambda *t: op(*t, order), leaves)
    assert torch.autograd.gradgradcheck(lambda *t: op(*t, order).pow(2), leaves)


def test_a_third_derivative():
    x, positions, *others, order = arguments(dtype=torch.float64, shape=(1, 1, 2), n=2)
    positions = (positions / 1e3).requires_grad_()

    def third(function):
        y = function(x, positions, *others, order).sum()
        for _ in range(3):
            (y,) = torch.autograd.grad(y.sum(), positions, create_graph=True)
        return y

    assert_close(third(op), third(add_waves), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("order", "dtype"), list(zip(WAVES, DTYPES, strict=True)), ids=str)
def test_opcheck(order, dtype):
    x, positions, *others, _ = arguments(order, dtype)
    for rows in (x.transpose(1, 2).contiguous().transpose(1, 2), x[:, :1].expand_as(x)):
        torch.library.opcheck(op, (rows.detach().requires_grad_(), positions, *others, order))
    leaves = [t.detach().requires_grad_() for t in (x, positions, *others)]
    torch.library.opcheck(op, (*leaves, order))


def test_only_the_gradients_asked_for_are_computed():
    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            calls[str(function)] += 1
            return function(*args, **(kwargs or {}))

    given = arguments()
    for place, expected in ((0, 0), (1, 1), (2, 1), (3, 1), (4, 1)):
        leaves = [t.requires_grad_(i == place) for i, t in enumerate(t.detach().clone() for t in given[:-1])]
        y, calls = op(*leaves, given[-1]), Counter()
        direction = torch.ones_like(y)
        with Counting():
            torch.autograd.grad(y, leaves[place], direction)
        assert calls["tabembed.sinusoid.default"] == expected
        assert expected or not calls


def test_gradients_are_the_same_every_time():
    given = arguments(shape=(2, 50, 31))
    first, again = (gradients(op, given, given[0]) for _ in range(2))
    assert all(map(torch.equal, first, again))


def test_vmap():
    x, *others, order = arguments()
    xs = torch.stack((x, x.neg()))
    for places, given in (((0, None), (xs, others[0])), ((None, 1), (x, torch.stack(2 * [others[0]], 1)))):
        got = torch.func.vmap(lambda a, b: op(a, b, *others[1:], order), places)(*given)
        assert_close(got[0], op(x, *others, order))
        assert_close(got[1], op(xs[1] if places[0] == 0 else x, *others, order))


def test_derivatives_of_torch_func():
    x, *others, _, order = arguments()
    scales = torch.tensor([0.5, 2.0])

    def loss(scale):
        return sinusoid(x, *others, scale, order).pow(2).sum()

    by_hand = torch.stack(
        [torch.autograd.grad(loss(s), s)[0] for s in scales.clone().requires_grad_().unbind()]
    )
    assert_close(torch.func.vmap(torch.func.grad(loss))(scales), by_hand)
    one = torch.ones(())
    assert_close(torch.func.jvp(loss, (scales[1],), (one,))[1], by_hand[1])
    with forward_ad.dual_level():  # an operator would lose the tangent without a word
        dual = loss(forward_ad.make_dual(scales[1], one))
        assert_close(forward_ad.unpack_dual(dual).tangent, by_hand[1])


def test_exported_programs_need_no_operator():
    class Waves(torch.nn.Module):
        def forward(self, x, positions, frequencies, phases, scale):
            return sinusoid(x, positions, frequencies, phases, scale, "interleaved")

    given = arguments()
    program = torch.export.export(Waves(), given[:-1])
    assert "tabembed" not in str(program.graph)
    assert_close(program.module()(*given[:-1]), sinusoid(*given))


def test_compiled_once_for_all_lengths():
    counter = CompileCounterWithBackend("aot_eager")
    torch.compiler.reset()
    compiled = torch.compile(sinusoid, fullgraph=True, dynamic=True, backend=counter)
    for n_steps in (7, 8, 31):
        given = arguments(shape=(2, 3, n_steps))
        leaf = given[4].clone().requires_grad_()
        got = compiled(*given[:4], leaf, given[5])
        assert_close(got, sinusoid(*given))
        (of_scale,) = torch.autograd.grad(got.sum(), leaf)
        assert_close(of_scale, gradients(sinusoid, given, torch.ones_like(got))[-1])
    assert counter.frame_count == 1


def test_sizes_past_32_bits_are_planned_without_memory():  # H38
    with torch.device("meta"):
        x, positions = torch.empty(1, 2**16, 2**10 + 1, 64), torch.empty(1, 2**10 + 1, dtype=torch.int64)
        frequencies, phases, scale = torch.empty(3, 32), torch.empty(32), torch.empty(())
    assert op(x, positions, frequencies, phases, scale, "interleaved").shape == x.shape
    assert x.numel() > 2**31


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_largest_integers_keep_their_phase(backend):
    places, f, eighth = [2**63 - 1, -(2**63), 2**62 + 1], 0.7, torch.tensor([0.125], dtype=torch.float64)
    turns = in_turns(torch.tensor([f], dtype=torch.float64))
    expected = [math.sin(reference.radians(p * Fraction(f)) + math.tau / 8) for p in places]
    with use_backend(backend):
        nothing = torch.zeros(()).expand(1, 1, 3, 1)
        got = sinusoid(nothing, torch.tensor([places]), turns, eighth, torch.tensor(1.0), "sin").flatten()
    assert_close(got, torch.tensor(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_waves_of_timesteps_projections_and_time2vec(backend):
    times = torch.tensor([0, 1, 937, 1_700_000_001])
    features = TimestepFeatures(6, scale=3.0, precision="exact")
    projection = GaussianFourierProjection(8, scale=0.1, seed=0)
    waves = FrequencyEmbedding(5, amplitudes=False, seed=0)
    ladder = torch.tensor([3.0, 3.0 * 10_000 ** (-1 / 3), 3.0 * 10_000 ** (-2 / 3)], dtype=torch.float64)
    still = torch.zeros(8, dtype=torch.float64)
    cases = [
        (features(times), ladder, still[:3], "cos_sin"),
        (projection(times), projection.frequencies.double() * math.tau, still[:4], "sin_cos"),
        (waves(times.double())[:, 1:], waves.frequency, waves.phase.double() / math.tau, "sin"),
    ]
    for expected, frequencies, phases, order in cases:
        nothing = torch.zeros(()).expand(1, 1, *expected.shape)
        with use_backend(backend):
            got = sinusoid(nothing, times[None], in_turns(frequencies), phases, torch.tensor(1.0), order)
        assert_close(got[0, 0], expected.float(), rtol=0, atol=4e-6)


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match="order must be one of .*, got 'cos-sin'"):
        sinusoid(*[torch.ones(1)] * 5, "cos-sin")
