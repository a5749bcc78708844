"""What every position scheme promises, each against the scalar loops."""

from __future__ import annotations

import copy
import math
from fractions import Fraction

import pytest
import reference
import torch
from padding import PADDED, mask_of, padded, real_rows, rows
from torch.testing import assert_close

from tabembed.functional.decay import decay
from tabembed.functional.position import row_positions
from tabembed.nn import (
    ALiBiEmbedding,
    LearnedPositionalEmbedding,
    RelativeDecay,
    RotaryEmbedding,
    SinusoidalEmbedding,
    TemporalPositionEncoder,
)

DIM, HEADS = 8, 2
NOW = 1_700_000_000 * 10**9 + 123_456_789
HOUR = 3600 * 10**9
LAYOUTS = ("half", "interleaved")


def scored(q, k):
    """Scores of all queries and keys, summed in float64."""
    return q.double() @ k.double().mT


# Modules that add to, or turn, the tokens themselves


def sinusoidal():
    return SinusoidalEmbedding(DIM)


def learned():
    return LearnedPositionalEmbedding(5000, DIM, init_std=1.0, seed=0)


def temporal():
    return TemporalPositionEncoder(DIM, horizon=100)


def rotary():
    return RotaryEmbedding(DIM)


def rotary_interleaved():
    return RotaryEmbedding(DIM, layout="interleaved", rotary_dim=6)


def token_loop(make):
    """The loop of one token: from the module, the token and its position."""
    return {
        sinusoidal: lambda m, x, p: [a + b for a, b in zip(x, reference.sinusoidal(p, DIM), strict=True)],
        learned: lambda m, x, p: reference.learned_position(x, p, next(m.parameters()).tolist()),
        temporal: lambda m, x, p: reference.temporal_position(
            x, p, reference.ladder(4, DIM), next(m.parameters()).tolist(), 100
        )[0],
        rotary: lambda m, x, p: reference.rotary(x, p, reference.ladder(4, DIM)),
        rotary_interleaved: lambda m, x, p: reference.rotary(x, p, reference.ladder(3, 6), "interleaved"),
    }[make]


def encode(module, x, **where):
    """Tokens ``(B, S, D)`` with their positions in them."""
    if isinstance(module, RotaryEmbedding):
        return module.rotate(x, **where)
    encoded = module(x, **where)
    return encoded[0] if isinstance(encoded, tuple) else encoded


TOKENS = pytest.mark.parametrize(
    "make", [sinusoidal, learned, temporal, rotary, rotary_interleaved], ids=lambda f: f.__name__
)


# H13: padding


@pytest.mark.parametrize("form", PADDED)
def test_real_rows_count_from_0(form):
    places = row_positions(mask_of(form))
    assert places.dtype == torch.int64
    assert places.tolist() == [reference.row_positions(mask_of(form)[0].tolist())]
    assert real_rows(places.unsqueeze(-1), form).flatten().tolist() == [0, 1, 2]


@pytest.mark.parametrize("fill", [0.0, 1e4, math.nan])
@pytest.mark.parametrize("form", PADDED)
@TOKENS
def test_padding_moves_no_token(make, form, fill):
    module, x = make(), rows(1, 3, DIM)
    out = real_rows(encode(module, padded(x, form, fill), positions=row_positions(mask_of(form))), form)
    assert_close(out, encode(module, x), rtol=0, atol=0)
    loop = token_loop(make)
    expected = [loop(module, token, p) for p, token in enumerate(x[0].tolist())]
    assert_close(out[0].double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-5)


# H18 and H19: time that fades, positions that are not rounded


