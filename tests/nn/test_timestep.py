from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from diffusers.models.embeddings import TimestepEmbedding as DiffusersEmbedding
from diffusers.models.embeddings import Timesteps, get_timestep_embedding
from torch.nn.functional import cosine_similarity
from torch.testing import assert_close

from tabembed.nn import GaussianFourierProjection, TimestepEmbedding, TimestepFeatures, calibrate

STEPS = torch.arange(1000)
NAMES = ["diffusers", "ddpm", "dit", "edm", "score_sde", "k_diffusion", "tabddpm"]


# -- equal to the peers ------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3, 7, 34, 255, 256, 320])
@pytest.mark.parametrize(("flip", "shift", "scale"), [(True, 0, 1), (False, 0.5, 1000), (False, 0, 0.3)])
def test_equals_diffusers_bit_by_bit(dim, flip, shift, scale):
    order = "cos_sin" if flip else "sin_cos"
    ours = TimestepFeatures(dim, order=order, freq_shift=shift, scale=scale)
    fractions = torch.linspace(0, 999, 37)
    for times in (STEPS, STEPS[:1], STEPS[:9].int(), fractions, fractions.double(), STEPS[:200].half()):
        assert torch.equal(ours(times.float()), get_timestep_embedding(times, dim, flip, shift, scale))
        if times.dtype != torch.float16:
            assert torch.equal(ours(times), Timesteps(dim, flip, shift, scale)(times))


def test_the_longest_period_is_diffusers_too():
    theirs = get_timestep_embedding(STEPS, 30, max_period=77)
    ours = TimestepFeatures(30, order="sin_cos", freq_shift=1, max_period=77)
    assert torch.equal(ours(STEPS), theirs)


@pytest.mark.parametrize("name", ["dit", "tabddpm"])
@pytest.mark.parametrize("dim", [9, 128, 256])
def test_equals_the_formula_of_dit_and_tabddpm_bit_by_bit(name, dim):
    half = dim // 2
    frequencies = torch.exp(-math.log(10000) * torch.arange(0, half, dtype=torch.float32) / half)
    angles = STEPS[:, None].float() * frequencies[None]
    theirs = torch.cat([angles.cos(), angles.sin(), torch.zeros(1000, dim % 2)], -1)
    assert torch.equal(TimestepFeatures.from_preset(name, dim)(STEPS), theirs)


@pytest.mark.parametrize("dim", [9, 128])
def test_presets_of_diffusers(dim):
    theirs = {
        "diffusers": get_timestep_embedding(STEPS, dim, True, 0),
        "ddpm": get_timestep_embedding(STEPS, dim),
    }
    for name, features in theirs.items():
        assert torch.equal(TimestepFeatures.from_preset(name, dim)(STEPS), features)


def test_preset_of_score_sde():
    step = math.log(10000) / (64 - 1)
    angles = STEPS.float()[:, None] * torch.exp(torch.arange(64, dtype=torch.float32) * -step)[None]
    theirs = torch.cat([angles.sin(), angles.cos()], -1)
    assert_close(TimestepFeatures.from_preset("score_sde", 128)(STEPS), theirs, rtol=0, atol=1e-4)


def test_preset_of_edm_with_its_halves_swapped():
    frequencies = (1 / 10000) ** (torch.arange(64, dtype=torch.float32) / (64 - 1))
    angles = STEPS.float().ger(frequencies)
    cos_sin = torch.cat([angles.cos(), angles.sin()], -1)
    theirs = cos_sin.reshape(1000, 2, -1).flip(1).reshape(1000, -1)
    assert_close(TimestepFeatures.from_preset("edm", 128)(STEPS), theirs, rtol=0, atol=1e-4)


def test_preset_of_k_diffusion_is_a_gaussian_projection():
    ours = TimestepFeatures.from_preset("k_diffusion", 32, seed=5)
    assert isinstance(ours, GaussianFourierProjection)
    c_noise = torch.linspace(-1.5, 1.1, 40)
    angles = 2 * math.pi * c_noise[:, None] @ ours.frequencies[None]
    assert_close(ours(c_noise), torch.cat([angles.cos(), angles.sin()], -1), rtol=0, atol=1e-4)
    assert torch.equal(ours.frequencies, TimestepFeatures.from_preset("k_diffusion", 32, seed=5).frequencies)


