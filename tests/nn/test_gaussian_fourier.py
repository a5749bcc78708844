from __future__ import annotations

import math
from fractions import Fraction

import diffusers.models.embeddings as theirs
import numpy as np
import pytest
import reference
import torch
import torchembed.fourier
from contracts.case import SCHEMA
from diffusers.models.transformers.stable_audio_transformer import StableAudioGaussianFourierProjection
from torch.testing import assert_close

from tabembed.nn import GaussianFourierProjection, PerColumn


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def with_frequencies(module, frequencies):
    module.load_state_dict({"frequencies": frequencies}, strict=True)
    return module


def score_sde(x, weight):
    """The formula of score_sde's layerspp."""
    x_proj = x[:, None] * weight[None, :] * 2 * np.pi
    return torch.cat([torch.sin(x_proj), torch.cos(x_proj)], dim=-1)


def edm(x, frequencies):
    """EDM's FourierEmbedding, and the swap of halves in its network."""
    x = x.ger((2 * np.pi * frequencies).to(x.dtype))
    emb = torch.cat([x.cos(), x.sin()], dim=1)
    return emb.reshape(emb.shape[0], 2, -1).flip(1).reshape(*emb.shape)


def k_diffusion(x, weight):
    """k-diffusion's FourierFeatures of one feature."""
    f = 2 * math.pi * x[:, None] @ weight[:, None].T
    return torch.cat([f.cos(), f.sin()], dim=-1)


TIMES = torch.cat([torch.rand(517, generator=torch.Generator().manual_seed(1)), torch.tensor([1.0, 1e-5])])