def test_half_lives_in_every_unit():
    days = [0, Fraction(7, 2), 7, 14, -1000]
    for unit in (Fraction(1), Fraction(86_400), Fraction(86_400 * 10**9)):
        elapsed = [float(d * unit) if unit == 1 else int(d * unit) for d in days]
        expected = [reference.decay(e, 7 * unit) for e in elapsed]
        assert expected == pytest.approx([1, 0.5**0.5, 0.5, 0.25, 1])
        out = decay(torch.tensor(elapsed), float(7 * unit))
        assert_close(out.double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=0)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_future_has_a_gradient_too(sign):
    elapsed = torch.tensor([-1000.0, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    half_life = torch.tensor(math.log(2), dtype=torch.float64, requires_grad=True)
    out = decay(sign * elapsed, half_life)
    assert (out <= 1).all()
    grads = torch.autograd.grad(out.sum(), (elapsed, half_life))
    assert all(grad.isfinite().all() for grad in grads)


FAR = [65_536.0, 65_537.0, 65_540.0]
COSINES = [-0.721835, -0.972362, 0.995580]


@TOKENS
def test_autocast_rounds_no_position(make):
    module, x = make(), rows(1, 3, DIM)
    # bfloat16 would make all rows of a table one that is not there
    places = torch.tensor([4097, 4098, 4099]) if make is learned else torch.tensor(FAR)
    out = encode(module, x, positions=places)
    expected = [
        token_loop(make)(module, token, p) for token, p in zip(x[0].tolist(), places.tolist(), strict=True)
    ]
    assert_close(out[0].double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(encode(module, x, positions=places), out, rtol=0, atol=0)
    # What is learned is rounded, as in any layer.
    for narrow in () if make in (temporal, learned) else (torch.float16, torch.bfloat16):
        cast = encode(copy.deepcopy(module).to(narrow), x, positions=places)
        assert_close(cast, out, rtol=0, atol=0)


@pytest.mark.parametrize("cast", [torch.float32, torch.bfloat16], ids=str)
def test_cosines_of_positions_beyond_65536(cast):
    assert [math.cos(reference.radians(Fraction(p))) for p in FAR] == pytest.approx(COSINES, abs=1e-6)
    x = torch.zeros(1, 3, DIM)
    with torch.autocast("cpu", torch.bfloat16):
        waves = SinusoidalEmbedding(DIM).to(cast)(x, positions=torch.tensor(FAR))
        x[..., 0] = 1
        turned = RotaryEmbedding(DIM).to(cast).rotate(x, positions=torch.tensor(FAR))
    assert waves[0, :, 1].tolist() == pytest.approx(COSINES, abs=1e-5)
    assert turned[0, :, 0].tolist() == pytest.approx(COSINES, abs=1e-5)


# H20: offsets and streaming


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotary_offsets_and_streaming(layout, merged):
    module, x = RotaryEmbedding(DIM, layout=layout), rows(3, 2, 6, DIM)
    x = x.flatten(0, 1) if merged else x
    first, second, third = (module.rotate(x, offset=offset) for offset in (0, 5, 0))
    assert torch.equal(first, third)
    assert (first - second).abs().max() > 0.1
    ladder = reference.ladder(4, DIM)
    for out, offset in ((first, 0), (second, 5)):
        expected = [
            [reference.rotary(row, offset + i, ladder, layout) for i, row in enumerate(head)]
            for head in x.reshape(-1, 6, DIM).tolist()
        ]
        assert_close(out.reshape(-1, 6, DIM), torch.tensor(expected), rtol=0, atol=1e-6)
    steps = [module.rotate(x[..., a:b, :], offset=a) for a, b in ((0, 4), (4, 5), (5, 6))]
    assert_close(torch.cat(steps, -2), first, rtol=0, atol=1e-6)


@TOKENS
def test_streamed_tokens_equal_the_full_pass(make):
    module, x = make(), rows(3, 6, DIM)
    full = encode(module, x)
    steps = [encode(module, x[:, a:b], offset=a) for a, b in ((0, 4), (4, 5), (5, 6))]
    assert_close(torch.cat(steps, 1), full, rtol=0, atol=1e-6)
    for where in ({"positions": torch.arange(6)}, {"positions": torch.arange(6).expand(3, 6)}):
        assert_close(encode(module, x, **where), full, rtol=0, atol=0)
    offsets = torch.tensor([0, 7, 40])
    each = torch.stack([encode(module, x[b : b + 1], offset=int(offsets[b]))[0] for b in range(3)])
    assert_close(encode(module, x, offset=offsets), each, rtol=0, atol=0)
    assert (each[1] - full[1]).abs().max() > 0.01


# H21: no memory


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
@TOKENS
def test_nothing_is_remembered(make, mode):
    module, x, long = make(), rows(1, 8, DIM), rows(1, 5000, DIM, seed=1)
    fresh, state = copy.deepcopy(module), copy.deepcopy(list(module.buffers()))
    before = encode(module, x)
    with mode():
        once = encode(module, long)
    assert_close(encode(module, x), before, rtol=0, atol=0)
    assert_close(once.clone(), encode(copy.deepcopy(fresh), long).detach(), rtol=0, atol=0)
    assert_close(list(module.buffers()), state, rtol=0, atol=0)
    grads = []
    for each in (module, fresh):
        leaf = x.clone().requires_grad_()
        grads.append(torch.autograd.grad(encode(each, leaf).pow(2).sum(), [leaf, *each.parameters()]))
    assert_close(*grads, rtol=0, atol=0)


# H22 and H23: layouts and widths


def test_the_two_layouts():
    x = torch.tensor([[[1.0, 2, 3, 4]]])
    numbers = {
        "interleaved": [-1.142640, 1.922076, 2.959851, 4.029800],
        "half": [-1.984111, 1.959901, 2.462378, 4.019800],
    }
    for layout, expected in numbers.items():
        assert reference.rotary([1.0, 2, 3, 4], 1, reference.ladder(2, 4), layout) == pytest.approx(
            expected, abs=1e-6
        )
        module = RotaryEmbedding(4, layout=layout)
        assert module.rotate(x, offset=1)[0, 0].tolist() == pytest.approx(expected, abs=1e-6)
        assert layout in repr(module)
    assert RotaryEmbedding(4).rotate(x, offset=1)[0, 0].tolist() == pytest.approx(numbers["half"], abs=1e-6)
    with pytest.raises(ValueError, match="^layout must be one of .*, got 'neox'"):
        RotaryEmbedding(4, layout="neox")


@pytest.mark.parametrize("width", [6, 72])
def test_a_permutation_of_features_turns_one_layout_into_the_other(width):
    pairs = reference.pairs(width, "half")
    order = [i for pair in pairs for i in pair]  # what stands at place (2i, 2i + 1)
    x = rows(2, 3, width)
    half, interleaved = (
        RotaryEmbedding(width, layout=layout).rotate(x if layout == "half" else x[..., order], offset=9)
        for layout in LAYOUTS
    )
    assert_close(half[..., order], interleaved, rtol=0, atol=1e-6)


def test_rotary_width_3_pairs_whole_and_partial():
    x = torch.tensor([[[1.0, 2, 3, 4, 5, 6]]])
    whole = [-1.554473, 1.286651, 2.961158, -3.818850, 5.229200, 6.019264]
    part = [-1.413353, 1.879118, -2.828857, 4.058191, 5, 6]
    assert reference.rotary(x[0, 0].tolist(), 3, reference.ladder(3, 6)) == pytest.approx(whole, abs=1e-6)
    assert reference.rotary(x[0, 0].tolist(), 3, reference.ladder(2, 4)) == pytest.approx(part, abs=1e-6)
    places = torch.tensor([3])
    assert RotaryEmbedding(6).rotate(x, positions=places)[0, 0].tolist() == pytest.approx(whole, abs=1e-6)
    partial = RotaryEmbedding(6, rotary_dim=4).rotate(x, positions=places)
    assert partial[0, 0].tolist() == pytest.approx(part, abs=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("width", "turned"), [(72, 72), (80, 20), (96, 96), (128, 66)])
def test_widths_that_are_no_power_of_two_touch_no_neighbour(width, turned, layout):
    module = RotaryEmbedding(width, rotary_dim=turned, layout=layout)
    fused = torch.full((1, 2, 5, 3, width + 6), 77.0)
    x = rows(2, 5, width)
    fused[0, :, :, 1, 3:-3] = x
    before = fused.clone()
    out = module.rotate(fused[:, :, :, 1, 3:-3], offset=2)
    assert torch.equal(fused, before)
    ladder = reference.ladder(turned // 2, turned)
    expected = [
        [reference.rotary(row, 2 + i, ladder, layout) for i, row in enumerate(head)] for head in x.tolist()
    ]
    assert_close(out[0].double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"dim": 9}, "must be even, got 9"),
        ({"dim": 16, "rotary_dim": 9}, "^rotary_dim must be even, got 9"),
        ({"dim": 8, "rotary_dim": 10}, "^rotary_dim must be .*8, got 10"),
    ],
)
def test_impossible_widths(arguments, text):
    with pytest.raises(ValueError, match=text):
        RotaryEmbedding(**arguments)


def test_a_head_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"^x must have 8 as its last dimension, got shape \(1, 3, 6\)"):
        RotaryEmbedding(8).rotate(rows(1, 3, 6))
    with pytest.raises(ValueError, match=r"^k must have 8 as its last dimension"):
        RotaryEmbedding(8)(rows(1, 2, 3, 8), rows(1, 2, 3, 6))


