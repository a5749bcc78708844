from __future__ import annotations

import math
from fractions import Fraction

import pytest
import reference
import torch
import torchembed.fourier
from contracts.case import SCHEMA
from torch.testing import assert_close

from tabembed.nn import LearnedFourierFeatures, PerColumn


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("leading", [(7,), (2, 3)])
def test_equals_torchembed_with_its_weights(leading):
    theirs = torchembed.fourier.LearnedFourierFeatures(3, 11, 5)
    ours = LearnedFourierFeatures.from_preset("torchembed", 3, 5, n_frequencies=11)
    state = theirs.state_dict()
    weights = {"weight": state["proj.weight"], "bias": state["proj.bias"]}
    ours.load_state_dict({"frequencies": state["freq"] / (2 * math.pi), **weights}, strict=True)
    x = drawn(*leading, 3)
    assert_close(ours(x), theirs(x), rtol=1e-5, atol=2e-6)
    ours(x).sin().sum().backward()
    theirs(x).sin().sum().backward()
    assert_close(ours.frequencies.grad, theirs.freq.grad * (2 * math.pi), rtol=1e-4, atol=1e-5)
    assert_close(ours.weight.grad, theirs.proj.weight.grad, rtol=1e-4, atol=1e-5)


def test_equals_algorithm_1_of_li_et_al():
    wide, hidden, out = 22, 32, 5  # |F|, |H|, D
    w_r, w1, b1, w2, b2 = (
        drawn(wide // 2, 3),
        drawn(wide, hidden),
        drawn(hidden),
        drawn(hidden, out),
        drawn(out),
    )
    x = drawn(7, 3, seed=1)
    phase = x @ w_r.T
    r = torch.cat([phase.cos(), phase.sin()], -1) / math.sqrt(wide)
    expected = torch.nn.functional.gelu(r @ w1 + b1) @ w2 + b2
    ours = LearnedFourierFeatures.from_preset("li2021", 3, out, n_frequencies=wide // 2)
    first = {"frequencies": w_r.T / (2 * math.pi), "weight_hidden": w1.T / math.sqrt(wide), "bias_hidden": b1}
    ours.load_state_dict({**first, "weight": w2.T, "bias": b2}, strict=True)
    assert_close(ours(x), expected, rtol=1e-5, atol=1e-4)


def test_presets_count_radians():
    for name in ("torchembed", "li2021"):
        module = LearnedFourierFeatures.from_preset(name, 100, 4, n_frequencies=200, seed=0)
        assert module.frequencies.std().item() == pytest.approx(1 / (2 * math.pi), rel=0.02)
        finer = LearnedFourierFeatures.from_preset(name, 100, 4, n_frequencies=200, scale=1.0, seed=0)
        assert finer.frequencies.std().item() == pytest.approx(1, rel=0.02)
    with pytest.raises(ValueError, match="name must be one of torchembed, li2021, got 'li'"):
        LearnedFourierFeatures.from_preset("li", 1, 1)


@pytest.mark.parametrize("kind", [torch.int64, torch.float64])
def test_phases_keep_their_digits(kind):
    module = LearnedFourierFeatures(2, 3, n_frequencies=5, scale=1.0, seed=0)
    x = drawn(40, 2).double().mul(1e6).to(kind)
    angles = [
        [
            reference.turns(sum(Fraction(a) * Fraction(f[k]) for a, f in zip(row, table, strict=True)))
            for k in range(5)
        ]
        for row in x.tolist()
        for table in [module.frequencies.tolist()]
    ]
    expected = torch.tensor([reference.waves(row, "cos_sin") for row in angles], dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(module.waves(x).double(), expected, rtol=0, atol=1e-6)
    assert_close(module.waves(x).double(), expected, rtol=0, atol=1e-6)
    half = module.bfloat16()
    assert half.frequencies.dtype == torch.float32
    assert half(x).dtype == torch.bfloat16
    assert_close(half.waves(x).double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("hidden", [None, 64])
def test_first_outputs_vary_by_about_one(hidden):
    module = LearnedFourierFeatures(4, 4000, n_frequencies=200, hidden_features=hidden, seed=0)
    out = module(drawn(50, 4))
    assert 0.4 < out.std().item() < 1.1
    assert not module.bias.any()
    if hidden is None:
        assert out.std().item() == pytest.approx(1, rel=0.05)
    else:
        assert not module.bias_hidden.any()


def test_the_seed_draws_every_part_apart():
    module = LearnedFourierFeatures(30, 30, n_frequencies=15, hidden_features=30, scale=15**-0.5, seed=0)
    parts = (module.frequencies, module.weight_hidden, module.weight)
    assert len({part.detach().flatten()[0].item() for part in parts}) == 3
    assert module.frequencies.std().item() == pytest.approx(15**-0.5, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"in_features": 0}, ValueError, "in_features must be at least 1, got 0"),
        ({"out_features": 0}, ValueError, "out_features must be at least 1, got 0"),
        ({"n_frequencies": 0}, ValueError, "n_frequencies must be at least 1, got 0"),
        ({"hidden_features": 0}, ValueError, "hidden_features must be at least 1, got 0"),
        ({"scale": 1e39}, ValueError, "scale must be from 1e-30 to 1e\\+30, got 1e\\+39"),
        ({"scale": 0.0}, ValueError, "scale must be finite and positive, got 0.0"),
        ({"scale": -1}, ValueError, "scale must be finite and positive, got -1"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        LearnedFourierFeatures(**{"in_features": 2, "out_features": 3, **arguments})


def test_bad_tensors():
    with pytest.raises(ValueError, match=r"x must have 2 as its last dimension, got shape \(4, 1\)"):
        LearnedFourierFeatures(2, 3)(torch.zeros(4, 1))


def test_from_columns():
    module = LearnedFourierFeatures.from_columns(SCHEMA.continuous, 6, n_frequencies=400, seed=3)
    assert isinstance(module, PerColumn)
    one, two = module.columns
    assert not torch.equal(one.frequencies, two.frequencies)
    assert one.frequencies.std().item() == pytest.approx(0.16, rel=0.1)
    x = torch.tensor([[0.5, -1.0]])
    assert_close(module(x)[0, 1], two(torch.tensor([-1.0])))
    again = LearnedFourierFeatures.from_columns(SCHEMA.continuous, 6, n_frequencies=400, seed=3)
    assert_close(again(x), module(x), rtol=0, atol=0)
    radians = 10 / (2 * math.pi)
    finer = LearnedFourierFeatures.from_columns(
        SCHEMA.continuous, 6, n_frequencies=400, scale=radians, seed=3
    )
    assert_close(finer.columns[0].frequencies, one.frequencies * 10)