# -- every form of a time ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("precision", ["fp32", "exact"])
def test_every_form_of_a_time_gives_the_same_numbers(dtype, precision):  # H34
    module = TimestepFeatures(16, precision=precision).to(dtype)
    embedding = TimestepEmbedding(TimestepFeatures(16, precision=precision), 5, seed=0).to(dtype)
    numbers = [0, 1, 10, 1000]
    for of in (module, embedding):
        expected = of(torch.tensor(numbers))
        assert expected.dtype == dtype
        assert expected.unique().numel() > 10  # nothing was cut down to whole numbers
        for kind in (torch.int32, torch.int16, torch.float32, torch.float64):
            assert torch.equal(of(torch.tensor(numbers, dtype=kind)), expected)
        # One row is multiplied in another order than four: the last digit of a matrix product.
        close = {"rtol": torch.finfo(dtype).eps, "atol": torch.finfo(dtype).eps}
        for one in (int, float, np.int64, np.float32, torch.tensor):
            assert_close(torch.stack([of(one(n)) for n in numbers]), expected, **close)
    below = torch.tensor([0, 1, 200], dtype=torch.uint8)
    assert torch.equal(module(below), module(below.long()))
    assert torch.equal(module(below.bfloat16()), module(below.long()))


def test_negative_times():  # H34
    assert TimestepFeatures(8)(-5)[4].item() == pytest.approx(0.958924, abs=1e-6)
    assert TimestepFeatures(8, precision="exact")(torch.tensor(-5))[4].item() == pytest.approx(
        0.958924, abs=1e-6
    )


def test_continuous_time_scaled_once_equals_steps_100_and_900_from_every_entry():  # H35
    continuous, steps = torch.tensor([0.1, 0.9]), torch.tensor([100, 900])
    plain, scaled = TimestepFeatures(128), TimestepFeatures(128, scale=1000)
    entries = [
        scaled,
        TimestepFeatures(128, scale=1000, precision="exact"),
        TimestepEmbedding(scaled, 7).features,
    ]
    for entry in entries:
        assert_close(entry(continuous), plain(steps), rtol=0, atol=1e-4)
    embedding = TimestepEmbedding(scaled, 7, seed=0)
    assert_close(embedding(continuous), TimestepEmbedding(plain, 7, seed=0)(steps), rtol=0, atol=1e-4)
    calibrated, by_hand = calibrate(plain, (0, 1)), TimestepFeatures(128, max_period=500)
    assert_close(calibrated(continuous), by_hand(steps), rtol=0, atol=1e-4)
    assert cosine_similarity(*scaled(continuous), dim=0).item() == pytest.approx(0.1669, abs=1e-4)
    assert cosine_similarity(*plain(continuous), dim=0).item() == pytest.approx(0.9806, abs=1e-4)


def test_shapes():
    module = TimestepFeatures(6)
    for shape, expected in [((), (6,)), ((4,), (4, 6)), ((4, 1), (4, 6)), ((1, 1), (1, 6)), ((1,), (1, 6))]:
        assert module(torch.ones(shape)).shape == expected
    for shape in [(2, 3), (0,), (2, 0), (2, 3, 1)]:
        assert module(torch.ones(shape)).shape == (*shape, 6)
    column = torch.tensor([[3.0], [5.0]])
    assert torch.equal(module(column), module(column[:, 0]))


@pytest.mark.parametrize(
    ("t", "error", "text"),
    [
        (
            torch.tensor([1.0, 937.0]).bfloat16(),
            ValueError,
            "above 256, got torch.bfloat16 up to 936: do not",
        ),
        (torch.tensor([-258.0]).half(), ValueError, "above 256, got torch.float16 up to 258"),
        (torch.tensor(True), TypeError, "t must be floats or integers, got torch.bool"),
        (torch.tensor(1j), TypeError, "t must be floats or integers, got torch.complex64"),
        (True, TypeError, "t must be a tensor or a number, got True"),
        ([1, 2], TypeError, r"t must be a tensor or a number, got \[1, 2\]"),
    ],
)
def test_bad_times(t, error, text):
    with pytest.raises(error, match=text):
        TimestepFeatures(8)(t)


def test_half_precision_times_pass_as_long_as_no_step_is_lost():
    module = TimestepFeatures(8)
    assert torch.equal(module(torch.tensor([256.0]).bfloat16()), module(256).unsqueeze(0))
    assert module(torch.empty(0).half()).shape == (0, 8)
    assert module(torch.tensor([math.nan]).half()).isnan().any()
    text = r"t must be float32, float64 or integers above 256 / scale = 0.256, got torch.bfloat16 up to 0.898"
    with pytest.raises(ValueError, match=text):
        TimestepFeatures(8, scale=1000)(torch.tensor([0.9]).bfloat16())
    assert TimestepFeatures(8, scale=1000)(torch.tensor([0.25]).bfloat16()).shape == (1, 8)
    with pytest.raises(ValueError, match="above 256, got torch.bfloat16 up to 300"):
        TimestepFeatures(8, scale=0.1)(torch.tensor([300.0]).bfloat16())


