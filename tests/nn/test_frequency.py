from __future__ import annotations

import math

import pytest
import reference
import torch
import torchembed
from torch.testing import assert_close

from tabembed.nn import FrequencyEmbedding


def test_equals_torchembed():
    theirs = torchembed.FrequencyEmbedding(5)
    ours = FrequencyEmbedding(5)
    with torch.no_grad():
        theirs.amp.normal_()
        theirs.bias.normal_()
    names = {"frequency": "freq", "phase": "phase", "amplitude": "amp", "bias": "bias"}
    ours.load_state_dict({name: theirs.state_dict()[old] for name, old in names.items()}, strict=True)
    t = torch.randn(2, 9, generator=torch.Generator().manual_seed(0))
    assert_close(ours(t), theirs(t), rtol=0, atol=1e-6)
    ours(t).sin().sum().backward()
    theirs(t).sin().sum().backward()
    for name, old in names.items():
        assert_close(getattr(ours, name).grad, getattr(theirs, old).grad, rtol=1e-5, atol=1e-5)


def test_time2vec_learns_no_amplitude_of_a_wave():
    module = FrequencyEmbedding(3, amplitudes=False, seed=0)
    with torch.no_grad():
        module.amplitude.fill_(2.0)
        module.bias.fill_(-1.0)
    t = torch.tensor([0.5, -3.0])
    omega, phi = module.frequency.tolist(), module.phase.tolist()
    for time, row in zip(t.tolist(), module(t), strict=True):  # equation 1 as it is printed
        printed = [2.0 * time - 1.0, *(math.sin(w * time + p) for w, p in zip(omega, phi, strict=True))]
        assert_close(row, torch.tensor(printed))
    assert {name: len(p) for name, p in module.named_parameters()} == {
        "frequency": 3,
        "phase": 3,
        "amplitude": 1,
        "bias": 1,
    }


def test_fixed_waves_are_a_fourier_series():
    module = FrequencyEmbedding(4, learnable=False, period=24)
    hours = torch.arange(24 * 10**9, 24 * 10**9 + 24)
    waves = module.double()(hours)[:, 1:]
    assert_close(waves, module(hours - 24 * 10**9)[:, 1:], rtol=0, atol=1e-12)
    gram = waves.T @ waves / 12
    assert_close(gram, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-12)  # sines of whole multiples
    assert "frequency" not in module.state_dict()


@pytest.mark.parametrize("learnable", [True, False])
@pytest.mark.parametrize("form", [torch.int64, torch.float64], ids=str)
def test_phases_are_right_far_away(learnable, form):
    module = FrequencyEmbedding(6, learnable=learnable, period=7 if not learnable else 3.3, seed=1)
    t = torch.randint(-2_000_000_000, 2_000_000_001, (300,), generator=torch.Generator().manual_seed(0))
    f = module.frequency.tolist() if learnable else None
    for time, row in zip(t.tolist(), module(t.to(form))[:, 1:], strict=True):
        if learnable:
            exact = reference.frequency(time, f, module.phase.tolist(), [1.0] * 7, [0.0] * 7)[1:]
        else:  # a float is no seventh of a turn, so whole weeks are taken off first
            turned = [2 * math.pi * (k + 1) * (time % 7) / 7 for k in range(6)]
            exact = [math.sin(a + p) for a, p in zip(turned, module.phase.tolist(), strict=True)]
        assert (row.double() - torch.tensor(exact, dtype=torch.float64)).abs().max() <= 1e-6


def test_period_scales_the_first_frequencies():
    one, ten = (FrequencyEmbedding(4000, period=period, seed=0).frequency for period in (1.0, 10.0))
    assert_close(one, 10 * ten)
    assert one.std().item() == pytest.approx(2 * math.pi, rel=0.03)
    assert FrequencyEmbedding(4000, seed=0).frequency.std().item() == pytest.approx(1.0, rel=0.03)


def test_first_phases_fill_the_circle():
    phase = FrequencyEmbedding(4000, seed=0).phase
    assert phase.abs().max().item() == pytest.approx(math.pi, rel=1e-3)
    assert phase.mean().item() == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("shape", [(), (5,), (4, 1), (2, 7), (0,)])
def test_shapes(shape):
    assert FrequencyEmbedding(3)(torch.zeros(shape)).shape == (*shape, 4)


def test_nan_stays():
    assert FrequencyEmbedding(3)(torch.tensor([math.nan])).isnan().all()


def test_half_precision_keeps_frequencies_and_phases():
    module = FrequencyEmbedding(5, seed=0).half()
    assert module.frequency.dtype == module.phase.dtype == torch.float32
    assert module.amplitude.dtype == torch.float16
    t = torch.tensor([1000.0, 3.0])
    wide = FrequencyEmbedding(5, seed=0)(t)
    assert_close(module(t), wide.half(), rtol=0, atol=0)


def test_gradient_with_respect_to_times():
    t = torch.tensor([0.3, -2.0], dtype=torch.float64, requires_grad=True)
    for learnable in (True, False):
        module = FrequencyEmbedding(3, learnable=learnable, seed=0).double()
        assert torch.autograd.gradcheck(module, t)
        assert torch.autograd.gradgradcheck(module, t)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"embed_dim": 0}, ValueError, "embed_dim must be at least 1, got 0"),
        ({"period": 0}, ValueError, "period must be finite and positive, got 0"),
        ({"period": -2.0}, ValueError, "period must be finite and positive, got -2.0"),
        ({"period": 1e-320}, ValueError, "period must be from 1e-30 to 1e\\+30, got 1e-320"),
        ({"period": 10**400}, ValueError, "period must be finite and positive, got 1000"),
        ({"learnable": 1}, TypeError, "learnable must be True or False, got 1"),
        ({"amplitudes": "no"}, TypeError, "amplitudes must be True or False, got 'no'"),
        ({"period": "day"}, TypeError, "period must be a number, got 'day'"),
        ({"seed": -3}, ValueError, "seed must be at least 0, got -3"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        FrequencyEmbedding(**{"embed_dim": 2, **arguments})


def test_bad_times():
    with pytest.raises(TypeError, match="t must be floats or integers, got torch.complex64"):
        FrequencyEmbedding(2)(torch.zeros(3, dtype=torch.complex64))
