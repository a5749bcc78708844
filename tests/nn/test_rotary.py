from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import reference
import torch
import torchembed
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

from tabembed.functional.periods import frequencies_from_periods
from tabembed.functional.position import row_positions
from tabembed.nn.rotary import RotaryEmbedding

NOW = 1_700_000_000
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
HOUR_TO_YEAR = (3600, 365 * 86_400)


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def expected(x, positions, frequencies, layout="half"):
    """The scalar loop for ``(n_sequences, n_heads, n_steps, dim)`` and positions of every sequence."""
    rows = [
        [
            [reference.rotary(row, p, frequencies, layout) for row, p in zip(head, at, strict=True)]
            for head in heads
        ]
        for heads, at in zip(x.double().tolist(), positions, strict=True)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def ladder(width, base=10_000.0):
    return [base ** (-2 * i / width) for i in range(width // 2)]


@pytest.mark.parametrize(
    ("layout", "values"),
    [
        ("interleaved", [-1.142640, 1.922076, 2.959851, 4.029800]),
        ("half", [-1.984111, 1.959901, 2.462378, 4.019800]),
    ],
)
def test_known_values_of_both_layouts(layout, values):
    x = torch.tensor([[1.0, 2, 3, 4]])
    module = RotaryEmbedding(4, layout=layout)
    assert_close(module.rotate(x, offset=1)[0], torch.tensor(values), rtol=0, atol=2e-6)
    assert module.layout in repr(module)


@pytest.mark.parametrize(
    ("rotary_dim", "values"),
    [
        (None, [-1.554473, 1.286651, 2.961158, -3.818850, 5.229200, 6.019264]),
        (4, [-1.413353, 1.879118, -2.828857, 4.058191, 5, 6]),
    ],
)
def test_known_values_of_partial_widths(rotary_dim, values):
    x = torch.tensor([[1.0, 2, 3, 4, 5, 6]])
    module = RotaryEmbedding(6, rotary_dim=rotary_dim)
    assert_close(module.rotate(x, offset=3)[0], torch.tensor(values), rtol=0, atol=2e-6)


def test_half_is_the_default_and_a_permutation_of_interleaved():
    x, order = drawn(2, 5, 8), torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    half, other = RotaryEmbedding(8), RotaryEmbedding(8, layout="interleaved")
    assert half.layout == "half"
    assert_close(half.rotate(x)[..., order], other.rotate(x[..., order]))
    assert (half.rotate(x) - other.rotate(x)).abs().max() > 0.1


@pytest.mark.parametrize("width", [2, 6, 72, 80, 96])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_matches_the_loop_and_leaves_its_neighbours(width, layout):
    buffer = drawn(2, 3, 4, width + 5)
    before = buffer.clone()
    x = buffer[..., 2 : width + 2]
    got = RotaryEmbedding(width, base=300.0, layout=layout).rotate(x, positions=torch.tensor([3, 0, 7, 50]))
    assert_close(
        got.double(), expected(x, [[3, 0, 7, 50]] * 2, ladder(width, 300.0), layout), rtol=0, atol=3e-6
    )
    assert torch.equal(buffer, before)


def test_equals_torchembed_where_it_is_right():
    q, k = drawn(2, 4, 37, 32), drawn(2, 2, 37, 32, seed=1)
    for ours, theirs in zip(RotaryEmbedding(32)(q, k), torchembed.RotaryEmbedding(32)(q, k), strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_every_shape_comes_back_and_is_turned_alike():
    module, x = RotaryEmbedding(6), drawn(2, 3, 5, 6)
    turned = module.rotate(x)
    assert turned.shape == x.shape
    assert_close(module.rotate(x[0, 0]), turned[0, 0], rtol=0, atol=0)
    assert_close(module.rotate(x[:, 0]), turned[:, 0], rtol=0, atol=0)
    assert_close(module.rotate(x.flatten(0, 1)), turned.flatten(0, 1), rtol=0, atol=0)
    assert_close(module.rotate(x[:, None]), turned[:, None], rtol=0, atol=0)
    assert_close(module.rotate(x[0].transpose(0, 1), seq_dim=0), turned[0].transpose(0, 1), rtol=0, atol=0)
    for front in (
        x.permute(2, 0, 1, 3),
        x.permute(2, 0, 1, 3).contiguous(),
    ):  # (steps, sequences, heads, dim)
        assert_close(module.rotate(front, seq_dim=0).permute(1, 2, 0, 3), turned, rtol=0, atol=0)
    for empty in (x[:0], x[:, :0], x[:, :, :0]):
        assert module.rotate(empty).shape == empty.shape


@pytest.mark.parametrize("heads", [1, 3, 5])
@pytest.mark.parametrize("seq_dim", [1, -3])
def test_steps_before_heads(heads, seq_dim):
    module, q, k = RotaryEmbedding(6), drawn(2, heads, 5, 6), drawn(2, 1, 5, 6, seed=1)
    positions = torch.tensor([[0, 1, 2, 3, 4], [9, 8, 7, 6, 5]])
    got = module(q.transpose(1, 2), k.transpose(1, 2), positions=positions, seq_dim=seq_dim)
    for ours, theirs in zip(got, module(q, k, positions=positions), strict=True):
        assert_close(ours.transpose(1, 2), theirs, rtol=0, atol=0)


def test_three_dimensions_are_sequences_or_heads():
    module, x = RotaryEmbedding(6), drawn(3, 4, 6)
    rows = torch.tensor([[0, 1, 2, 3], [5, 6, 7, 8], [9, 9, 9, 9]])
    for i, one in enumerate(module.rotate(x, positions=rows)):
        assert_close(one, module.rotate(x[i], positions=rows[i]), rtol=0, atol=0)
    q, k = module(x, x[:2], positions=rows[1])  # three heads of queries, two of keys
    assert_close(q, module.rotate(x, offset=5), rtol=0, atol=0)
    assert_close(k, module.rotate(x[:2], offset=5), rtol=0, atol=0)
    turned = module.rotate(x.transpose(0, 1), positions=rows[1], seq_dim=0)  # (steps, heads, dim)
    assert_close(turned.transpose(0, 1), q, rtol=0, atol=0)


def test_fewer_queries_are_the_last():
    module, q, k = RotaryEmbedding(6), drawn(2, 3, 2, 6), drawn(2, 1, 5, 6, seed=1)
    at = torch.tensor([[0, 1, 4, 6, 9], [2, 3, 5, 8, 13]])
    pairs = [
        (module(q, k), module.rotate(q, offset=3), module.rotate(k)),
        (module(q, k, offset=7), module.rotate(q, offset=10), module.rotate(k, offset=7)),
        (module(q, k, positions=at), module.rotate(q, positions=at[:, 3:]), module.rotate(k, positions=at)),
        (module(q, k, k_positions=at), module.rotate(q, positions=at[:, 3:]), module.rotate(k, positions=at)),
        (
            module(q, k, positions=at[:, :2], k_positions=at),
            module.rotate(q, positions=at[:, :2]),
            module.rotate(k, positions=at),
        ),
    ]
    for got, queries, keys in pairs:
        assert_close(got, (queries, keys), rtol=0, atol=0)


def test_an_offset_for_every_sequence():
    module, x = RotaryEmbedding(6), drawn(3, 2, 4, 6)
    start = torch.tensor([0, 5, 1000])
    for got in (module.rotate(x, offset=start), module(x[:, :1], x, offset=start)[1]):
        for i, one in enumerate(got):
            assert_close(one, module.rotate(x[i : i + 1], offset=int(start[i]))[0], rtol=0, atol=0)


def test_streaming_equals_the_full_pass():
    module, x = RotaryEmbedding(8), drawn(3, 2, 6, 8)
    for start in (0, 5, 0):
        assert_close(module.rotate(x, offset=start), module.rotate(x, positions=torch.arange(6) + start))
    assert (module.rotate(x) - module.rotate(x, offset=5)).abs().max() > 0.1
    for full in (x, x.flatten(0, 1)):
        parts = [
            module.rotate(full[..., :4, :]),
            module.rotate(full[..., 4:5, :], offset=4),
            module.rotate(full[..., 5:, :], offset=5),
        ]
        assert_close(torch.cat(parts, -2), module.rotate(full), rtol=0, atol=1e-6)


def test_padding_on_either_side_changes_nothing():
    module, events = RotaryEmbedding(8), drawn(3, 8)
    plain = module.rotate(events)
    for before, after in ((2, 0), (0, 2)):
        mask = torch.tensor([False] * before + [True] * 3 + [False] * after)
        for garbage in (0.0, 1e9, math.nan):
            padded = torch.full((5, 8), garbage)
            padded[mask] = events
            turned = module.rotate(padded, positions=row_positions(mask))
            assert_close(turned[mask], plain, rtol=0, atol=0)


def test_no_memory_of_longer_calls_nor_of_inference():
    module, fresh = (RotaryEmbedding(8, learnable=True) for _ in range(2))
    short, long = drawn(1, 2, 8, 8), drawn(1, 1, 5000, 8, seed=1)
    first = module.rotate(short)
    assert_close(module.rotate(long), fresh.rotate(long), rtol=0, atol=0)
    assert_close(module.rotate(short), first, rtol=0, atol=0)
    with torch.inference_mode():
        module(long, long)
    for one in (module, fresh):
        x = short.clone().requires_grad_()
        q, k = one(x, x)
        (q * k).sin().sum().backward()
        one.x_grad = x.grad
    assert_close(module.x_grad, fresh.x_grad, rtol=0, atol=0)
    assert_close(module.log_ratios.grad, fresh.log_ratios.grad, rtol=0, atol=0)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("form", [torch.int64, torch.float64], ids=str)
def test_unix_time_in_any_unit_is_exact(unit, form):
    scale = UNITS[unit]
    f = frequencies_from_periods(HOUR_TO_YEAR[0] * scale, HOUR_TO_YEAR[1] * scale, 4)
    year = torch.randint(0, 365 * 86_400 * scale, (64,), generator=torch.Generator().manual_seed(0))
    times = (year + NOW * scale).to(form)
    x = torch.eye(8)[:1].expand(64, 8)
    got = RotaryEmbedding(8, frequencies=f).rotate(x, positions=times).double()
    for i, frequency in enumerate(f):  # a pair (1, 0) is turned to (cos, sin): the angle is read off
        pairs = RotaryEmbedding(2, frequencies=[frequency]).rotate(
            torch.tensor([[1.0, 0]] * 64), positions=times
        )
        angle = torch.atan2(*pairs.double().unbind(-1)[::-1])
        exact = torch.tensor(
            [reference.radians(reference.Fraction(frequency) * reference.Fraction(t)) for t in times.tolist()]
        )
        error = torch.remainder(angle - exact + math.pi, 2 * math.pi) - math.pi
        assert error.abs().max() <= 1e-5, i
    assert_close(got, expected(x[None, None], [times.tolist()], f)[0, 0], rtol=0, atol=1e-5)
    assert (got[:, 0] - got[0, 0]).abs().max() > 0.5


def scores(module, q, k, positions):
    turned_q, turned_k = module(q, k, positions=positions)
    return turned_q @ turned_k.transpose(-1, -2)


@pytest.mark.parametrize("unit", UNITS)
def test_a_shift_of_all_positions_changes_no_score(unit):
    scale = UNITS[unit]
    f = frequencies_from_periods(HOUR_TO_YEAR[0] * scale, HOUR_TO_YEAR[1] * scale, 16)
    module = RotaryEmbedding(32, frequencies=f)
    q, k = (torch.nn.functional.normalize(drawn(1, 2, 40, 32, seed=s), dim=-1) for s in (0, 1))
    times = torch.randint(365 * 86_400 * scale, (40,), generator=torch.Generator().manual_seed(2)).sort()[0]
    plain = scores(module, q, k, times)
    for shift in (12_345 * scale + 1, NOW * scale, -(2**62)):
        assert_close(scores(module, q, k, times + shift), plain, rtol=0, atol=1e-5)
    assert (scores(module, q, k, 2 * times) - plain).abs().max() > 0.1


def test_float32_positions_are_as_exact_as_they_are():
    origin, f = 4096.0, frequencies_from_periods(0.5, 100.0, 4)
    after = drawn(50, seed=3).abs() * (100 / f[0] / 3)
    positions = (origin + after).float()
    assert ((positions - origin) * f[0]).max() <= 100
    x = drawn(50, 8)
    got = RotaryEmbedding(8, frequencies=f).rotate(x, positions=positions)
    assert_close(got.double(), expected(x[None, None], [positions.tolist()], f)[0, 0], rtol=0, atol=1e-5)
    assert_close(
        got, RotaryEmbedding(8, frequencies=f).rotate(x, positions=positions.double()), rtol=0, atol=0
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_half_precision_loses_the_last_rounding_alone(dtype, layout):
    q, k = drawn(2, 3, 20, 16, dtype=dtype), drawn(2, 1, 20, 16, seed=1, dtype=dtype)
    f = frequencies_from_periods(3600 * 10**9, 365 * 86_400 * 10**9, 8)
    times = torch.randint(10**16, (2, 20), generator=torch.Generator().manual_seed(0)) + NOW * 10**9
    for module in (RotaryEmbedding(16, frequencies=f, layout=layout) for _ in range(2)):
        for x, got in zip((q, k), module.to(dtype)(q, k, positions=times), strict=True):
            assert got.dtype == dtype
            exact = expected(x, times.tolist(), f, layout)
            assert (got.double() - exact).abs().max() <= 4e-3 * x.double().abs().max()


def test_autocast_and_tf32_change_nothing():
    x = torch.tensor([[1.0, 0.0] + [0.5] * 6]).expand(3, 8)
    positions = torch.tensor([65536, 65537, 65540])
    module = RotaryEmbedding(8)
    plain = module.rotate(x, positions=positions)
    cosine = RotaryEmbedding(2).rotate(torch.tensor([[1.0, 0]] * 3), positions=positions)[:, 0]
    assert_close(cosine, torch.tensor([-0.721835, -0.972362, 0.995580]), rtol=0, atol=1e-5)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        with torch.autocast("cpu", torch.bfloat16):
            again = module.rotate(x, positions=positions)
            learned = RotaryEmbedding(8, learnable=True).rotate(x, positions=positions.double())
    finally:
        torch.set_float32_matmul_precision(before)
    assert again.dtype == torch.float32
    assert_close(again, plain, rtol=0, atol=0)
    assert_close(learned, RotaryEmbedding(8, learnable=True).rotate(x, positions=positions), rtol=0, atol=0)


@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize(
    "changed",
    [
        lambda m: m.to(torch.bfloat16),
        lambda m: m.half().float(),
        copy.deepcopy,
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: copy.deepcopy(m).to("meta").to_empty(device="cpu"),
    ],
    ids=["bfloat16", "half and back", "deepcopy", "pickle", "to_empty"],
)
def test_what_is_done_to_a_module_does_not_reach_its_frequencies(learnable, changed):
    module, x = RotaryEmbedding(8, learnable=learnable), drawn(1, 1, 5, 8)
    before = module.rotate(x, offset=100_000)
    other = changed(module)
    if learnable and not torch.equal(other.frequencies, RotaryEmbedding(8).frequencies):
        other.reset_parameters()  # memory that to_empty allocated
    assert_close(other.rotate(x, offset=100_000), before, rtol=0, atol=0)
    assert list(module.state_dict()) == (["log_ratios"] if learnable else [])


@pytest.mark.parametrize("learnable", [False, True])
def test_built_on_the_meta_device_and_loaded(learnable):
    saved = RotaryEmbedding(8, learnable=learnable)
    with torch.device("meta"):
        module = RotaryEmbedding(8, learnable=learnable)
    module.to_empty(device="cpu").load_state_dict(saved.state_dict())
    assert module.frequencies[0] == 1.0
    x = drawn(2, 4, 8)
    assert_close(module.rotate(x), saved.rotate(x), rtol=0, atol=0)


def test_frequencies_are_radians_per_unit():
    assert RotaryEmbedding(6, base=100.0).frequencies.tolist() == ladder(6, 100.0)
    assert RotaryEmbedding(9, rotary_dim=4).frequencies.tolist() == [1.0, 0.01]
    given = [0.5, 0.0, -3e-9]
    for f in (given, torch.tensor(given, dtype=torch.float64)):
        assert RotaryEmbedding(6, frequencies=f).frequencies.tolist() == given
    assert RotaryEmbedding(6, frequencies=given, learnable=True).frequencies.tolist() == given
    for learnable in (False, True):
        module = RotaryEmbedding(6, frequencies=given, learnable=learnable)
        module.frequencies.detach().fill_(7)  # a copy
        assert module.frequencies.tolist() == given


@pytest.mark.parametrize("learnable", [False, True])
def test_frequencies_are_not_assigned(learnable):
    module = RotaryEmbedding(4, learnable=learnable)
    for given in (torch.ones(2), torch.nn.Parameter(torch.ones(2)), [1.0, 1.0]):
        with pytest.raises((AttributeError, KeyError), match="frequencies"):
            module.frequencies = given
    assert_close(module.frequencies.detach().double(), RotaryEmbedding(4).frequencies)


def test_learned_frequencies_are_used_and_reset():
    module, x = RotaryEmbedding(4, learnable=True), drawn(1, 3, 4)
    with torch.no_grad():
        module.log_ratios.copy_(torch.tensor([0.3, -0.7]))
    expected = torch.tensor([1.0, 0.01], dtype=torch.float64) * module.log_ratios.detach().double().exp()
    assert_close(module.frequencies, expected, rtol=0, atol=0)
    assert_close(module.rotate(x), RotaryEmbedding(4, frequencies=expected).rotate(x), rtol=0, atol=0)
    module.reset_parameters()
    assert module.log_ratios.tolist() == [0.0, 0.0]
    assert module.frequencies.tolist() == [1.0, 0.01]


YEARS = frequencies_from_periods(60, 2 * 365 * 86_400, 8)  # seconds


@pytest.mark.parametrize("unit", UNITS)
def test_what_is_not_trained_yet_equals_what_is_fixed(unit):
    f = [frequency / UNITS[unit] for frequency in YEARS]
    fixed, learned = (RotaryEmbedding(16, frequencies=f, learnable=one) for one in (False, True))
    assert torch.equal(fixed.turns(), learned.turns())
    x, times = drawn(2, 5, 16), torch.arange(5) * 1234 * UNITS[unit] + NOW * UNITS[unit]
    assert torch.equal(fixed.rotate(x, positions=times), learned.rotate(x, positions=times))


@pytest.mark.parametrize("unit", UNITS)
def test_a_step_changes_a_period_by_a_share_of_it(unit):
    """The learning rate is how far a period moves in a step of Adam, whatever its unit."""
    scale = UNITS[unit]
    module = RotaryEmbedding(16, frequencies=[f / scale for f in YEARS], learnable=True)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    times = torch.randint(365 * 86_400, (40,), generator=torch.Generator().manual_seed(0)).sort()[0] * scale
    q, k = module(drawn(1, 2, 40, 16), drawn(1, 2, 40, 16, seed=1), positions=times)
    (q @ k.mT).square().mean().backward()
    optimizer.step()
    ratio = module.frequencies / RotaryEmbedding(16, frequencies=[f / scale for f in YEARS]).frequencies
    assert_close((ratio - 1).abs(), torch.full((8,), 1e-3).double(), rtol=2e-3, atol=0)


def test_a_pair_that_does_not_turn_learns_nothing():
    module, x = RotaryEmbedding(4, frequencies=[0.0, -0.5], learnable=True), drawn(1, 3, 4)
    module.rotate(x, offset=3).sin().sum().backward()
    assert module.log_ratios.grad[0] == 0 != module.log_ratios.grad[1]
    with torch.no_grad():
        module.log_ratios.fill_(9.0)
    assert module.frequencies[0] == 0 > module.frequencies[1]


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_gradients_to_features_frequencies_and_positions(layout, n):
    module = RotaryEmbedding(5, layout=layout, rotary_dim=4, learnable=True).double()
    q, k = drawn(n, 2, n, 5, dtype=torch.float64), drawn(n, 1, n + 1, 5, seed=1, dtype=torch.float64)
    positions = drawn(n, n + 1, seed=2, dtype=torch.float64) * 5

    def turned(q, k, log_ratios, positions):
        call = {"log_ratios": log_ratios}
        return torch.func.functional_call(module, call, (q, k), {"positions": positions})

    given = [t.requires_grad_() for t in (q, k, drawn(2, seed=3, dtype=torch.float64), positions)]
    assert torch.autograd.gradcheck(turned, given)
    assert torch.autograd.gradgradcheck(turned, given)


def test_gradients_reach_float32_positions():
    module, x = RotaryEmbedding(4), drawn(1, 1, 3, 4)
    positions = torch.tensor([0.5, 1.5, 9.0], requires_grad=True)
    module.rotate(x, positions=positions).cos().sum().backward()
    wide = positions.detach().double().requires_grad_()
    module.rotate(x.double(), positions=wide).cos().sum().backward()
    assert positions.grad.dtype == torch.float32
    assert_close(positions.grad.double(), wide.grad, rtol=1e-4, atol=1e-5)


def test_compiles_once_for_any_length_and_offset():
    torch.compiler.reset()
    module, counter = RotaryEmbedding(6), CompileCounterWithBackend("eager")
    compiled = torch.compile(module, fullgraph=True, backend=counter)
    for n, offset in ((4, 0), (6, 7), (9, 100)):
        q, k = drawn(2, 3, n, 6), drawn(2, 1, n, 6, seed=1)
        assert_close(compiled(q, k, offset=offset), module(q, k, offset=offset))
    assert counter.frame_count <= 2


@pytest.mark.slow  # the contract compiles with gradients, too, those of positions aside
def test_compiled_training_gives_the_same_gradients():
    torch.compiler.reset()
    grads = []
    for compiled in (True, False):
        module = RotaryEmbedding(6, learnable=True)
        run = torch.compile(module, fullgraph=True, backend="aot_eager") if compiled else module
        x, at = drawn(2, 3, 4, 6).requires_grad_(), torch.arange(4.0).requires_grad_()
        q, k = run(x, x[:, :1], positions=at)
        (q * k).sin().sum().backward()
        grads.append((x.grad, at.grad, module.log_ratios.grad))
    assert_close(grads[0], grads[1])


@pytest.mark.slow  # the contract exports for any number of sequences
def test_exports_with_any_length():
    module, dim = RotaryEmbedding(6), torch.export.Dim.DYNAMIC

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rotary = module

        def forward(self, q, k):
            return self.rotary(q, k)

    shapes = ({0: dim, 2: dim}, {0: dim, 2: dim})
    program = torch.export.export(Rows(), (drawn(2, 3, 4, 6), drawn(2, 1, 4, 6)), dynamic_shapes=shapes)
    q, k = drawn(3, 3, 9, 6), drawn(3, 1, 9, 6, seed=1)
    assert_close(program.module()(q, k), module(q, k), rtol=0, atol=1e-6)


def test_vmap_over_sequences_positions_and_offsets():
    module, x = RotaryEmbedding(6), drawn(4, 3, 5, 6)
    at, start = torch.arange(20).view(4, 5), torch.tensor([0, 3, 9, 1])
    got = torch.func.vmap(lambda x, at: module.rotate(x, positions=at))(x, at)
    assert_close(got, module.rotate(x, positions=at), rtol=0, atol=1e-6)
    got = torch.func.vmap(lambda x, start: module.rotate(x, offset=start))(x, start)
    assert_close(got, module.rotate(x, offset=start), rtol=0, atol=1e-6)
    got = torch.func.vmap(lambda q, k: module(q, k[:1])[1])(x, x)
    assert_close(got, module.rotate(x[:, :1]), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 9}, "dim must be even, got 9"),
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"dim": 8, "rotary_dim": 5}, "rotary_dim must be even, got 5"),
        ({"dim": 8, "rotary_dim": 10}, "rotary_dim must be at most dim, 8, got 10"),
        ({"dim": 8, "rotary_dim": 0}, "rotary_dim must be at least 2, got 0"),
        ({"dim": 8, "layout": "neox"}, "layout must be one of half, interleaved, got 'neox'"),
        ({"dim": 8, "base": 0}, "base must be finite and positive, got 0"),
        ({"dim": 8, "frequencies": [1.0]}, "frequencies must be 4, one for each pair, got 1"),
        ({"dim": 2, "frequencies": [math.inf]}, "frequencies must be finite, got inf"),
        ({"dim": 2, "frequencies": [-1e-31]}, "abs(frequencies) must be from 1e-30 to 1e+30, got 1e-31"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        RotaryEmbedding(**arguments)
    assert str(caught.value) == message


def test_a_learnable_that_is_no_bool_is_refused():
    with pytest.raises(TypeError, match="^learnable must be True or False, got 'no'$"):
        RotaryEmbedding(8, learnable="no")


def test_bad_inputs_are_refused():
    module, x = RotaryEmbedding(4), drawn(2, 3, 5, 4)
    with pytest.raises(ValueError, match=r"^q must have 4 as its last dimension, got shape \(2, 3, 5, 6\)$"):
        module(drawn(2, 3, 5, 6), x)
    with pytest.raises(ValueError, match=r"^k must have 4 as its last dimension"):
        module(x, x[..., :3])
    with pytest.raises(ValueError, match=r"^x must have 4 as its last dimension"):
        module.rotate(torch.zeros(()))
    with pytest.raises(ValueError, match="^k must have 2 sequences, as q has, got 1$"):
        module(x, x[:1])
    for seq_dim in (-1, 3, 4, -5):
        with pytest.raises(
            ValueError, match=f"^seq_dim must be .* of x before the last, got {seq_dim} of 4$"
        ):
            module.rotate(x, seq_dim=seq_dim)
    with pytest.raises(ValueError, match=r"^x must have shape \(\*, n_steps, 4\), got \(4,\)$"):
        module.rotate(x[0, 0, 0])
    with pytest.raises(TypeError, match=r"^k must be floats, got torch.int64$"):
        module(x, x.long())
    with pytest.raises(TypeError, match="^positions must be integers up to int64, float32 or float64, got"):
        module(x, x, positions=torch.arange(5).half())
    with pytest.raises(TypeError, match="^k_positions must be integers up to int64, float32 or float64, got"):
        module(x, x, positions=torch.arange(5), k_positions=torch.ones(5, dtype=torch.bool))
    with pytest.raises(
        ValueError, match="^offset must be 0 where positions are given, got 1: add it to them$"
    ):
        module.rotate(x, positions=torch.arange(5), offset=1)
    with pytest.raises(ValueError, match="^positions must be given for more queries than keys, got 5 and 2$"):
        module(x, x[:, :, :2])
    with pytest.raises(ValueError, match=r"^positions must have shape \(5,\) or \(2, 5\), got \(3, 5\)"):
        module(x, x, positions=torch.arange(15).view(3, 5))
    with pytest.raises(
        ValueError, match="^k_positions must be given where 4 queries of 2 keys have positions$"
    ):
        module(x[:, :, :4], x[:, :, :2], positions=torch.arange(2))
    with pytest.raises(ValueError, match="^k_positions must be finite, got nan: "):
        module(x, x, k_positions=torch.full((5,), math.nan))


@pytest.mark.parametrize("learnable", [False, True])
def test_what_stands_on_another_device_is_refused(learnable):
    x, here = drawn(2, 3, 4), RotaryEmbedding(4)
    with torch.device("meta"):
        module = RotaryEmbedding(4, learnable=learnable)
    module = module if learnable else module.to("meta")
    for turned in (lambda: module.rotate(x), lambda: module(x, x)):
        with pytest.raises(
            ValueError, match="^RotaryEmbedding must be materialised, got parameters on meta: "
        ):
            turned()
    assert module.rotate(x.to("meta")).is_meta
    assert here.rotate(x.to("meta")).is_meta
    with pytest.raises(ValueError, match="^positions must be on cpu, as the rows are, got meta$"):
        here.rotate(x, positions=torch.arange(3, device="meta"))
    with pytest.raises(ValueError, match="^k must be on cpu, as q is, got meta$"):
        here(x, x.to("meta"))


@pytest.mark.parametrize("made", [lambda: RotaryEmbedding(4), lambda: RotaryEmbedding(4).float()])
def test_made_in_inference_mode_and_trained(made):
    with torch.inference_mode():
        module = made()
    x = drawn(2, 3, 4).requires_grad_()
    module.rotate(x).square().sum().backward()
    assert_close(x.grad, 2 * x.detach())
    with torch.inference_mode():
        learned = RotaryEmbedding.float(LEARNED)
    learned.rotate(x, offset=2).sin().sum().backward()
    assert learned.log_ratios.grad.abs().min() > 0


LEARNED = RotaryEmbedding(4, learnable=True)


def test_numpys_integers_and_floats_are_pythons():
    module = RotaryEmbedding(np.int8(126), rotary_dim=np.int8(124), base=np.float32(1e4))
    assert module.frequencies.tolist() == RotaryEmbedding(126, rotary_dim=124).frequencies.tolist()
    assert "126, " in repr(module)
    assert {type(module.dim), type(module.rotary_dim)} == {int}


def test_the_representation_shows_layout_and_periods():
    hours = RotaryEmbedding(6, frequencies=frequencies_from_periods(1, 100, 2), rotary_dim=4, learnable=True)
    assert "6, layout='half', rotary_dim=4, learnable=True" in repr(hours)
    assert "2 periods, 1 to 100" in repr(hours)