def test_an_embedding_refuses_lost_steps_whatever_its_features_are():
    lost = torch.tensor([937.0]).bfloat16()
    scaled = TimestepFeatures(8, scale=1000)
    for features in (TimestepFeatures(8), scaled, GaussianFourierProjection(8, seed=0)):
        embedding = TimestepEmbedding(features, 4, seed=0)
        with pytest.raises(ValueError, match="got torch.bfloat16 up to 936: do not"):
            embedding(lost)
        assert embedding(lost.float()).isfinite().all()
    with pytest.raises(ValueError, match="above 256 / scale = 0.256, got torch.bfloat16 up to 0.898"):
        TimestepEmbedding(scaled, 4)(torch.tensor([0.9]).bfloat16())


# -- precision ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "exact"])
def test_bfloat16_output_loses_only_its_own_rounding(precision):
    truth = TimestepFeatures(256).double()(STEPS)
    narrow = TimestepFeatures(256, precision=precision).bfloat16()(STEPS)
    assert narrow.dtype == torch.bfloat16
    assert (narrow.double() - truth).abs().max() <= 4e-3


def test_exact_features_of_large_times():
    times = torch.tensor([2 * 10**9, 1_700_000_001])
    module = TimestepFeatures(64, precision="exact")
    assert (
        module(times).double() - TimestepFeatures(64, precision="exact").double()(times)
    ).abs().max() < 1e-6
    assert (TimestepFeatures(64)(times) - module(times)).abs().max() > 0.1
    assert (module(times) == module(times.double())).all()
    for number in (2**40 + 1, 1_700_000_000.123):  # plain numbers keep their digits
        assert torch.equal(module(number), module(torch.tensor([number], dtype=torch.float64))[0])