@pytest.mark.parametrize("width", [1, 2, 5, 7])
def test_sinusoidal_of_any_width(width):
    places = [0, 3, 250]
    expected = [reference.sinusoidal(p, width) for p in places]
    out = SinusoidalEmbedding(width)(torch.zeros(1, 3, width), positions=torch.tensor(places))
    assert_close(out[0].double(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-6)


# H24 and H25: slopes and biases


def test_slopes_of_the_paper():
    twelve = [2.0**-h for h in range(1, 9)] + [0.707107, 0.353553, 0.176777, 0.088388]
    assert reference.alibi_slopes(12) == pytest.approx(twelve, abs=1e-6)
    assert reference.alibi_slopes(6) == [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    for n in (*range(1, 34), 40, 64, 129):
        slopes = ALiBiEmbedding(n).slopes
        assert slopes.tolist() == pytest.approx(reference.alibi_slopes(n), rel=1e-6)


@pytest.mark.parametrize("mode", ["symmetric", "causal"])
def test_the_bias_falls_with_distance(mode):
    module = ALiBiEmbedding(8, mode=mode)
    assert module.slopes.tolist() == [2.0**-h for h in range(1, 9)]
    places = torch.arange(11)
    bias = module.bias(places, places)
    assert bias[..., 0, 10, 9].item() == -0.5
    assert bias[..., 0, 10, 0].item() == -5
    assert bias.max() == 0
    assert bias.diagonal(dim1=-2, dim2=-1).abs().max() == 0


@pytest.mark.parametrize("mode", ["symmetric", "causal"])
def test_one_module_serves_every_length(mode):
    module = ALiBiEmbedding(8, mode=mode)
    for length in (512, 513, 511, 1):
        places = torch.arange(length)
        bias, fresh = module.bias(places, places), ALiBiEmbedding(8, mode=mode).bias(places, places)
        assert bias.shape[-3:] == (8, length, length)
        assert torch.equal(bias, fresh)
        one = module.bias(places[-1:], places)
        assert torch.equal(one, bias[..., -1:, :])
    assert sum(t.numel() for t in (*module.buffers(), *module.parameters())) < 100


@pytest.mark.parametrize("mode", ["symmetric", "causal"])
@pytest.mark.parametrize(("n_q", "n_k"), [(4, 4), (1, 5), (2, 5)])
def test_scores_get_their_bias(mode, n_q, n_k):
    module, scores = ALiBiEmbedding(3, mode=mode, unit=0.5), rows(2, 3, n_q, n_k)
    slopes = reference.alibi_slopes(3)
    expected = [
        [[reference.alibi_bias(n_k - n_q + i, j, slope, 0.5, mode) for j in range(n_k)] for i in range(n_q)]
        for slope in slopes
    ]
    expected = scores.double() + torch.tensor(expected, dtype=torch.float64)
    assert_close(module(scores).double(), expected, rtol=1e-6, atol=1e-6)


# H37: no memory is read that nobody wrote; nothing in a state depends on a length


@TOKENS
def test_meta_device_then_a_saved_state(make):
    saved, x = make(), rows(2, 5, DIM)
    with torch.device("meta"):
        module = make()
    module = module.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(7)
    module.load_state_dict(saved.state_dict(), strict=True)
    assert_close(encode(module, x, offset=3), encode(saved, x, offset=3), rtol=0, atol=0)


def test_the_first_frequency_is_1_after_to_empty():
    with torch.device("meta"):
        module = RotaryEmbedding(DIM)
    x = torch.zeros(1, 1, DIM, dtype=torch.float64)
    x[..., 0] = 1
    out = module.to_empty(device="cpu").rotate(x, positions=torch.tensor([10**15]))
    assert out[0, 0, 0].item() == pytest.approx(math.cos(reference.radians(Fraction(10**15))), abs=1e-9)


def test_a_longer_table_says_so_and_nothing_else_has_a_length():
    short = LearnedPositionalEmbedding(128, DIM).state_dict()
    with pytest.raises(RuntimeError, match=r"128.*256"):
        LearnedPositionalEmbedding(256, DIM).load_state_dict(short)
    for module in (
        sinusoidal(),
        rotary(),
        temporal(),
        ALiBiEmbedding(HEADS, mode="causal"),
        RelativeDecay(DIM, half_lives=2.0),
    ):
        state = module.state_dict()
        assert all(max(t.shape, default=1) <= DIM for t in state.values())
        module.load_state_dict(state, strict=True)


@pytest.mark.parametrize(
    ("n_steps", "where", "first"),
    [
        (9, {}, 8),
        (6, {"offset": 4}, 8),
        (5, {"offset": 9}, 9),
        (3, {"positions": torch.tensor([0, 12, 8])}, 12),
    ],
)
def test_a_position_past_the_table_is_named(n_steps, where, first):
    with pytest.raises(ValueError, match=f"^positions must be from 0 to 7 in a table of 8, got {first}$"):
        LearnedPositionalEmbedding(8, DIM)(rows(1, n_steps, DIM), **where)


# A constant shift of all positions changes no score


TIMES = [0, 0, 7, 90 * 60 * 10**9, HOUR * 24 * 365 * 3 + 11]  # nanoseconds, three years apart
SPAN = reference.frequencies_from_periods(HOUR, HOUR * 24 * 365 * 10, 4)
SHIFTS = [NOW, -NOW, 2**62, 1]


def seen(make_scores, base, shift):
    times = torch.tensor(TIMES)
    near, far = make_scores(times + base), make_scores(times + base + shift)
    assert_close(far, near, rtol=0, atol=1e-5)
    return near


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotary_scores_at_unix_nanoseconds(layout, shift):
    module = RotaryEmbedding(DIM, frequencies=SPAN, layout=layout)
    q, k = rows(1, 1, 5, DIM), rows(1, 1, 5, DIM, seed=1)
    out = seen(lambda t: scored(*module(q, k, positions=t)), NOW if shift < 2**62 else 0, shift)
    expected = [
        [
            sum(a * b for a, b in zip(reference.rotary(x, t - s, SPAN, layout), y, strict=True))
            for s, y in zip(TIMES, k[0, 0].tolist(), strict=True)
        ]
        for t, x in zip(TIMES, q[0, 0].tolist(), strict=True)
    ]
    assert_close(out[0, 0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-5)


def test_rotary_scores_at_unix_seconds():
    """A turn a second: nanoseconds of it are lost in float64, and not one more."""
    module = RotaryEmbedding(DIM)
    seconds = torch.tensor([0.0, 0.25, 1e3, 2.5e7 + 2**-10, 9e8], dtype=torch.float64)
    q, k = rows(1, 1, 5, DIM), rows(1, 1, 5, DIM, seed=1)
    near = scored(*module(q, k, positions=seconds))
    far = scored(*module(q, k, positions=seconds + 1_700_000_000))
    assert_close(far, near, rtol=0, atol=1e-5)
    ladder = reference.ladder(4, DIM)
    for p, row, turned in zip(
        seconds.tolist(), q[0, 0].tolist(), module.rotate(q, positions=seconds)[0, 0], strict=True
    ):
        assert turned.tolist() == pytest.approx(reference.rotary(row, p, ladder), abs=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bfloat16_loses_one_rounding_at_unix_nanoseconds(layout):
    module = RotaryEmbedding(DIM, frequencies=SPAN, layout=layout).bfloat16()
    x = rows(1, 5, DIM, dtype=torch.bfloat16)
    times = torch.tensor(TIMES) + NOW
    out = module.rotate(x, positions=times)
    assert out.dtype == torch.bfloat16
    expected = [
        reference.rotary(row, t, SPAN, layout) for row, t in zip(x[0].tolist(), times.tolist(), strict=True)
    ]
    lost = (out[0].double() - torch.tensor(expected, dtype=torch.float64)).abs().max()
    assert lost <= 4e-3 * x.abs().max()


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("mode", ["symmetric", "causal"])
def test_alibi_at_unix_nanoseconds(mode, shift):
    module = ALiBiEmbedding(3, mode=mode, unit=24 * 365 * HOUR)
    out = seen(lambda t: module.bias(t, t), NOW if shift < 2**62 else 0, shift)
    expected = [
        [[reference.alibi_bias(t, s, slope, 24 * 365 * HOUR, mode) for s in TIMES] for t in TIMES]
        for slope in reference.alibi_slopes(3)
    ]
    assert_close(
        out.double().reshape(3, 5, 5), torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("turning", [False, True])
def test_relative_decay_at_unix_nanoseconds(shift, turning):
    shortest, longest = 24 * 365 * HOUR, 24 * 365 * HOUR * 5
    inner = RotaryEmbedding(DIM, frequencies=SPAN) if turning else None
    module = RelativeDecay(DIM, half_lives=(shortest, longest), rotary=inner)
    half_lives = [shortest * 5 ** (i / 3) for i in range(4)] * 2
    q, k = rows(1, 1, 5, DIM), rows(1, 1, 5, DIM, seed=1)
    out = seen(lambda t: scored(*module(q, k, positions=t)), NOW if shift < 2**62 else 0, shift)
    expected = [
        [
            reference.decayed_score(reference.rotary(x, t - s, SPAN) if turning else x, y, t - s, half_lives)
            for s, y in zip(TIMES, k[0, 0].tolist(), strict=True)
        ]
        for t, x in zip(TIMES, q[0, 0].tolist(), strict=True)
    ]
    assert_close(out[0, 0], torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotary_gradients_are_the_opposite_rotation(layout):
    """Of q, k, the positions and the frequencies, from all heads."""
    module = RotaryEmbedding(DIM, layout=layout, learnable=True)
    (log_ratios,) = module.parameters()
    q, k = (rows(1, n, 3, DIM, seed=n).requires_grad_() for n in (3, 1))
    gq, gk = rows(1, 3, 3, DIM, seed=5), rows(1, 1, 3, DIM, seed=6)
    times = torch.tensor([0.5, 3.0, 40.25], dtype=torch.float64, requires_grad=True)
    out = module(q, k, positions=times)
    got = torch.autograd.grad(out, (q, k, times, log_ratios), (gq, gk))
    heads, grads = torch.cat((q, k), 1).detach()[0], torch.cat((gq, gk), 1)[0]
    ladder = module.frequencies.tolist()
    reached = [
        reference.rotary_gradients(heads[:, i].tolist(), grads[:, i].tolist(), t, ladder, layout)
        for i, t in enumerate(times.tolist())
    ]
    of_rows = torch.tensor([r[0] for r in reached], dtype=torch.float64).transpose(0, 1)
    close = {"rtol": 1e-5, "atol": 1e-5}
    assert_close(torch.cat(got[:2], 1)[0].double(), of_rows, **close)
    assert_close(got[2].double(), torch.tensor([r[1] for r in reached], dtype=torch.float64), **close)
    summed = torch.tensor([r[2] for r in reached], dtype=torch.float64).sum(0) * torch.tensor(ladder)
    assert_close(got[3].double(), summed, rtol=1e-5, atol=1e-4)
