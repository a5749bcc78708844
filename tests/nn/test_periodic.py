from __future__ import annotations

import math

import pytest
import rtdl_num_embeddings
import torch
from torch.testing import assert_close

from tabembed.nn import PeriodicEmbedding
from tabembed.schema import ContinuousColumn

COLUMN = ContinuousColumn("x", 1, 0, 0.0, 1.0, 0.0, 1.0, 0.5, 0.5, (0.0, 1.0), (0.0, 1.0), (1, 0))
THEIRS = {
    "plr": {"lite": False},
    "pl": {"lite": False, "activation": False},
    "plr-lite": {"lite": True},
}


def pair(variant, n_features=3, d=5, k=7, scale=0.4):
    """The peer and ours, with one set of weights."""
    own = {"n_frequencies": k, "frequency_init_scale": scale}
    theirs = rtdl_num_embeddings.PeriodicEmbeddings(n_features, d, **own, **THEIRS[variant])
    ours = PeriodicEmbedding(n_features, d, variant=variant, n_frequencies=k)
    weight = theirs.linear.weight.T if variant == "plr-lite" else theirs.linear.weight
    state = {"frequencies": theirs.periodic.weight, "weight": weight, "bias": theirs.linear.bias}
    ours.load_state_dict({**state, "missing": torch.full((n_features, d), 9.0)})
    return theirs, ours


@pytest.mark.parametrize("variant", THEIRS)
def test_equals_rtdl(variant):
    torch.manual_seed(0)
    theirs, ours = pair(variant)
    x = torch.randn(33, 3)
    x, y = x.clone().requires_grad_(), x.clone().requires_grad_()
    assert_close(ours(x), theirs(y), rtol=1e-6, atol=1e-6)
    ours(x).sin().mean().backward()
    theirs(y).sin().mean().backward()
    lite = variant == "plr-lite"
    pairs = [
        (ours.frequencies.grad, theirs.periodic.weight.grad),
        (ours.weight.grad, theirs.linear.weight.grad.T if lite else theirs.linear.weight.grad),
        (ours.bias.grad, theirs.linear.bias.grad),
        (x.grad, y.grad),
    ]
    for own, other in pairs:
        assert other.abs().max() > 1e-3
        assert_close(own, other, rtol=1e-6, atol=1e-6)


def test_pbld_is_the_number_and_a_bank_of_cosines():
    module = PeriodicEmbedding(2, variant="pbld", seed=0)
    x = torch.tensor([[0.3, -2.0]])
    angle = 2 * math.pi * module.frequencies * x[0, :, None] + module.phases
    rest = (angle.cos().unsqueeze(-1) * module.weight).sum(1) + module.bias
    assert_close(module(x)[0], torch.cat((x[0, :, None], rest), 1), rtol=0, atol=1e-6)
    assert (module.weight.shape, module.d_embedding) == ((2, 16, 3), 4)


@pytest.mark.parametrize(
    ("variant", "scale"), [("plr", 0.01), ("pl", 0.01), ("plr-lite", 0.01), ("pbld", 0.1)]
)
@pytest.mark.parametrize("seed", [0, None])
def test_first_weights(variant, scale, seed):
    torch.manual_seed(0)
    module = PeriodicEmbedding(300, variant=variant, n_frequencies=50, seed=seed)
    c = module.frequencies / scale
    expected = 1.0 if variant == "pbld" else 0.98658  # standard deviation of a normal cut at 3
    assert c.std().item() == pytest.approx(expected, abs=0.01)
    assert c.mean().item() == pytest.approx(0, abs=0.03)
    assert (c.abs().max() > 3) == (variant == "pbld")
    assert c.abs().max() > 2.9
    bound = module.weight.shape[-2] ** -0.5
    for weight in (module.weight, module.bias):
        assert weight.abs().max() <= bound
        assert weight.abs().max() > 0.9 * bound
    assert module.missing.abs().max().item() == pytest.approx(module.d_embedding**-0.5, rel=1e-2)
    if variant == "pbld":
        assert module.phases.abs().max().item() == pytest.approx(math.pi, rel=1e-2)
        assert module.phases.mean().item() == pytest.approx(0, abs=0.05)