@pytest.mark.parametrize("width", [2, 38, 256])
@pytest.mark.parametrize("reach", [1.0, 80.0])
def test_score_sde_and_torchembed_bit_by_bit(width, reach):
    weight = 16 * drawn(width // 2)
    for name in ("score_sde", "torchembed"):
        ours = with_frequencies(GaussianFourierProjection.from_preset(name, width), weight)
        for t in (reach * TIMES, reach * TIMES.log()):
            assert torch.equal(ours(t), score_sde(t, weight))
    peer = torchembed.fourier.GaussianFourierProjection(width)
    peer.load_state_dict({"W": weight})
    assert torch.equal(ours(TIMES), peer(TIMES))


@pytest.mark.parametrize("width", [2, 38, 256])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("flip", [False, True])
def test_diffusers_bit_by_bit(width, log, flip):
    peer = theirs.GaussianFourierProjection(width // 2, scale=16.0, log=log, flip_sin_to_cos=flip)
    order = "cos_sin" if flip else "sin_cos"
    ours = GaussianFourierProjection(width, log=log, order=order)
    with_frequencies(ours, peer.weight.detach())
    for t in (TIMES, 80 * TIMES):
        assert torch.equal(ours(t), peer(t))
    if log and not flip:
        preset = GaussianFourierProjection.from_preset("diffusers", width)
        assert torch.equal(with_frequencies(preset, peer.weight.detach())(TIMES), peer(TIMES))


def test_other_presets_follow_their_peers():
    weight = drawn(19)
    noise = (80 * TIMES).log() / 4
    ours = with_frequencies(GaussianFourierProjection.from_preset("k_diffusion", 38), weight)
    assert_close(ours(noise), k_diffusion(noise, weight), rtol=0, atol=1e-5)
    peer = StableAudioGaussianFourierProjection(19, log=False, flip_sin_to_cos=True)
    ours = with_frequencies(GaussianFourierProjection.from_preset("stable_audio", 38), peer.weight.detach())
    assert_close(ours(TIMES), peer(TIMES), rtol=0, atol=1e-5)
    ours = with_frequencies(GaussianFourierProjection.from_preset("edm", 38), 16 * weight)
    assert_close(ours(noise), edm(noise, 16 * weight), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "scale"),
    [("score_sde", 16), ("diffusers", 16), ("stable_audio", 1), ("edm", 16), ("k_diffusion", 1)],
)
def test_presets_draw_at_their_models_scale(name, scale):
    wide = GaussianFourierProjection.from_preset(name, 40_000, seed=0).frequencies
    assert wide.std().item() == pytest.approx(scale, rel=0.03)
    assert wide.mean().item() == pytest.approx(0, abs=0.03 * scale)
    narrow = GaussianFourierProjection.from_preset(name, 40_000, scale=0.5, seed=0).frequencies
    assert_close(narrow, wide * (0.5 / scale))
    assert GaussianFourierProjection.from_preset(name, 4, learnable=True).frequencies.requires_grad


def test_unknown_preset():
    with pytest.raises(ValueError, match="name must be one of score_sde, diffusers, .*, got 'sde'"):
        GaussianFourierProjection.from_preset("sde", 4)


def exact(t, module):
    """Sines and cosines of fractions, correct to float64's last digits."""
    rows = [reference.gaussian_projection(Fraction(x), module.frequencies.tolist(), "sin_cos") for x in t]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("kind", [torch.int64, torch.float64])
def test_phases_are_exact_up_to_two_billion(kind):
    module = GaussianFourierProjection(38, seed=0)
    generator = torch.Generator().manual_seed(2)
    t = torch.rand(300, generator=generator, dtype=torch.float64).mul(4e9).sub(2e9)
    t = torch.cat([t, torch.tensor([2e9, -2e9, 1.7e9 + 1, 0.0], dtype=torch.float64)]).to(kind)
    assert_close(module(t).double(), exact(t.tolist(), module), rtol=0, atol=1e-6)
    assert module(t).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(module(t), module(t.clone()))
        assert_close(module(t).double(), exact(t.tolist(), module), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_rounds_the_output_alone(dtype):
    module = GaussianFourierProjection(38, seed=0).to(dtype)
    assert module.frequencies.dtype == torch.float32
    for t in (TIMES, TIMES.double(), torch.arange(1000), torch.arange(1_700_000_000, 1_700_000_300)):
        with torch.autocast("cpu", torch.bfloat16):
            inside = module(t)
        assert torch.equal(inside, module(t))
        assert module(t).dtype == dtype
        assert_close(module(t).double(), exact(t.tolist(), module), rtol=0, atol=4e-3)


def test_float32_phases_lose_what_is_documented():
    module = GaussianFourierProjection(38, seed=0)
    for reach in (1.0, 100.0):
        error = (module(reach * TIMES).double() - exact((reach * TIMES).tolist(), module)).abs().max().item()
        assert error < 2e-6 * 16 * reach


def test_numbers_and_columns():
    module = GaussianFourierProjection(6, seed=0)
    expected = module(torch.tensor([3.0]))
    assert expected.shape == (1, 6)
    for t in (3, 3.0, torch.tensor(3), torch.tensor(3.0), np.float32(3), np.int64(3)):
        assert_close(module(t), expected[0], rtol=0, atol=1e-4)
    assert torch.equal(module(torch.tensor([[3.0], [4.0]])), module(torch.tensor([3.0, 4.0])))


def test_a_width_that_fits_is_never_broadcast():
    module = GaussianFourierProjection(6, seed=0)
    t = drawn(5, 3)
    assert module(t).shape == (5, 3, 6)
    assert torch.equal(module(t)[2, 1], module(t[2, 1]))
    assert module(t.unsqueeze(-1)).shape == (5, 3, 1, 6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_numbers_are_computed_in_float32(dtype):
    x = torch.tensor([0.3, -257.0, 937.0, 30_000.0]).to(dtype)
    module = GaussianFourierProjection(6, scale=0.01, seed=0)
    assert torch.equal(module(x), module(x.float()))
    columns = GaussianFourierProjection.from_columns(SCHEMA.continuous, 6, seed=0)
    assert torch.equal(columns(x.view(2, 2)), columns(x.float().view(2, 2)))


def test_logarithm_and_its_floor():
    plain, log = (GaussianFourierProjection(6, seed=0, log=flag) for flag in (False, True))
    floored = GaussianFourierProjection(6, seed=0, log=True, epsilon=1e-3)
    t = torch.tensor([0.002, 1.0, 80.0])
    assert torch.equal(log(t), plain(t.log()))
    assert torch.equal(floored(t), log(t))
    assert torch.equal(floored(torch.tensor([0.0, -1.0, 1e-3])), log(torch.tensor([1e-3] * 3)))
    assert_close(log(torch.tensor([3])), plain(torch.tensor([3.0]).double().log()))
    for bad in (0.0, -2.0):
        with pytest.raises(
            ValueError, match=f"t must be above 0 when log=True and epsilon=None, got {bad:g}"
        ):
            log(torch.tensor([1.0, bad]))
    assert log(torch.zeros(0)).shape == (0, 6)


def test_first_frequencies_and_their_home():
    module = GaussianFourierProjection(40_000, scale=3.0, seed=0)
    assert module.frequencies.std().item() == pytest.approx(3.0, rel=0.02)
    assert list(module.state_dict()) == ["frequencies"]
    assert not list(module.parameters())
    learnable = GaussianFourierProjection(40_000, scale=3.0, learnable=True, seed=0)
    assert [name for name, _ in learnable.named_parameters()] == ["frequencies"]
    assert_close(learnable.frequencies.detach(), module.frequencies, rtol=0, atol=0)


def test_gradients_reach_time_and_frequencies():
    module = GaussianFourierProjection(6, learnable=True, seed=0).double()
    t = drawn(4).double().requires_grad_()
    assert torch.autograd.gradcheck(module, (t,))
    module(t).square()[:, :3].sum().backward()
    assert module.frequencies.grad.abs().min() > 0


def test_order_swaps_the_halves():
    one, two = (GaussianFourierProjection(6, order=o, seed=0)(TIMES) for o in ("sin_cos", "cos_sin"))
    assert torch.equal(one.roll(3, -1), two)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"embed_dim": 7}, ValueError, "embed_dim must be even, got 7"),
        ({"embed_dim": 0}, ValueError, "embed_dim must be at least 2, got 0"),
        ({"embed_dim": 2.0}, TypeError, "embed_dim must be an integer, got 2.0"),
        ({"scale": 1e39}, ValueError, "scale must be from 1e-30 to 1e\\+30, got 1e\\+39"),
        ({"log": "yes"}, TypeError, "log must be True or False, got 'yes'"),
        ({"learnable": None}, TypeError, "learnable must be True or False, got None"),
        (
            {"log": True, "epsilon": 1e-320},
            ValueError,
            "epsilon must be from 1e-30 to 1e\\+30, got 1e-320",
        ),
        ({"scale": 0}, ValueError, "scale must be finite and positive, got 0"),
        ({"scale": -1.0}, ValueError, "scale must be finite and positive, got -1.0"),
        ({"scale": math.nan}, ValueError, "scale must be finite and positive, got nan"),
        ({"epsilon": 0.1}, ValueError, "epsilon must be None when log=False, got 0.1"),
        ({"epsilon": 0, "log": True}, ValueError, "epsilon must be finite and positive, got 0"),
        ({"order": "sin"}, ValueError, "order must be one of sin_cos, cos_sin, got 'sin'"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        GaussianFourierProjection(**{"embed_dim": 8, **arguments})


def test_from_columns():
    module = GaussianFourierProjection.from_columns(SCHEMA.continuous, 400, seed=3)
    assert isinstance(module, PerColumn)
    one, two = (m.frequencies for m in module.columns)
    assert not torch.equal(one, two)
    assert torch.cat([one, two]).std().item() == pytest.approx(1 / (2 * math.pi), rel=0.15)
    x = torch.tensor([[0.5, -1.0]])
    assert_close(module(x)[0, 1], module.columns[1](-1.0))
    again = GaussianFourierProjection.from_columns(SCHEMA.continuous, 400, seed=3)
    assert_close(again(x), module(x), rtol=0, atol=0)
    radians = 10 / (2 * math.pi)
    finer = GaussianFourierProjection.from_columns(
        SCHEMA.continuous, 400, scale=radians, learnable=True, seed=3
    )
    assert_close(finer.columns[0].frequencies.detach(), one * 10)
    assert len(list(finer.parameters())) == 3


def test_rebuilt_on_the_meta_device_it_can_be_moved():
    state = GaussianFourierProjection(6, seed=0).state_dict()
    with torch.device("meta"):
        module = GaussianFourierProjection(6)
    module.load_state_dict(state, strict=True, assign=True)
    assert module.to("cpu").half()(TIMES).dtype == torch.float16