def test_a_float64_module_computes_in_float64():  # H34
    module = TimestepFeatures(64).double()
    assert_close(module(STEPS), TimestepFeatures(64, precision="exact").double()(STEPS), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_no_feature(dtype):
    for precision in ("fp32", "exact"):
        module = TimestepFeatures(33, precision=precision)
        with torch.autocast("cpu", dtype):
            inside = module(STEPS)
        assert torch.equal(inside, module(STEPS))


def test_compiled_with_a_number_and_with_half_precision():
    torch.compiler.reset()
    module = TimestepFeatures(8, precision="exact")
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert_close(compiled(torch.tensor(7)), module(7))
    assert compiled(torch.tensor([300.0]).half()).shape == (1, 8)  # cannot be seen while tracing


def test_the_width_of_features_has_one_name():
    for features, width in ((TimestepFeatures(9), 9), (GaussianFourierProjection(6), 6)):
        assert features.out_features == features(0.5).shape[-1] == width
        with pytest.raises(AttributeError):
            features.out_features = 4


# -- arguments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"dim": 1}, ValueError, "dim must be at least 2, got 1"),
        ({"dim": 8.0}, TypeError, "dim must be an integer, got 8.0"),
        ({"order": "cos"}, ValueError, "order must be one of sin_cos, cos_sin, got 'cos'"),
        ({"freq_shift": -1}, ValueError, "freq_shift must be finite and at least 0, got -1"),
        ({"dim": 2, "freq_shift": 1}, ValueError, "freq_shift must be below dim // 2 = 1, got 1"),
        ({"scale": 1e39}, ValueError, "scale must be from 1e-30 to 1e\\+30, got 1e\\+39"),
        ({"scale": 0}, ValueError, "scale must be finite and positive, got 0"),
        ({"scale": math.inf}, ValueError, "scale must be finite and positive, got inf"),
        ({"max_period": 0.5}, ValueError, "max_period must be finite and at least 1, got 0.5"),
        ({"precision": "fp64"}, ValueError, "precision must be one of fp32, exact, got 'fp64'"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        TimestepFeatures(**{"dim": 8, **arguments})


@pytest.mark.parametrize("kind", [TimestepFeatures, TimestepEmbedding])
def test_unknown_presets_are_named_with_the_known_ones(kind):
    known = "diffusers, ddpm, dit, edm, score_sde, tabddpm, k_diffusion"
    with pytest.raises(ValueError, match=f"name must be one of {known}, got 'adm'"):
        kind.from_preset("adm", 64)


# -- the embedding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [None, 24])
def test_embedding_equals_that_of_diffusers(hidden):
    theirs = DiffusersEmbedding(32, hidden or 12, out_dim=12)
    ours = TimestepEmbedding(TimestepFeatures(32), 12, hidden_features=hidden)
    names = {"linear_1": "mlp.0", "linear_2": "mlp.2"}
    state = {f"{names[k.partition('.')[0]]}.{k.partition('.')[2]}": v for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state, strict=True)
    assert torch.equal(ours(STEPS), theirs(get_timestep_embedding(STEPS, 32, True, 0)))


@pytest.mark.parametrize(
    ("name", "out", "width", "init"),
    [
        ("diffusers", 512, 128, "torch"),
        ("ddpm", 512, 128, "score_sde"),
        ("dit", 384, 256, "dit"),
        ("edm", 512, 128, "score_sde"),
        ("score_sde", 512, 128, "score_sde"),
        ("k_diffusion", 256, 256, "k_diffusion"),
        ("tabddpm", 128, 128, "torch"),
    ],
)
def test_presets_have_their_widths_and_first_weights(name, out, width, init):
    module = TimestepEmbedding.from_preset(name, out, seed=1)
    features, (first, last) = module.features, (module.mlp[0], module.mlp[2])
    assert (first.in_features, first.out_features, last.out_features) == (width, out, out)
    assert module.init == init
    alone = TimestepFeatures.from_preset(name, width)
    assert repr(features) == repr(alone)
    for layer in (first, last):
        weight, bias, fan_in, fan_out = layer.weight, layer.bias, layer.in_features, layer.out_features
        if init == "k_diffusion":
            assert_close(weight @ weight.T, torch.eye(out), rtol=0, atol=1e-5)
        elif init == "dit":
            assert weight.std().item() == pytest.approx(0.02, rel=0.02)
            assert weight.abs().max() > 0.06  # a normal law, no uniform one
        else:
            bound = fan_in**-0.5 if init == "torch" else (6 / (fan_in + fan_out)) ** 0.5
            assert weight.abs().max().item() == pytest.approx(bound, rel=1e-3)
            assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
        if init in ("torch", "k_diffusion"):
            assert bias.abs().max().item() == pytest.approx(fan_in**-0.5, rel=0.05)
        else:
            assert not bias.any()


def test_presets_differ_from_each_other_and_follow_the_seed():
    outputs = [TimestepEmbedding.from_preset(name, 64, seed=0)(torch.ones(1)) for name in NAMES]
    different = {tuple(row[0].tolist()) for row in outputs}
    assert len(different) == 5  # ddpm, edm and score_sde have one network and are fed other times
    for name in NAMES:
        again = TimestepEmbedding.from_preset(name, 64, seed=0)
        assert any(torch.equal(again(torch.ones(1)), row) for row in outputs)
        other = TimestepEmbedding.from_preset(name, 64, seed=1)
        assert not torch.equal(again(torch.ones(1)), other(torch.ones(1)))


def test_an_unseeded_orthogonal_init_follows_the_global_generator():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        one = TimestepEmbedding.from_preset("k_diffusion", 8)
        two = TimestepEmbedding.from_preset("k_diffusion", 8)
        torch.manual_seed(0)
        again = TimestepEmbedding.from_preset("k_diffusion", 8)
    assert torch.equal(one(1.0), again(1.0))
    assert not torch.equal(one(1.0), two(1.0))
    assert_close(one.mlp[2].weight @ one.mlp[2].weight.T, torch.eye(8), rtol=0, atol=1e-5)


def test_a_projection_under_the_network_is_redrawn_with_it():
    with torch.device("meta"):
        module = TimestepEmbedding.from_preset("k_diffusion", 16, seed=3)
    module = module.to_empty(device="cpu")
    module.reset_parameters()
    assert torch.equal(module(0.3), TimestepEmbedding.from_preset("k_diffusion", 16, seed=3)(0.3))


@pytest.mark.parametrize("name", ["dit", "k_diffusion"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_output_in_the_dtype_of_the_weights_whatever_the_time_is(name, dtype):
    module = TimestepEmbedding.from_preset(name, 64, seed=0).to(dtype)
    truth = TimestepEmbedding.from_preset(name, 64, seed=0).double()(torch.tensor([3.0]))
    for kind in (torch.int64, torch.float32, torch.float64, torch.bfloat16):
        output = module(torch.tensor([3.0]).to(kind))
        assert output.dtype == dtype
        assert_close(output.double(), truth, rtol=0, atol=16 * max(torch.finfo(dtype).eps, 1e-7))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"out_features": 0}, ValueError, "out_features must be at least 1, got 0"),
        ({"hidden_features": 0}, ValueError, "hidden_features must be at least 1, got 0"),
        (
            {"init": "xavier"},
            ValueError,
            "init must be one of torch, dit, score_sde, k_diffusion, got 'xavier'",
        ),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
        (
            {"features": torch.nn.Identity()},
            TypeError,
            "features must be TimestepFeatures or a GaussianFourierProjection, got Identity",
        ),
    ],
)
def test_bad_arguments_of_the_embedding(arguments, error, text):
    with pytest.raises(error, match=text):
        TimestepEmbedding(**{"features": TimestepFeatures(8), "out_features": 4, **arguments})


def test_widths_that_a_preset_cannot_have():
    with pytest.raises(ValueError, match="out_features must be a multiple of 4 for 'ddpm', got 30"):
        TimestepEmbedding.from_preset("ddpm", 30)