def test_the_peer_draws_the_same_law():
    torch.manual_seed(1)
    theirs = rtdl_num_embeddings.PeriodicEmbeddings(100, 4, n_frequencies=100, lite=False).periodic.weight
    ours = PeriodicEmbedding(100, 4, n_frequencies=100, seed=0).frequencies
    levels = torch.linspace(0, 1, 21)
    assert_close(ours.flatten().quantile(levels), theirs.flatten().quantile(levels), rtol=0.05, atol=1e-3)


def test_half_precision_leaves_the_frequencies():
    module = PeriodicEmbedding(2, variant="pbld", frequency_scale=3.0, seed=0)
    before = module.frequencies.clone()
    narrow = module.half()
    assert (narrow.frequencies.dtype, narrow.phases.dtype) == (torch.float32, torch.float32)
    assert_close(narrow.frequencies, before, rtol=0, atol=0)
    assert (narrow.weight.dtype, narrow(torch.tensor([[50.0, 1.0]])).dtype) == (torch.float16, torch.float16)


@pytest.mark.parametrize("variant", ["plr", "plr-lite", "pbld"])
@pytest.mark.parametrize("under", [0.0, math.nan, math.inf])
def test_missing_gives_the_learned_row_and_nothing_leaks(variant, under):
    module = PeriodicEmbedding(2, variant=variant, seed=0)
    values = torch.tensor([[under, 1.0], [2.0, under], [under, under]], requires_grad=True)
    missing = torch.tensor([[True, False], [False, True], [True, True]])
    output = module(values, missing)
    assert_close(output[missing], module.missing[[0, 1, 0, 1]], rtol=0, atol=0)
    output.sum().backward()
    for parameter in module.parameters():
        assert parameter.grad.isfinite().all()
    assert_close(module.missing.grad, torch.full_like(module.missing, 2.0))
    assert_close(values.grad[missing], torch.zeros(4))


def test_nan_without_the_flag_stays_visible():
    assert PeriodicEmbedding(1, variant="pl")(torch.tensor([[math.nan]])).isnan().all()


def test_from_columns_passes_everything_on():
    own = {"variant": "pl", "n_frequencies": 6, "frequency_scale": 0.2, "seed": 2}
    module = PeriodicEmbedding.from_columns([COLUMN] * 3, 5, **own)
    assert_close(dict(module.state_dict()), dict(PeriodicEmbedding(3, 5, **own).state_dict()), rtol=0, atol=0)
    assert (module.n_features, module.d_embedding, module.variant) == (3, 5, "pl")
    assert PeriodicEmbedding.from_columns([COLUMN], variant="pbld").d_embedding == 4


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n_features": 0}, ValueError, "n_features must be at least 1, got 0"),
        ({"d_embedding": 0}, ValueError, "d_embedding must be at least 1, got 0"),
        ({"d_embedding": 1, "variant": "pbld"}, ValueError, "d_embedding must be at least 2, got 1"),
        ({"n_frequencies": 0}, ValueError, "n_frequencies must be at least 1, got 0"),
        ({"frequency_scale": 1e39}, ValueError, "frequency_scale must be from 1e-30 to 1e\\+30, got 1e\\+39"),
        ({"frequency_scale": 0}, ValueError, "frequency_scale must be finite and positive, got 0"),
        ({"frequency_scale": math.nan}, ValueError, "frequency_scale must be finite and positive, got nan"),
        ({"frequency_scale": "1"}, TypeError, "frequency_scale must be a number, got '1'"),
        (
            {"variant": "lite"},
            ValueError,
            r"variant must be one of plr, pl, plr-lite, pbld, got 'lite'",
        ),
        ({"seed": -3}, ValueError, "seed must be at least 0, got -3"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        PeriodicEmbedding(**{"n_features": 2, **arguments})


def test_bad_tensors():
    with pytest.raises(ValueError, match=r"values must have 2 as its last dimension, got shape \(4, 1\)"):
        PeriodicEmbedding(2)(torch.zeros(4, 1))
    with pytest.raises(TypeError, match="missing must be bool, got torch.int64"):
        PeriodicEmbedding(2)(torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.int64))
