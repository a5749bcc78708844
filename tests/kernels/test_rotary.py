"""The operator that turns queries and keys, plain and in Triton's interpreter, against its formula."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import reference
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

from tabembed.functional.exact_phase import in_turns
from tabembed.functional.rotary import rotate as formula
from tabembed.kernels import rotary_plain, rotate, use_backend
from tabembed.kernels.rotary import pair_products
from tabembed.kernels.rotary import rotate as op

rotary_triton = pytest.importorskip("tabembed.kernels.rotary_triton")
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BACKENDS = ("auto", "triton")  # plain PyTorch, and the interpreter
NS = 1_700_000_000_123_456_789


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def arguments(
    dtype=torch.float32,
    q=(2, 3, 5),
    k=(2, 1, 7),
    dim=9,
    n=4,
    *,
    ns=False,
    shared=False,
    decay=False,
    interleaved=False,
):
    """Queries and keys of their own heads and steps, one feature that passes; times in seconds or in ns."""
    places = [drawn(1 if shared else q[0], steps, seed=steps) * 30 for steps in (q[2], k[2])]
    f, rates, origin = (
        drawn(n, seed=3).abs(),
        drawn(n, seed=4).abs() / 100,
        places[0].new_full((len(places[0]),), 2.5),
    )
    if ns:
        places, origin = [NS + (p * 1e9).long() for p in places], torch.full((len(places[0]),), NS - 3)
        f, rates = f / 1e9, rates / 1e9
    frequencies = in_turns(f)
    x = drawn(*q, dim, dtype=dtype), drawn(*k, dim, seed=1, dtype=dtype)
    return [*x, *places, frequencies, *((rates, origin) if decay else (None, None)), interleaved, False]


def close(got, expected):
    """Equal up to the last digit of a dtype; the interpreter cuts bfloat16 where hardware rounds."""
    lost = {torch.float64: 1e-9, torch.float32: 4e-6}.get(got.dtype, 2 * torch.finfo(got.dtype).eps)
    assert_close(got, expected, rtol=lost, atol=lost)


def gradients(function, given, directions):
    """Of every float argument but the origin."""
    leaves = [
        t.detach().requires_grad_(t.is_floating_point() and i < 6) if isinstance(t, torch.Tensor) else t
        for i, t in enumerate(given)
    ]
    wanted = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
    return torch.autograd.grad(function(*leaves), wanted, directions)


def largest(x):
    return max(1.0, x.abs().max().item()) if x.numel() else 1.0


def check_gradients(given, directions):
    """Against those of the formula in float64, which rounds nothing; sums over terms of their own size."""
    got = gradients(rotate, given, directions)
    wide = [t.double() if i < 2 else t for i, t in enumerate(given)]
    limits = {torch.float64: 1e-10, torch.float32: 4e-6}.get(
        given[0].dtype, 4 * torch.finfo(given[0].dtype).eps
    )
    for one, truth in zip(got, gradients(formula, wide, [d.double() for d in directions]), strict=True):
        assert_close(one.double(), truth, rtol=limits, atol=limits * largest(truth))


CASES = [
    {"ns": True, "decay": True},
    {"shared": True, "interleaved": True},
    {"decay": True, "interleaved": True, "dim": 8},
    {"ns": True, "shared": True},
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_and_every_gradient_equal_the_formula(case, dtype, backend):
    given = arguments(dtype, **case)
    if dtype == torch.float16 and case.get("decay"):
        given[5] = given[5] / 3  # the formula in float64 would go on where float16 ends
    for inverse in (False, True):
        given[-1] = inverse
        with use_backend(backend):
            got = rotate(*given)
            for one, truth in zip(got, formula(*given), strict=True):
                assert one.dtype == dtype
                close(one, truth)
            check_gradients(given, [drawn(*x.shape, seed=7, dtype=dtype) for x in got])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "n"), [(72, 36), (80, 40), (96, 48), (96, 16), (6, 1), (2, 1), (130, 65)])
def test_widths_that_are_no_powers_of_two(dim, n, interleaved, backend):
    given = arguments(q=(1, 2, 3), k=(1, 1, 2), dim=dim, n=n, interleaved=interleaved)
    with use_backend(backend):
        for one, truth in zip(rotate(*given), formula(*given), strict=True):
            close(one, truth)
            assert torch.equal(one[..., 2 * n :], truth[..., 2 * n :])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("q", "k"),
    [
        ((1, 1, 1), (1, 1, 1)),
        ((3, 9, 1), (3, 2, 11)),  # one step against many; more heads than a tile has
        ((2, 0, 3), (2, 3, 3)),
        ((2, 3, 3), (2, 0, 3)),
        ((0, 2, 3), (0, 2, 3)),
        ((2, 2, 0), (2, 2, 5)),
    ],
)
def test_one_of_each_and_none(q, k, backend):
    given = arguments(q=q, k=k, decay=True)
    with use_backend(backend):
        for one, truth in zip(rotate(*given), formula(*given), strict=True):
            assert one.shape == truth.shape
            close(one, truth)
        check_gradients(given, [drawn(*shape, 9, seed=7, dtype=torch.float32) for shape in (q, k)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_steps_than_65_535(backend, monkeypatch):
    given = arguments(q=(1, 1, 70_000), k=(1, 1, 3), dim=2, n=1)
    monkeypatch.setattr(rotary_triton, "tile", lambda *_: (8192, 1))  # fewer programs to interpret
    with use_backend(backend):
        close(rotate(*given)[0], formula(*given)[0])


def strided():
    """The same numbers as seen in other places of memory."""
    q, k, *others = arguments(q=(2, 3, 5), k=(2, 3, 5), dim=8, n=3)
    yield q.transpose(1, 2).contiguous().transpose(1, 2), k, *others  # steps before heads
    yield q.permute(3, 2, 0, 1).contiguous().permute(2, 3, 1, 0), k, *others
    fused = torch.cat((q, k, q), -1)
    yield fused[..., :8], fused[..., 8:16], *others
    yield torch.cat((q.flatten(2), k.flatten(2)), -1).view(2, 3, 10, 8).split(5, 2) + tuple(others)
    yield torch.stack((q, q.neg()), -1)[..., 0], torch.stack((k, k), -1)[..., 1], *others
    yield torch.cat((q, q), -1)[..., 1:9], torch.cat((k, k), -1)[..., :8], *others  # an odd start
    yield q[:, :1].expand_as(q), k[:1].expand_as(k), *others
    yield torch.zeros(()).expand_as(q), torch.ones(()).expand_as(k), *others
    yield q.as_strided(q.shape, (8, 4, 8, 1)), k, *others  # overlapping
    q_positions, k_positions, f, *rest = others
    yield q, k, q_positions.T.contiguous().T, k_positions[:1].expand(2, -1), f.T.contiguous().T, *rest


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("case", range(10))
def test_any_strides(case, interleaved, backend):
    given = list(list(strided())[case])
    given[7] = interleaved
    with use_backend(backend):
        for x, one, truth in zip(given, rotate(*given), formula(*given), strict=False):
            close(one, truth)
            assert one.stride() == torch.empty_like(x).stride()
        for g in (
            torch.ones(()).expand(given[0].shape),
            given[0].transpose(1, 2).contiguous().transpose(1, 2),
        ):
            check_gradients(given, [g, g])


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_written_around_the_outputs(backend, interleaved, monkeypatch):
    given = arguments(q=(2, 3, 5), k=(2, 2, 6), dim=72, n=33, interleaved=interleaved)
    guarded = []

    def between_guards(x, **_):
        guarded.append(torch.full((x.numel() + 400,), 7.0, dtype=x.dtype))
        return guarded[-1][200:-200].view(x.shape)

    module = rotary_triton if backend == "triton" else rotary_plain
    with monkeypatch.context() as patched:
        patched.setattr(module.torch, "empty_like", between_guards)
        got = module.rotate(*given)
    for one, truth in zip(got, formula(*given), strict=True):
        close(one, truth)
    assert len(guarded) == 2
    for memory in guarded:
        assert (memory[:200] == 7).all()
        assert (memory[-200:] == 7).all()


def far_apart(*shape, strides, dtype=torch.bfloat16):
    """Numbers further apart than 32 bits count; only the pages that are touched exist."""
    size = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    x = torch.empty(size, dtype=dtype).as_strided(shape, strides)
    return x.copy_(drawn(*shape))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "strides",
    [(2**31, 64, 8, 1), (64, 2**31, 8, 1), (64, 8, 2**31, 1), (2**30 + 24, 2**30 + 40, 8, 1)],
    ids=["batch", "head", "step", "sum"],
)
def test_numbers_further_apart_than_32_bits_count(strides, backend, monkeypatch):  # H38
    _, k, *others = arguments(torch.bfloat16, q=(2, 2, 2), k=(2, 1, 3), dim=8, n=3)
    q = far_apart(2, 2, 2, 8, strides=strides)
    near = q.clone(memory_format=torch.contiguous_format)
    monkeypatch.setattr(torch, "empty_like", lambda x, **_: x.new_empty(x.shape))  # a dense output fits
    with use_backend(backend):
        for one, truth in zip(rotate(q, k, *others), rotate(near, k, *others), strict=True):
            assert torch.equal(one, truth)
        g = pair_products(q, near, 3, False)
        assert torch.equal(g, pair_products(near, near, 3, False))


def test_more_numbers_than_32_bits_count_are_planned_without_memory():  # H38
    with torch.device("meta"):
        q, p = (
            torch.empty(1, 64, 262_145, 128, dtype=torch.bfloat16),
            torch.empty(1, 262_145, dtype=torch.int64),
        )
        fused = torch.empty(1, 262_145, 3, 64, 128, dtype=torch.bfloat16)[:, :, 1].transpose(1, 2)
        frequencies = torch.empty(3, 64)
    for x in (q, fused):
        out, _ = op(x, x[:, :0], p, p, frequencies, None, None, False, False)
        assert out.shape == x.shape
        assert out.numel() > 2**31
        assert out.stride() == torch.empty_like(x).stride()


def test_heads_are_split_among_programs(monkeypatch):
    given = arguments(q=(1, 9, 3), k=(1, 6, 40))
    monkeypatch.setattr(rotary_triton, "_PROGRAMS", 2)
    with use_backend("triton"):
        for one, truth in zip(rotate(*given), formula(*given), strict=True):
            close(one, truth)


def test_pieces_and_the_whole_are_the_same(monkeypatch):
    for case in ({}, {"interleaved": True, "dim": 9}, {"decay": True, "shared": True}):
        given = arguments(q=(3, 4, 50), k=(3, 2, 20), **case)
        steps_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in given[:2]]
        whole = op(*given)
        with monkeypatch.context() as patched:
            patched.setattr(rotary_plain, "_piece", lambda: 70)
            patched.setattr(rotary_plain, "_BLOCK", 8)
            for one, two, truth in zip(op(*given), op(*steps_first, *given[2:]), whole, strict=True):
                assert_close(one, truth, rtol=1e-6, atol=1e-6)
                assert_close(two, truth, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_no_number_stays_in_its_pair(backend):
    q, k, *others = arguments(q=(1, 2, 3), k=(1, 1, 2), dim=8, n=3)
    q[0, 1, 1, 2], q[0, 0, 2, 7] = math.nan, math.inf
    for interleaved in (False, True):
        others[-2] = interleaved
        with use_backend(backend):
            got, _ = rotate(q, k, *others)
        lost = got.isnan().nonzero().tolist()
        assert lost == [[0, 1, 1, i] for i in ((2, 3) if interleaved else (2, 5))]
        assert got[0, 0, 2, 7] == math.inf


# Numbers


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("unit", [1, 10**3, 10**9])
def test_unix_times_keep_their_angle(unit, backend):
    instants = [NS + i * 977_000_000_007 for i in range(5)]
    places = torch.tensor([[t // (10**9 // unit) for t in instants]])
    f = torch.tensor([1.0, 1e-3, 1e-6], dtype=torch.float64) / unit
    x = torch.ones(1, 1, 5, 6)
    with use_backend(backend):
        for positions in (places, places.double()):
            got, _ = rotate(x, x[:, :0], positions, positions, in_turns(f))
            for row, place in zip(got[0, 0].double().tolist(), positions[0].tolist(), strict=True):
                for i, frequency in enumerate(f.tolist()):
                    angle = math.atan2(row[i + 3], row[i]) - math.pi / 4
                    off = angle - reference.radians(Fraction(place) * Fraction(frequency))
                    assert abs(math.remainder(off, math.tau)) <= 1e-5


@pytest.mark.parametrize("backend", BACKENDS)
def test_bfloat16_loses_the_last_rounding_alone(backend):
    given = arguments(torch.bfloat16, q=(2, 4, 30), k=(2, 1, 2), dim=64, n=32, ns=True)
    truth, _ = formula(given[0].double(), *given[1:])
    with use_backend(backend):
        got, _ = rotate(*given)
    assert (got.double() - truth).abs().max() <= 4e-3 * given[0].abs().max()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_decay_ends_where_a_product_could_overflow(backend):
    for dtype in DTYPES:
        given = arguments(dtype, decay=True)
        given[:2] = [x.clamp(-2, 2) for x in given[:2]]
        given[5] = given[5] * 1e6
        with use_backend(backend):
            for one, truth in zip(rotate(*given), formula(*given), strict=True):
                assert one.isfinite().all()
                close(one / truth.abs().amax(), truth / truth.abs().amax())
            if dtype.itemsize >= 4:
                directions = [x * 0 + 1 for x in given[:2]]
                got, expected = (gradients(f, given, directions) for f in (rotate, formula))
                for one, truth in zip(got, expected, strict=True):
                    assert_close(one, truth, rtol=1e-5, atol=1e-5 * truth.abs().max().item())


def test_sums_are_the_same_every_time():
    given = arguments(q=(2, 5, 33), k=(2, 5, 31), decay=True)
    directions = [drawn(*x.shape, seed=7, dtype=x.dtype) for x in given[:2]]
    for backend in BACKENDS:
        with use_backend(backend):
            first, again = (gradients(op, given, directions) for _ in range(2))
        assert all(map(torch.equal, first, again))


def test_autocast_changes_nothing():
    for backend in BACKENDS:
        given = arguments(ns=True)
        with use_backend(backend):
            outside = rotate(*given)
            with torch.autocast("cpu", torch.bfloat16):
                assert all(map(torch.equal, rotate(*given), outside))


# The operators as PyTorch sees them


def leaves(given):
    """The arguments with gradients asked of all that take one."""
    return [
        t.detach().requires_grad_(t.is_floating_point() and i < 6) if isinstance(t, torch.Tensor) else t
        for i, t in enumerate(given)
    ]


@pytest.mark.parametrize(
    "case", [{}, {"interleaved": True, "shared": True, "decay": True}, {"decay": True}], ids=str
)
def test_derivatives_of_first_and_second_order(case):
    given = leaves(arguments(torch.float64, q=(2, 2, 2), k=(2, 1, 1), dim=5, n=2, **case))
    given[2:4] = [(p.detach() / 30).requires_grad_() for p in given[2:4]]
    if case.get("decay"):
        given[5] = (given[5].detach() * 30).requires_grad_()
    asked = [t for t in given if isinstance(t, torch.Tensor) and t.requires_grad]

    def function(*tensors):
        left = iter(tensors)
        return op(*(next(left) if isinstance(t, torch.Tensor) and t.requires_grad else t for t in given))

    assert torch.autograd.gradcheck(function, asked)
    assert torch.autograd.gradgradcheck(lambda *t: [x.pow(2) for x in function(*t)], asked)


@pytest.mark.parametrize("interleaved", [False, True])
def test_derivatives_of_the_sums(interleaved):
    g, x = (drawn(2, 3, 2, 5, seed=i).requires_grad_() for i in range(2))
    assert torch.autograd.gradcheck(lambda a, b: pair_products(a, b, 2, interleaved), (g, x))
    assert torch.autograd.gradgradcheck(lambda a, b: pair_products(a, b, 2, interleaved), (g, x))


def test_only_the_gradients_asked_for_are_computed():
    given = arguments(decay=True)
    for i in (0, 1, 2, 3, 4, 5):
        one = [t.detach() if isinstance(t, torch.Tensor) else t for t in given]
        one[i] = one[i].clone().requires_grad_()
        out = op(*one)
        assert len(out[0].grad_fn.saved_tensors) == (5 if i < 2 else 7)
        found = torch.autograd.grad(sum(x.sum() for x in out), one[i])[0]
        whole = gradients(op, given, [torch.ones_like(x) for x in out])[i]
        assert_close(found, whole)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_opcheck(dtype):
    case = {"decay": True, "interleaved": True} if dtype.itemsize == 2 else {"ns": True, "shared": True}
    torch.library.opcheck(op, leaves(arguments(dtype, **case)))
    g, x = (drawn(2, 3, 4, 7, seed=i, dtype=dtype).requires_grad_() for i in range(2))
    torch.library.opcheck(pair_products, (g, x.transpose(1, 2).contiguous().transpose(1, 2), 3, True))


@pytest.mark.parametrize("case", range(10))
def test_shapes_and_strides_are_known_ahead(case):
    torch.library.opcheck(op, list(strided())[case], test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_vmap(backend):
    q, k, p, *others = arguments(decay=True)
    qs, ps = torch.stack((q, q.neg()), 2), torch.stack((p, p + 1))
    with use_backend(backend):
        got = torch.func.vmap(lambda a, b: rotate(a, k, b, *others), (2, 0))(qs, ps)
        for i in range(2):
            for one, truth in zip(got, rotate(qs[:, :, i], k, ps[i], *others), strict=True):
                assert_close(one[i], truth)
    jacobian = torch.autograd.functional.jacobian
    f = others[1]

    def turned(f):
        return rotate(q[:1, :1, :2], k[:1, :0], p[:1, :2], others[0][:1], f)[0]

    assert_close(jacobian(turned, f, vectorize=True), jacobian(turned, f))


def test_derivatives_of_torch_func():
    q, k, p, *others = arguments(torch.float64)

    def loss(p, x):
        return rotate(x, k, p, *others)[0].pow(3).sum()

    ps = torch.stack((p, p + 1))
    got = torch.func.vmap(torch.func.grad(loss), (0, None))(ps, q)
    for i in range(2):
        leaf = ps[i].clone().requires_grad_()
        assert_close(got[i], torch.autograd.grad(loss(leaf, q), leaf)[0])
    _, slope = torch.func.jvp(lambda p: loss(p, q), (p,), (torch.ones_like(p),))
    assert_close(slope, got[0].sum())


def test_exported_programs_need_no_operator_unless_it_is_asked_for():
    class Rotary(torch.nn.Module):
        def forward(self, q, k, p, r, f):
            return rotate(q, k, p, r, f)

    given = arguments()[:5]
    program = torch.export.export(Rotary(), tuple(given))
    assert "tabembed" not in str(program.graph)
    with use_backend("triton"):
        program_of_one = torch.export.export(Rotary(), tuple(given))
    assert "tabembed.rotate" in str(program_of_one.graph)
    for module in (program.module(), program_of_one.module()):
        for one, truth in zip(module(*given), formula(*given, None, None, False, False), strict=True):
            close(one, truth)


@pytest.mark.parametrize("case", [{"decay": True}, {"interleaved": True}], ids=str)
def test_compiled_once_for_all_lengths(case):
    counter = CompileCounterWithBackend("aot_eager")
    torch.compiler.reset()
    compiled = torch.compile(rotate, fullgraph=True, backend=counter)
    for n_q, n_k in ((7, 9), (8, 11), (31, 12), (64, 40)):
        given = leaves(arguments(q=(2, 3, n_q), k=(2, 2, n_k), **case))
        got, truth = compiled(*given), rotate(*given)
        asked = [t for t in given if isinstance(t, torch.Tensor) and t.requires_grad]
        for one, two in zip(got, truth, strict=True):
            close(one, two)
        for one, two in zip(
            *(torch.autograd.grad(sum(x.sum() for x in y), asked) for y in (got, truth)), strict=True
        ):
            assert_close(one, two, rtol=1e-5, atol=1e-4)
    assert counter.frame_count <= 2  # the first length, and every other


@pytest.mark.parametrize("backend", ["auto", "triton"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_an_origin_for_each_sequence_with_positions_for_all(interleaved, backend):
    q, k = drawn(2, 1, 3, 4), drawn(2, 2, 3, 4, seed=1)
    places, origin = torch.tensor([[0.0, 1.0, 2.5]], dtype=torch.float64), torch.tensor([0.0, 2.0]).double()
    rates, frequencies = torch.tensor([0.3, 0.1]).double(), in_turns(torch.tensor([1.0, 0.2]))

    def run(backend):
        given = [x.clone().requires_grad_() for x in (q, k, places, rates)]
        with use_backend(backend):
            turned = rotate(*given[:3], given[2], frequencies, given[3], origin, interleaved)
        return *turned, *torch.autograd.grad(sum((x * x.detach()).sum() for x in turned), given)

    for ours, expected in zip(run(backend), run("reference"), strict=True):
        assert_close(ours, expected, rtol=1e-6, atol=1e-6)


def test_no_queries():
    empty, k = torch.zeros(2, 3, 0, 4), torch.ones(2, 3, 5, 4)
    places = torch.arange(5).unsqueeze(0)
    with use_backend("triton"):
        q_turned, k_turned = rotate(empty, k, places[:, :0], places, in_turns(torch.ones(2)))
    assert q_turned.shape == empty.shape
    assert_close(k_turned, rotate(k, k, places, places, in_turns(torch.ones(2)))[1])
