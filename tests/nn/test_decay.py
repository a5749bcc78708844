from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.nn.decay import RelativeDecay
from tabembed.nn.rotary import RotaryEmbedding

DAY = 86_400 * 10**9
NOW = 1_700_000_000 * 10**9


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def some_days(n, *, seed=2):
    return torch.randint(30 * DAY, (n,), generator=torch.Generator().manual_seed(seed)).sort()[0]


def scores(module, q, k, **arguments):
    q, k = module(q, k, **arguments)
    return q @ k.transpose(-1, -2)


def causal(matrix):
    return matrix.tril(matrix.shape[-1] - matrix.shape[-2])


@pytest.mark.parametrize("layout", [None, "half", "interleaved"])
def test_products_fade_with_what_lies_between(layout):
    f = [0.3, 0.01, 0.0]
    rotary = None if layout is None else RotaryEmbedding(6, frequencies=f, layout=layout)
    module = RelativeDecay(6, half_lives=(3.0, 27.0), rotary=rotary)
    q, k, days = drawn(2, 3, 7, 6), drawn(2, 1, 7, 6, seed=1), torch.tensor([0.0, 1.5, 2, 7, 7, 11, 20])
    got = causal(scores(module, q, k, positions=days))
    pairs = reference.pairs(6, layout or "half")
    lives = [0.0] * 6
    for pair, life in zip(pairs, (3.0, 9.0, 27.0), strict=True):
        lives[pair[0]] = lives[pair[1]] = life
    assert_close(module.half_lives, torch.tensor(lives, dtype=torch.float64))
    for i in range(7):
        for j in range(i + 1):
            elapsed = float(days[i] - days[j])
            for b in range(2):
                for h in range(3):
                    row = q[b, h, i].tolist()
                    row = row if layout is None else reference.rotary(row, elapsed, f, layout)
                    expected = reference.decayed_score(row, k[b, 0, j].tolist(), elapsed, lives)
                    assert abs(got[b, h, i, j].item() - expected) <= 2e-5


def test_one_half_life_for_all_and_one_pair():
    assert RelativeDecay(4, half_lives=7).half_lives.tolist() == pytest.approx([7.0] * 4)
    assert RelativeDecay(2, half_lives=(3, 50)).half_lives.tolist() == pytest.approx([3.0, 3.0])
    for both in ([3, 50], np.array([3, 50]), torch.tensor([3, 50]), [np.float32(3), 50]):
        assert RelativeDecay(4, half_lives=both).half_lives.tolist() == pytest.approx([3.0, 50.0] * 2)
    for one in (np.float32(7), np.array(7.0), torch.tensor(7)):
        assert RelativeDecay(np.int64(4), half_lives=one).half_lives.tolist() == pytest.approx([7.0] * 4)


