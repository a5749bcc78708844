from __future__ import annotations

import copy
import math
from fractions import Fraction

import numpy as np
import pytest
import reference
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

from tabembed.functional.periods import frequencies_from_periods
from tabembed.functional.sinusoid import sinusoidal_rows
from tabembed.kernels import use_backend
from tabembed.nn.sinusoidal import SinusoidalEmbedding, StillWaves

NOW = 1_700_000_000 * 10**9 + 123_456_789  # nanoseconds since 1970


def rows(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def codes(positions, dim, base=10_000.0):
    return torch.tensor([reference.sinusoidal(p, dim, base) for p in positions], dtype=torch.float64)


# What is computed


@pytest.mark.parametrize("dim", [1, 4, 5])  # H23 (iv): an odd width, too
def test_equals_the_scalar_loop_whatever_the_position(dim):
    module = SinusoidalEmbedding(dim, base=500.0)
    for places in ([0, 3, 511], [NOW, NOW + 1, -(2**63) + 1], [-0.75, 1e9 + 0.125, 2.0**60]):
        whole = isinstance(places[0], int)
        positions = torch.tensor(places, dtype=torch.int64 if whole else torch.float64)
        got = module(torch.zeros(2, 3, dim), positions=positions)
        assert_close(got.double(), codes(places, dim, 500.0).expand(2, 3, dim), rtol=0, atol=1e-6)


def test_it_is_added_to_the_rows():
    x = rows(2, 4, 6)
    assert_close(SinusoidalEmbedding(6)(x), x + sinusoidal_rows(4, 6), rtol=0, atol=1e-6)


@pytest.mark.parametrize("lead", [(), (1,), (3,), (3, 2), (3, 2, 2), (0,), (3, 0)])
def test_leading_dimensions(lead):
    module, x = SinusoidalEmbedding(6), rows(*lead, 4, 6)
    shared = torch.arange(4) * 7
    assert_close(module(x, positions=shared), x + codes((shared).tolist(), 6).float(), rtol=0, atol=1e-6)
    if lead:
        own = shared + 100 * torch.arange(lead[0]).unsqueeze(-1)
        expected = [module(one, positions=p) for one, p in zip(x, own, strict=True)]
        got = module(x, positions=own)
        assert got.shape == x.shape
        assert_close(got, torch.stack(expected) if expected else x, rtol=0, atol=0)
    assert module(x[..., :0, :]).shape == (*lead, 0, 6)


def test_strides_do_not_matter():
    module, x = SinusoidalEmbedding(6), rows(5, 3, 2, 6)
    for seen in (x.transpose(0, 2), x.permute(1, 2, 0, 3), x[..., 1:].clone()[..., :1].expand(5, 3, 2, 6)):
        assert_close(module(seen), module(seen.contiguous()), rtol=0, atol=0)
        with use_backend("reference"):
            assert_close(module(seen), module(seen.contiguous()), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_dtype_is_that_of_the_rows_on_every_backend(dtype):
    x, module = rows(2, 3, 5, dtype=dtype), SinusoidalEmbedding(5, learned_scale=True).bfloat16()
    expected = x.double() + codes(range(40, 43), 5)
    for backend in ("auto", "reference", "triton"):
        with use_backend(backend):
            got = module(x, offset=40)
        assert got.dtype == dtype
        assert_close(got.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-6)


def test_autocast_does_not_round_positions():  # H19
    module, places = SinusoidalEmbedding(8), torch.tensor([65536, 65537, 65540])
    with torch.autocast("cpu", torch.bfloat16):
        inside = module(torch.zeros(3, 8), positions=places)
        of_floats = module(torch.zeros(3, 8), positions=places.float())
    assert torch.equal(inside, module(torch.zeros(3, 8), positions=places))
    assert torch.equal(inside, of_floats)
    assert_close(inside[:, 1], torch.tensor([-0.721835, -0.972362, 0.995580]), rtol=0, atol=1e-5)


def test_offsets_and_streaming_equal_the_full_pass():  # H20
    module = SinusoidalEmbedding(8)
    for x in (rows(3, 2, 6, 8), rows(6, 6, 8)):
        full = module(x)
        again = [module(x, offset=o) for o in (0, 5, 0)]
        assert torch.equal(again[0], full)
        assert torch.equal(again[2], full)
        assert not torch.allclose(again[1], full)
        parts = [module(x[..., :4, :]), *(module(x[..., i : i + 1, :], offset=i) for i in (4, 5))]
        assert_close(torch.cat(parts, -2), full, rtol=0, atol=1e-6)


def test_every_sequence_may_have_an_offset_of_its_own():
    module, x, offset = SinusoidalEmbedding(6), rows(3, 2, 4, 6), torch.tensor([7, 0, 10**12])
    got = module(x, offset=offset)
    expected = [module(one, offset=o) for one, o in zip(x, offset.tolist(), strict=True)]
    assert torch.equal(got, torch.stack(expected))
    assert torch.equal(got, module(x, positions=offset[:, None] + torch.arange(4)))


def test_no_memory_of_earlier_longer_calls():  # H21
    module, x, long = SinusoidalEmbedding(4, learned_scale=True), rows(8, 4), rows(5000, 4, seed=1)
    before = module(x)
    assert torch.equal(module(long), SinusoidalEmbedding(4, learned_scale=True)(long))
    assert torch.equal(module(x), before)
    with torch.inference_mode():
        module(x)
    fresh = SinusoidalEmbedding(4, learned_scale=True)
    module(x).pow(2).sum().backward()
    fresh(x).pow(2).sum().backward()
    assert torch.equal(module.scale.grad, fresh.scale.grad)
    assert not module.state_dict().keys() - {"scale"}


def test_a_row_does_not_depend_on_what_stands_beside_it():
    module, x, places = SinusoidalEmbedding(6), rows(4, 5, 6), torch.arange(20).view(4, 5) * 3**20
    whole = module(x, positions=places)
    for i in range(4):
        assert torch.equal(module(x[i], positions=places[i]), whole[i])
    assert torch.equal(module(x[:, 2:3], positions=places[:, 2:3]), whole[:, 2:3])


# Arguments


def test_the_scale_is_learned():
    module, x = SinusoidalEmbedding(4, learned_scale=True), rows(3, 4)
    assert torch.equal(module(x), SinusoidalEmbedding(4)(x))
    with torch.no_grad():
        module.scale.fill_(-2.0)
    assert_close(module(x), x - 2 * sinusoidal_rows(3, 4), rtol=0, atol=1e-6)
    (grad,) = torch.autograd.grad(module(x).sum(), module.scale)
    assert_close(grad, sinusoidal_rows(3, 4).sum())
    module.reset_parameters()
    assert module.scale == 1
    assert not list(SinusoidalEmbedding(4).parameters())


def test_dropout_drops_only_while_training():
    module, x = SinusoidalEmbedding(4, dropout=0.5), torch.ones(50, 4)
    dropped = module(x) == 0
    assert 0.3 < dropped.float().mean() < 0.7
    assert torch.equal(module.eval()(x), SinusoidalEmbedding(4)(x))


def test_base_changes_the_slow_waves():
    one, other = (SinusoidalEmbedding(4, base=b)(torch.zeros(5, 4)) for b in (10.0, 1e6))
    assert torch.equal(one[:, :2], other[:, :2])
    assert (one[1:, 2:] != other[1:, 2:]).all()


@pytest.mark.parametrize("dim", [4, 3])
@pytest.mark.parametrize("form", [list, torch.tensor])
def test_frequencies_lay_the_waves_in_real_time(dim, form):
    f = frequencies_from_periods(3600 * 10**9, 365 * 86_400 * 10**9, 2)
    f = f if form is list else torch.tensor(f, dtype=torch.float64)
    times = torch.tensor([0, 3 * 10**12, 10**17]) + NOW
    got = SinusoidalEmbedding(dim, frequencies=f)(torch.zeros(3, dim), positions=times)
    for t, row in zip(times.tolist(), got.tolist(), strict=True):
        angles = [reference.radians(Fraction(w) * t) for w in map(float, f)]
        expected = [wave(a) for a in angles for wave in (math.sin, math.cos)][:dim]
        assert row == pytest.approx(expected, abs=1e-6)


def test_one_frequency_for_each_pair():
    with pytest.raises(ValueError, match="^frequencies must be 3, one for each pair, got 2$"):
        SinusoidalEmbedding(5, frequencies=[1.0, 0.1])


def test_the_representation_shows_the_periods():
    module = SinusoidalEmbedding(4, frequencies=[math.tau, 1e-3 * math.tau], learned_scale=True)
    assert "4, learned_scale=True" in repr(module)
    assert "2 periods, 1 to 1000" in repr(module)


def test_numpys_integers_are_pythons():
    assert torch.equal(
        SinusoidalEmbedding(np.int8(126))(rows(3, 126)), SinusoidalEmbedding(126)(rows(3, 126))
    )
    assert "126, " in repr(SinusoidalEmbedding(np.int64(126)))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"dim": 0}, ValueError, "dim must be at least 1, got 0"),
        ({"dim": 4.0}, TypeError, r"dim must be an integer, got 4\.0"),
        ({"base": 0.0}, ValueError, r"base must be finite and positive, got 0\.0"),
        ({"base": 1e31}, ValueError, r"base must be from 1e-30 to 1e\+30, got 1e\+31"),
        ({"dropout": 1.0}, ValueError, r"dropout must be at least 0 and below 1, got 1\.0"),
        ({"learned_scale": "no"}, TypeError, "learned_scale must be True or False, got 'no'"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        SinusoidalEmbedding(**{"dim": 4, **arguments})


@pytest.mark.parametrize(
    ("x", "given", "error", "text"),
    [
        (torch.zeros(2, 3, 5), {}, ValueError, r"x must have 4 as its last dimension, got shape \(2, 3, 5\)"),
        (torch.zeros(3, 1), {}, ValueError, r"x must have 4 as its last dimension, got shape \(3, 1\)"),
        (torch.zeros(4), {}, ValueError, r"x must have shape \(\*, n_steps, 4\), got \(4,\)"),
        (torch.zeros(3, 4).long(), {}, TypeError, r"x must be floats, got torch\.int64"),
        ([[0.0] * 4], {}, TypeError, "x must be a tensor, got list"),
        (torch.zeros(2, 3, 4), {"positions": torch.arange(2)}, ValueError, "positions must have shape"),
        (torch.zeros(3, 4), {"positions": torch.arange(3).half()}, TypeError, "positions must be integers"),
        (torch.zeros(3, 4), {"positions": torch.arange(3), "offset": 1}, ValueError, "offset must be 0"),
        (torch.zeros(3, 4), {"offset": 1.5}, TypeError, "offset must be an integer"),
        (torch.zeros(3, 2, 4), {"offset": torch.arange(2)}, ValueError, "offset must have shape"),
        (
            torch.zeros(3, 4),
            {"positions": torch.full((3,), math.nan)},
            ValueError,
            "positions must be finite",
        ),
        (
            torch.zeros(3, 4),
            {"positions": torch.arange(3, device="meta")},
            ValueError,
            "must be on cpu, as the",
        ),
    ],
)
def test_bad_input(x, given, error, text):
    with pytest.raises(error, match=text):
        SinusoidalEmbedding(4)(x, **given)


# As a module of PyTorch


def test_made_on_the_meta_device():  # H37
    with torch.device("meta"):
        module = SinusoidalEmbedding(6, learned_scale=True)
    saved, x = SinusoidalEmbedding(6, learned_scale=True).state_dict(), rows(3, 6)
    assigned = copy.deepcopy(module)
    assigned.load_state_dict(saved, assign=True)
    emptied = module.to_empty(device="cpu")
    emptied.load_state_dict(saved)
    for one in (assigned, emptied):
        assert one.waves.frequencies.tolist() == [10_000.0 ** (-i / 3) for i in range(3)]
        assert torch.equal(one(x), SinusoidalEmbedding(6)(x))
    with torch.no_grad():
        for tensor in (*emptied.parameters(), *emptied.buffers()):
            tensor.fill_(7)  # garbage
    emptied.reset_parameters()
    assert torch.equal(emptied(x), SinusoidalEmbedding(6)(x))


@pytest.mark.parametrize("learned_scale", [False, True])
def test_parameters_on_the_meta_device_are_refused(learned_scale):
    with torch.device("meta"):
        module = SinusoidalEmbedding(4, learned_scale=learned_scale)
    module = module if learned_scale else module.to("meta")
    with pytest.raises(
        ValueError, match="^SinusoidalEmbedding must be materialised, got parameters on meta: "
    ):
        module(torch.zeros(3, 4))
    assert module(torch.zeros(3, 4, device="meta")).is_meta


def test_made_in_inference_mode_and_trained():
    with torch.inference_mode():
        module = SinusoidalEmbedding(4).float()
    x = rows(3, 4).requires_grad_()
    module(x).square().sum().backward()
    assert_close(x.grad, 2 * module(x).detach())


def test_waves_survive_casts():
    waves = StillWaves([1.0, 0.5]).half()
    assert {t.dtype for t in waves.buffers()} == {torch.float64}
    assert waves.to("meta").phases.is_meta
    x = rows(3, 4)
    assert torch.equal(
        SinusoidalEmbedding(4).half()(x, offset=10**9), SinusoidalEmbedding(4)(x, offset=10**9)
    )


def test_gradients_of_rows_positions_and_scale():
    module = SinusoidalEmbedding(5, base=10.0, learned_scale=True).double()
    x, places = rows(2, 2, 5, dtype=torch.float64), rows(2, 2, seed=1, dtype=torch.float64)

    def of(x, places, scale):
        return torch.func.functional_call(module, {"scale": scale}, (x,), {"positions": places})

    leaves = [t.requires_grad_() for t in (x, places, torch.tensor(1.5, dtype=torch.float64))]
    assert torch.autograd.gradcheck(of, leaves)
    assert torch.autograd.gradgradcheck(lambda *t: of(*t).pow(2), leaves)
    with use_backend("reference"):
        expected = torch.autograd.grad(of(*leaves).pow(3).sum(), leaves)
    assert_close(torch.autograd.grad(of(*leaves).pow(3).sum(), leaves), expected)


def test_vmap_and_derivatives_of_torch_func():
    module, x = SinusoidalEmbedding(4), rows(3, 2, 5, 4)
    assert_close(torch.func.vmap(module)(x), module(x))
    places = rows(5, seed=2).double()
    slope = torch.func.jacrev(lambda p: module(x[0, 0], positions=p).sum(-1))(places)
    f = module.waves.frequencies.tolist()
    expected = [sum(w * (math.cos(w * p) - math.sin(w * p)) for w in f) for p in places.tolist()]
    assert_close(slope.diagonal(), torch.tensor(expected).double(), rtol=1e-5, atol=1e-6)


def test_compiled_once_for_all_lengths_and_offsets():
    module, counter = SinusoidalEmbedding(6), CompileCounterWithBackend("eager")
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=counter)
    counts = []
    for n_steps, offset in ((8, 3), (9, 4), (31, 500)):
        x = rows(2, n_steps, 6)
        assert torch.equal(compiled(x, offset=offset), module(x, offset=offset))
        counts.append(counter.frame_count)
    assert counts[0] == counts[-1] > 0


def test_exported_for_any_length_without_an_operator_of_its_own():
    x = rows(2, 9, 6)
    dynamic = {"x": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(SinusoidalEmbedding(6), (x,), dynamic_shapes=dynamic)
    assert "tabembed" not in str(program.graph)
    assert_close(program.module()(rows(3, 40, 6)), SinusoidalEmbedding(6)(rows(3, 40, 6)))


def test_a_shift_of_integers_is_exact_at_any_distance():
    module, f = (
        SinusoidalEmbedding(4),
        [Fraction(w) for w in SinusoidalEmbedding(4).waves.frequencies.tolist()],
    )
    code = module(torch.zeros(2, 4), positions=torch.tensor([NOW, NOW + 5])).double()
    for i, w in enumerate(f):  # the angle between two rows depends on what lies between them alone
        between = (code[0, 2 * i : 2 * i + 2] * code[1, 2 * i : 2 * i + 2]).sum().item()
        assert between == pytest.approx(math.cos(reference.radians(5 * w)), abs=1e-6)
