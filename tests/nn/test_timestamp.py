from __future__ import annotations

import math

import pytest
import reference
import torch
import torchembed
from torch.testing import assert_close

from tabembed.nn import TimestampEmbedding
from tabembed.schema import MISSING_TIME, DatetimeColumn

SECOND = 10**9
NOW = 1_700_000_000


def loop(module, t):
    mlp, waves = module.network.mlp, module.network.features
    layers = [(layer.weight.tolist(), layer.bias.tolist()) for layer in (mlp[0], mlp[2])]
    place = (t - module.origin) / module.span
    return reference.timestamp(place, waves.frequencies.tolist(), layers)


def test_equals_torchembed():
    theirs = torchembed.TimestampEmbedding(6, num_frequencies=5)
    ours = TimestampEmbedding(6, n_frequencies=5)
    state = {f"network.{k}": v for k, v in theirs.state_dict().items() if k != "W"}
    state["network.features.frequencies"] = theirs.W
    ours.load_state_dict(state, strict=True)
    t = torch.rand(9, generator=torch.Generator().manual_seed(0))
    assert_close(ours(t), theirs(t), rtol=0, atol=2e-5)
    assert_close(ours(t.view(3, 3)), theirs(t).view(3, 3, 6), rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", [(), (1,), (4, 1), (2, 7), (0,)])
def test_shapes(shape):
    t = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    assert TimestampEmbedding(5)(t).shape == (*shape, 5)


@pytest.mark.parametrize(("unit", "dtype"), [(1, torch.int64), (SECOND, torch.int64), (1, torch.float64)])
def test_a_day_of_unix_time_is_placed_exactly(unit, dtype):
    module = TimestampEmbedding(7, n_frequencies=9, origin=NOW * unit, span=86_400 * unit, seed=0)
    t = (NOW + torch.tensor([0, 1, 60, 43_200, 86_400])) * unit
    expected = torch.tensor([loop(module, one) for one in t.tolist()])
    assert_close(module(t.to(dtype)), expected, rtol=0, atol=1e-6)
    assert len({tuple(row) for row in module(t.to(dtype)).tolist()}) == 5


def test_neighbouring_nanoseconds_stay_apart():
    module = TimestampEmbedding(3, origin=NOW * SECOND, span=1000)
    t = NOW * SECOND + torch.arange(1001)
    assert_close(module.position(t), torch.arange(1001).double() / 1000, rtol=0, atol=0)


def test_a_float_origin_and_floats():
    module = TimestampEmbedding(3, origin=0.5, span=2.0)
    assert module.position(torch.tensor([1, -1])).tolist() == [0.25, -0.75]
    assert module.position(torch.tensor([1.5, math.nan]))[0] == 0.5
    assert TimestampEmbedding(3, origin=2).position(torch.tensor([1.5])).item() == -0.5


def test_phases_are_right_far_away():
    module = TimestampEmbedding(4, scale=16.0, seed=0)
    t = torch.randint(0, 2_000_000_000, (500,), generator=torch.Generator().manual_seed(0))
    frequencies = module.network.features.frequencies.tolist()
    exact = [reference.gaussian_projection(one, frequencies, "sin_cos") for one in t.tolist()]
    seen = []
    module.network.mlp[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    for form in (t, t.double()):
        module(form)
        assert (seen.pop().double() - torch.tensor(exact, dtype=torch.float64)).abs().max() <= 1e-6


def test_half_precision_keeps_frequencies_and_phases():
    module = TimestampEmbedding(4, seed=0).bfloat16()
    frequencies = module.network.features.frequencies
    assert frequencies.dtype == torch.float32
    assert torch.equal(frequencies, TimestampEmbedding(4, seed=0).network.features.frequencies)
    assert module(torch.tensor([0.1])).dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert TimestampEmbedding(4)(torch.tensor([0.1])).dtype == torch.float32


def test_first_weights():
    module = TimestampEmbedding(50, n_frequencies=5000, scale=3.0, seed=0)
    assert module.network.features.frequencies.std().item() == pytest.approx(3.0, rel=0.03)
    for layer, inputs in ((module.network.mlp[0], 10_000), (module.network.mlp[2], 50)):
        assert layer.weight.abs().max().item() == pytest.approx((6 / (inputs + 50)) ** 0.5, rel=0.01)
        assert not layer.bias.any()


def test_gradient_with_respect_to_times():
    t = torch.tensor([0.3, -2.0], dtype=torch.float64, requires_grad=True)
    module = TimestampEmbedding(3, n_frequencies=4, scale=1.0, seed=0).double()
    assert torch.autograd.gradcheck(module, t)
    assert torch.autograd.gradgradcheck(module, t)


def test_columns_are_placed_in_their_own_fit():
    a, b = (
        DatetimeColumn("t", 9, 0, low, high, None) for low, high in ((0, 10), (NOW * SECOND, NOW * SECOND))
    )
    module = TimestampEmbedding.from_columns([a, b], 3, n_frequencies=6, scale=2.0, seed=5)
    times = torch.tensor([[5, NOW * SECOND], [MISSING_TIME, NOW * SECOND + 1], [10, MISSING_TIME]])
    first, second = module.per_column.columns
    assert (first.origin, first.span, second.origin, second.span) == (0, 10, NOW * SECOND, 1)
    ours, theirs = (part.network.features for part in (first, second))
    assert (ours.scale, len(ours.frequencies), module.d_embedding) == (2.0, 6, 3)
    assert not torch.equal(ours.frequencies, theirs.frequencies)
    out, missing = module(times), module.per_column.missing
    expected = [[loop(first, 5), loop(second, NOW * SECOND)], [missing[0], loop(second, NOW * SECOND + 1)]]
    for i, row in enumerate(expected):
        for j, vector in enumerate(row):
            assert_close(out[i, j], torch.as_tensor(vector), rtol=0, atol=1e-6)
    assert_close(out[2, 1], missing[1], rtol=0, atol=0)
    out.sum().backward()
    assert missing.grad.tolist() == [[1.0] * 3, [1.0] * 3]
    again = TimestampEmbedding.from_columns([a, b], 3, n_frequencies=6, scale=2.0, seed=5)
    assert torch.equal(again(times), out)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"embed_dim": 0}, ValueError, "embed_dim must be at least 1, got 0"),
        ({"n_frequencies": 0}, ValueError, "n_frequencies must be at least 1, got 0"),
        ({"span": 1e-320}, ValueError, "span must be from 1e-30 to 1e\\+30, got 1e-320"),
        ({"scale": 0.0}, ValueError, "scale must be finite and positive, got 0.0"),
        ({"scale": -1.0}, ValueError, "scale must be finite and positive, got -1.0"),
        ({"span": 0}, ValueError, "span must be finite and positive, got 0"),
        ({"span": math.inf}, ValueError, "span must be finite and positive, got inf"),
        ({"origin": "2024"}, TypeError, "origin must be a number, got '2024'"),
        ({"origin": math.nan}, ValueError, "origin must be finite, got nan"),
        ({"origin": 2**63}, ValueError, "origin must fit into int64, got 9223372036854775808"),
        ({"seed": -3}, ValueError, "seed must be at least 0, got -3"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        TimestampEmbedding(**{"embed_dim": 2, **arguments})


def test_bad_times():
    with pytest.raises(TypeError, match="t must be floats or integers, got torch.bool"):
        TimestampEmbedding(2)(torch.zeros(3, dtype=torch.bool))
    module = TimestampEmbedding.from_columns([DatetimeColumn("t", 9, 0, 0, 1, None)])
    assert module.d_embedding == 8
    with pytest.raises(TypeError, match="times must be integers, got torch.float64"):
        module(torch.zeros(3, 1, dtype=torch.float64))