@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize("rotates", [False, True])
def test_a_shift_of_all_positions_changes_no_score(learnable, rotates):
    rotary = RotaryEmbedding(8, frequencies=[6 / DAY, 1 / DAY, 0.1 / DAY, 0.0]) if rotates else None
    module = RelativeDecay(8, half_lives=(2 * DAY, 30 * DAY), rotary=rotary, learnable=learnable)
    q, k = (torch.nn.functional.normalize(drawn(1, 2, 30, 8, seed=s), dim=-1) for s in (0, 1))
    days = some_days(30)
    plain = causal(scores(module, q, k, positions=days))
    for shift in (12_345_678_901, NOW, -(2**62)):
        assert_close(causal(scores(module, q, k, positions=days + shift)), plain, rtol=0, atol=1e-5)
    assert_close(causal(scores(module, q, k, positions=days, origin=int(days[3]))), plain, rtol=0, atol=1e-5)
    assert (causal(scores(module, q, k, positions=days // 2)) - plain).abs().max() > 0.05


def test_the_origin_is_the_last_query_of_each_sequence():
    module, q, k = RelativeDecay(4, half_lives=7.0), drawn(2, 3, 2, 4), drawn(2, 1, 5, 4, seed=1)
    days = torch.tensor([[0.0, 3, 8, 9, 20], [5, 6, 7, 8, 8.5]])
    for origin in (days[:, -1], torch.tensor([20, 8.5])):
        for ours, theirs in zip(
            module(q, k, positions=days), module(q, k, positions=days, origin=origin), strict=True
        ):
            assert_close(ours, theirs, rtol=0, atol=0)
    assert_close(module(q, k, positions=days)[0][:, :, -1], q[:, :, -1], rtol=0, atol=0)
    first = module(q, k, positions=days, origin=5)[1]
    assert_close(first[1, :, 0], k[1, :, 0], rtol=0, atol=0)


def test_steps_in_any_dimension_and_offsets():
    module, q, k = RelativeDecay(4, half_lives=7.0), drawn(2, 3, 2, 4), drawn(2, 3, 5, 4, seed=1)
    plain = module(q, k)
    assert_close(plain, module(q, k, offset=100), rtol=1e-6, atol=0)
    turned = module(q.transpose(1, 2), k.transpose(1, 2), seq_dim=1)
    for ours, theirs in zip(turned, plain, strict=True):
        assert_close(ours.transpose(1, 2), theirs, rtol=0, atol=0)
    days = torch.arange(5)
    alone = module(q[0], k[0], k_positions=days)  # one sequence, three heads
    assert_close(alone, (plain[0][0], plain[1][0]), rtol=0, atol=0)
    assert_close(module(q[0, 0], k[0, 0]), (plain[0][0, 0], plain[1][0, 0]), rtol=0, atol=0)
    assert module(q[:, :, :0], k[:, :, :0])[1].shape == (2, 3, 0, 4)


def test_gradients_of_half_lives_positions_and_features():
    module = RelativeDecay(4, half_lives=(2.0, 5.0), learnable=True, rotary=RotaryEmbedding(4)).double()
    q, k = drawn(1, 2, 3, 4, dtype=torch.float64), drawn(1, 1, 3, 4, seed=1, dtype=torch.float64)
    days = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)

    def faded(q, k, logarithms, days):
        call = {"log_half_lives": logarithms}
        return torch.func.functional_call(module, call, (q, k), {"positions": days, "origin": 2.0})

    given = [t.requires_grad_() for t in (q, k, module.log_half_lives.detach().clone(), days)]
    assert torch.autograd.gradcheck(faded, given)
    assert torch.autograd.gradgradcheck(faded, given)


def test_learned_half_lives_stay_positive_and_are_reset():
    rotary = RotaryEmbedding(4, learnable=True)
    module = RelativeDecay(4, half_lives=(2.0, 32.0), rotary=rotary, learnable=True)
    assert_close(module.log_half_lives.data, torch.tensor([0.0, math.log(16)]))
    with torch.no_grad():
        module.log_half_lives.copy_(torch.tensor([-3.0, -5.0]))
        rotary.log_ratios.fill_(7.0)
    assert_close(module.half_lives[:2], 2 * torch.tensor([-3.0, -5.0], dtype=torch.float64).exp())
    assert module.largest_rate() == pytest.approx(math.log(2) / 2 * math.exp(5))
    module.reset_parameters()
    assert module.half_lives.tolist() == pytest.approx([2.0, 32.0] * 2)
    assert rotary.frequencies.tolist() == [1.0, 0.01]
    assert module.largest_rate() == RelativeDecay(4, half_lives=(2.0, 32.0)).largest_rate() == math.log(2) / 2


@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize(
    "changed", [lambda m: m.to(torch.bfloat16), copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_what_is_done_to_a_module_does_not_reach_its_rates(learnable, changed):
    module = RelativeDecay(4, half_lives=(3.3 * DAY, 77 * DAY), learnable=learnable)
    before = module.rates()
    assert_close(changed(module).rates(), before, rtol=0, atol=0)
    assert list(module.state_dict()) == (["log_half_lives"] if learnable else [])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_loses_the_last_rounding_alone(dtype):
    module, days = RelativeDecay(8, half_lives=(4 * DAY, 40 * DAY)), some_days(9)
    q, k = drawn(1, 2, 9, 8, dtype=dtype), drawn(1, 1, 9, 8, seed=1, dtype=dtype)
    wide = module(q.double(), k.double(), positions=days + NOW)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = copy.deepcopy(module).to(dtype)(q, k, positions=days + NOW)
    for ours, exact in zip(narrow, wide, strict=True):
        assert ours.dtype == dtype
        assert_close(ours.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 80.0), (torch.float16, 10.0)], ids=str)
def test_exact_up_to_the_limit_and_refused_past_it(dtype, limit):
    module, x = RelativeDecay(2, half_lives=math.log(2)), torch.ones(2, 2, dtype=dtype)
    inside = torch.tensor([0.0, 0.99 * limit], dtype=torch.float64)
    got = scores(module, x.double(), x.double(), positions=inside)
    assert_close(got[1, 0], torch.tensor(2 * math.exp(-0.99 * limit), dtype=torch.float64))
    module(x, x, positions=inside)
    message = rf"^positions must be within {limit:g} of the origin, got {1.5 * limit:g}: use attention, which"
    for positions, origin in ((inside / 0.66, None), (-inside / 0.66, 0.0), (inside / 0.66, 0.0)):
        with pytest.raises(ValueError, match=message):
            module(x, x, positions=positions, origin=origin)
    with pytest.raises(ValueError, match=message):  # a key that grows past the limit
        module(x[:1], x, positions=inside[:1], k_positions=inside / 0.66)


def test_old_keys_are_no_error_while_queries_are_near_the_origin():
    module = RelativeDecay(2, half_lives=math.log(2))
    history = torch.tensor([-1e9, -200.0, -3.0, 0.0], dtype=torch.float64)
    got = scores(module, torch.ones(1, 2), torch.ones(4, 2), k_positions=history)
    assert_close(got[0], 2 * torch.exp(history).float(), rtol=1e-5, atol=1e-30)
    near = torch.tensor([-60.0, 0.0], dtype=torch.float64)
    module(torch.ones(2, 2), torch.ones(4, 2), positions=near, k_positions=history)
    with pytest.raises(ValueError, match=r"^positions must be within 80 of the origin, got 1e\+09"):
        module(torch.ones(2, 2), torch.ones(4, 2), positions=near - 10, k_positions=history, origin=0.0)


def test_compiles_and_maps():
    module, q, k = (
        RelativeDecay(4, half_lives=(2, 8), learnable=True),
        drawn(3, 2, 5, 4),
        drawn(3, 2, 5, 4, seed=1),
    )
    days = torch.tensor([0, 1, 4, 4, 9])
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    assert_close(compiled(q, k, positions=days), module(q, k, positions=days))
    mapped = torch.func.vmap(lambda q, k: module(q, k, positions=days))(q, k)
    assert_close(mapped, module(q, k, positions=days))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 5}, "dim must be even, got 5"),
        ({"half_lives": 0}, "half_lives must be finite and positive, got 0"),
        ({"half_lives": (7, 3)}, "half_lives must be the shortest, then the longest, got (7, 3)"),
        (
            {"half_lives": (1, 2, 3)},
            "half_lives must be one number or the shortest and the longest, got (1, 2, 3)",
        ),
        ({"rotary": RotaryEmbedding(6)}, "rotary must turn all 4 features, got 6 of 6"),
        ({"rotary": RotaryEmbedding(4, rotary_dim=2)}, "rotary must turn all 4 features, got 2 of 4"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        RelativeDecay(**{"dim": 4, "half_lives": 7, **arguments})
    assert str(caught.value) == message


def test_bad_kinds_and_origins_are_refused():
    with pytest.raises(TypeError, match="^rotary must be a RotaryEmbedding, got float$"):
        RelativeDecay(4, half_lives=7, rotary=10_000.0)
    with pytest.raises(TypeError, match="^half_lives must be a number, got 'week'$"):
        RelativeDecay(4, half_lives=("day", "week")[1:] * 2)
    with pytest.raises(TypeError, match="^learnable must be True or False, got 1$"):
        RelativeDecay(4, half_lives=7, learnable=1)
    module, x = RelativeDecay(4, half_lives=7), drawn(2, 3, 5, 4)
    with pytest.raises(
        TypeError, match=r"^origin must be an integer where positions are integers, got torch"
    ):
        module(x, x, origin=0.5)
    with pytest.raises(TypeError, match="^origin must be a tensor or a number, got 'now'$"):
        module(x, x, origin="now")
    with pytest.raises(ValueError, match=r"^origin must have shape \(\) or \(2,\), got \(3,\)$"):
        module(x, x, origin=torch.zeros(3, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"^k must be torch.float32, as q is, got torch.float16$"):
        module(x, x.half())
    with pytest.raises(ValueError, match="^positions must be finite, got nan: "):
        module(x, x, positions=torch.full((5,), math.nan))


def test_what_stands_on_another_device_is_refused():
    x = drawn(2, 3, 5, 4)
    with torch.device("meta"):
        module = RelativeDecay(4, half_lives=7, learnable=True)
    with pytest.raises(ValueError, match="^RelativeDecay must be materialised, got parameters on meta: "):
        module(x, x)
    with torch.device("meta"):
        rotary = RotaryEmbedding(4, learnable=True)
    with pytest.raises(ValueError, match="^RelativeDecay must be materialised, got parameters on meta: "):
        RelativeDecay(4, half_lives=7, rotary=rotary)(x, x)
    assert module(x.to("meta"), x.to("meta"))[0].is_meta


def test_made_in_inference_mode_and_trained():
    with torch.inference_mode():
        module = RelativeDecay(4, half_lives=7, rotary=RotaryEmbedding(4)).float()
    x = drawn(2, 3, 4).requires_grad_()
    q, k = module(x, x)
    (q @ k.mT).tril().sum().backward()
    assert x.grad.abs().min() > 0


def test_the_representation_shows_half_lives_and_periods():
    module = RelativeDecay(
        4, half_lives=(3, 50), rotary=RotaryEmbedding(4, frequencies=[math.tau, 1e-3 * math.tau])
    )
    assert "4, half_lives=(3, 50), learnable=False" in repr(module)
    assert "2 periods, 1 to 1000" in repr(module)
