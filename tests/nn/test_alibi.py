from __future__ import annotations

import copy
import math
import pickle
import time
import warnings

import numpy as np
import pytest
import reference
import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.testing import assert_close

from tabembed.nn.alibi import ALiBiEmbedding

NOW = 1_700_000_000 * 10**9
MODES = pytest.mark.parametrize("mode", ["symmetric", "causal"])


def loop(m: ALiBiEmbedding, queries, keys) -> torch.Tensor:
    slopes = m.slopes.tolist()
    rows = [[[reference.alibi_bias(a, b, s, m.unit, m.mode) for b in keys] for a in queries] for s in slopes]
    return torch.tensor(rows, dtype=torch.float64)


@MODES
@pytest.mark.parametrize("n_heads", [1, 3, 8, 12])
def test_bias_matches_the_scalar_loop(mode, n_heads):
    m = ALiBiEmbedding(n_heads, mode=mode, unit=2.5)
    queries, keys = [3, 9, 2], [0, 3, 4, 11]
    bias = m.bias(torch.tensor(queries), torch.tensor(keys))
    assert_close(bias.double(), loop(m, queries, keys), rtol=2e-7, atol=0)


@MODES
def test_sign_first_slope_and_any_length_in_turn(mode):
    m = ALiBiEmbedding(8, mode=mode)
    assert (m.slopes[0], m.slopes[-1]) == (0.5, 0.00390625)
    assert m.bias(torch.tensor([10]), torch.tensor([9, 0]))[0].tolist() == [[-0.5, -5.0]]
    for n in (512, 513, 511):
        rows = torch.arange(n)
        bias = m.bias(rows, rows)
        assert bias.shape == (8, n, n)
        assert torch.equal(bias, ALiBiEmbedding(8, mode=mode).bias(rows, rows))
        assert (bias <= 0).all()
        assert (bias[:, -1].diff() > 0).all()
    assert (bias[:, 0, 1:] == -math.inf).all() == (mode == "causal")


def test_positions_of_every_sequence():
    m = ALiBiEmbedding(2)
    queries, keys = torch.tensor([[1, 5], [7, 2]]), torch.tensor([[0, 1, 5], [3, 7, 2]])
    bias = m.bias(queries, keys)
    assert bias.shape == (2, 2, 2, 3)
    for i in range(2):
        assert_close(bias[i], m.bias(queries[i], keys[i]))
    assert_close(m.bias(queries, keys[0])[1], m.bias(queries[1], keys[0]))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64], ids=str)
def test_positions_of_every_dtype(dtype):
    rows = torch.arange(5)
    assert_close(
        ALiBiEmbedding(2).bias(rows.to(dtype), rows if not dtype.is_floating_point else rows.double()),
        ALiBiEmbedding(2).bias(rows, rows),
    )


@MODES
@pytest.mark.parametrize("shift", [1, NOW, -(2**62)])
def test_a_shift_of_integers_changes_nothing(mode, shift):
    m, times = ALiBiEmbedding(4, mode=mode, unit=3.6e12), torch.randint(10**15, (9,)).sort().values
    assert torch.equal(m.bias(times + shift, times + shift), m.bias(times, times))


def test_a_shift_of_float64_seconds_changes_nothing():
    m, times = ALiBiEmbedding(4, unit=3600), torch.arange(9) * 400.25
    seconds = times.double() + 1.7e9
    assert_close(m.bias(seconds, seconds), m.bias(times, times), rtol=0, atol=1e-5)


@MODES
@pytest.mark.parametrize(("n_q", "n_k"), [(4, 4), (1, 6), (3, 5), (1, 1), (0, 3), (0, 0)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_scores_keep_shape_and_dtype(mode, n_q, n_k, dtype):
    m = ALiBiEmbedding(3, mode=mode, unit=0.5)
    scores = torch.randn(2, 3, n_q, n_k, dtype=dtype)
    out = m(scores)
    assert (out.shape, out.dtype) == (scores.shape, dtype)
    expected = scores.double() + loop(m, range(n_k - n_q, n_k), range(n_k)).reshape(3, n_q, n_k)
    assert_close(out.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-7)


def test_one_query_is_the_last_row():
    m, scores = ALiBiEmbedding(8), torch.randn(2, 8, 7, 7)
    assert torch.equal(m(scores[:, :, -1:]), m(scores)[:, :, -1:])


def test_scores_may_lack_a_batch_or_have_more_dimensions():
    m, scores = ALiBiEmbedding(2), torch.randn(3, 5, 2, 4, 4)
    assert torch.equal(m(scores)[1, 2], m(scores[1, 2]))


def test_construction_is_cheap_and_stores_nothing():
    ALiBiEmbedding(16)
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        m = ALiBiEmbedding(16)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1e-3
    assert not m.state_dict()
    assert not list(m.parameters())
    assert sum(b.numel() for b in m.buffers()) == 0


def test_learned_slopes_start_at_the_papers_and_learn():
    m = ALiBiEmbedding(6, slopes="learned")
    assert isinstance(m.slopes, torch.nn.Parameter)
    assert_close(m.slopes.detach(), ALiBiEmbedding(6).slopes)
    rows = torch.arange(4)
    m.bias(rows, rows).sum().backward()
    assert m.slopes.grad.tolist() == [-20.0] * 6
    with torch.no_grad():
        m.slopes.mul_(2)
    assert_close(m.bias(rows, rows), 2 * ALiBiEmbedding(6).bias(rows, rows))


@MODES
def test_gradients_to_slopes_and_positions(mode):
    m = ALiBiEmbedding(2, mode=mode, slopes="learned", unit=2.0).double()
    times = torch.tensor([0.5, 1.75, 4.0], dtype=torch.float64, requires_grad=True)

    apart = ~torch.eye(3, dtype=torch.bool)  # the distance of a row from itself has no derivative

    def finite(t, slopes):
        bias = torch.func.functional_call(Bias(m), {"module.learned_slopes": slopes}, (t,))
        return bias.masked_fill(bias == -math.inf, 0)[:, apart]

    assert torch.autograd.gradcheck(finite, (times, m.slopes))


class Bias(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, times):
        return self.module.bias(times, times)


@pytest.mark.parametrize("slopes", ["paper", "learned"])
def test_meta_device_then_to_empty(slopes):
    with torch.device("meta"):
        m = ALiBiEmbedding(12, slopes=slopes)
    m = m.to_empty(device="cpu")
    if slopes == "learned":
        with torch.no_grad():
            m.slopes.fill_(7)
        m.reset_parameters()
    assert torch.equal(m.slopes.detach(), ALiBiEmbedding(12).slopes)


@pytest.mark.parametrize("slopes", ["paper", "learned"])
def test_half_precision_leaves_slopes_wide(slopes):
    m = ALiBiEmbedding(12, slopes=slopes)
    before = m.slopes.detach().clone()
    assert torch.equal(m.bfloat16().slopes.detach(), before)
    assert m.double().slopes.dtype == torch.float64


def test_autocast_changes_nothing():
    m, rows = ALiBiEmbedding(2), torch.arange(5000)
    scores = torch.randn(2, 1, 5000)
    with torch.autocast("cpu", torch.bfloat16):
        out, bias = m(scores), m.bias(rows[-1:], rows)
    assert torch.equal(out, m(scores))
    assert torch.equal(bias, m.bias(rows[-1:], rows))


@MODES
@pytest.mark.parametrize("n_q", [1, 5])
@pytest.mark.parametrize("kind", ["rows", "nanoseconds", "seconds", "each"])
def test_score_mod_is_the_bias(mode, n_q, kind):
    m = ALiBiEmbedding(
        2, mode=mode, unit=1.0 if kind == "rows" else 3.6e12 if kind == "nanoseconds" else 3.6e3
    )
    n_k = 5
    hours = torch.randint(10, (3, n_k) if kind == "each" else (n_k,)).cumsum(-1)
    positions = {
        "rows": torch.arange(n_k),
        "nanoseconds": hours * 3_600_000_000_000 + NOW,
        "seconds": hours.double() * 3600 + 1.7e9,
        "each": hours * 3600,
    }[kind]
    q, k, v = torch.randn(3, 2, n_q, 16), torch.randn(3, 2, n_k, 16), torch.randn(3, 2, n_k, 16)
    own = positions[..., n_k - n_q :]
    mod = m.score_mod(positions) if n_q == n_k else m.score_mod(positions, own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = flex_attention(q, k, v, score_mod=mod)
    bias = m.bias(own, positions)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    assert_close(out, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_copies_are_equal(copied):
    m, scores = ALiBiEmbedding(3, slopes="learned", unit=2.0), torch.zeros(3, 2, 2)
    assert torch.equal(copied(m)(scores), m(scores))


def test_compiled_for_any_length():
    torch.compiler.reset()
    m = ALiBiEmbedding(3, mode="causal", slopes="learned")
    compiled = torch.compile(m, fullgraph=True, dynamic=True, backend="aot_eager")
    for n_q, n_k in ((3, 4), (5, 7)):
        scores = torch.randn(2, 3, n_q, n_k)
        assert_close(compiled(scores), m(scores))


def test_vmap_over_sequences():
    m, scores, times = ALiBiEmbedding(3), torch.randn(4, 3, 2, 5), torch.randn(4, 5)
    assert_close(torch.func.vmap(m)(scores), m(scores))
    assert_close(torch.func.vmap(m.bias)(times, times), m.bias(times, times))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ALiBiEmbedding(0), ValueError, "num_heads must be at least 1, got 0"),
        (lambda: ALiBiEmbedding(2.0), TypeError, "num_heads must be an integer, got 2.0"),
        (
            lambda: ALiBiEmbedding(2, mode="both"),
            ValueError,
            "mode must be one of symmetric, causal, got 'both'",
        ),
        (
            lambda: ALiBiEmbedding(2, slopes="mine"),
            ValueError,
            "slopes must be one of paper, learned, got 'mine'",
        ),
        (lambda: ALiBiEmbedding(2, unit=0), ValueError, "unit must be finite and positive, got 0"),
        (
            lambda: ALiBiEmbedding(2)(torch.zeros(1, 3, 2, 2)),
            ValueError,
            r"scores must have shape \(\*, 2, n_q, n_k\) with n_q <= n_k, got \(1, 3, 2, 2\)",
        ),
        (lambda: ALiBiEmbedding(2)(torch.zeros(2, 3, 2)), ValueError, r"n_q <= n_k, got \(2, 3, 2\)"),
        (lambda: ALiBiEmbedding(2)(torch.zeros(2, 2)), ValueError, r"n_q <= n_k, got \(2, 2\)"),
        (
            lambda: ALiBiEmbedding(2)(torch.zeros(2, 3, 3).long()),
            TypeError,
            "scores must be floats, got torch.int64",
        ),
        (
            lambda: ALiBiEmbedding(2).bias(torch.zeros(3).half(), torch.zeros(3)),
            TypeError,
            "q_positions must be integers up to int64, float32 or float64, got torch.float16",
        ),
        (
            lambda: ALiBiEmbedding(2).bias(torch.tensor([NOW + 100]), torch.tensor([float(NOW)])),
            TypeError,
            "q_positions and k_positions must both be integers or both floats, got torch.int64 and",
        ),
        (
            lambda: ALiBiEmbedding(2).score_mod(torch.zeros(3), torch.arange(3)),
            TypeError,
            "q_positions and positions must both be integers or both floats, got torch.int64 and",
        ),
        (lambda: ALiBiEmbedding(2).score_mod([1]), TypeError, "^positions must be a tensor, got list"),
        (
            lambda: ALiBiEmbedding(2).score_mod(torch.tensor(1)),
            ValueError,
            r"^positions must have shape \(n,\) or \(n_batch, n\), got \(\)",
        ),
        (
            lambda: ALiBiEmbedding(2).bias(torch.tensor(1), torch.arange(3)),
            ValueError,
            r"q_positions must have shape \(n,\) or \(n_batch, n\), got \(\)",
        ),
        (
            lambda: ALiBiEmbedding(2).bias(torch.zeros(2, 3), torch.zeros(3, 4)),
            ValueError,
            r"q_positions and k_positions must be of one n_batch, got shapes \(2, 3\) and \(3, 4\)",
        ),
        *(
            (
                lambda kind=kind: ALiBiEmbedding(2).bias(torch.arange(3), torch.arange(3), kind),
                TypeError,
                f"dtype must be one of floats, got {kind!r}",
            )
            for kind in ("x", torch.int32, torch.complex64)
        ),
        (
            lambda: ALiBiEmbedding(2, slopes=torch.ones(2)),
            ValueError,
            "slopes must be one of paper, learned, got tensor",
        ),
        (
            lambda: ALiBiEmbedding(2).score_mod(torch.zeros(3).bool()),
            TypeError,
            "positions must be integers up to int64, float32 or float64, got torch.bool",
        ),
    ],
)
def test_what_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_repr_tells_the_arguments():
    told = "ALiBiEmbedding(2, mode='causal', slopes='learned', unit=7)"
    assert repr(ALiBiEmbedding(2, mode="causal", slopes="learned", unit=7)) == told


def test_numpys_integers_are_integers():
    assert torch.equal(ALiBiEmbedding(np.int64(3)).slopes, ALiBiEmbedding(3).slopes)
    assert repr(ALiBiEmbedding(np.int64(3))) == repr(ALiBiEmbedding(3))


def test_positions_of_one_sequence_serve_all():
    m, one, each = ALiBiEmbedding(2), torch.arange(3), torch.arange(12).view(4, 3)
    assert torch.equal(m.bias(one[None], each), m.bias(one, each))
    assert torch.equal(m.bias(each, one[None]), m.bias(each, one))


def test_score_mod_of_one_list_for_all_sequences():
    from torch.nn.attention.flex_attention import flex_attention

    x, alibi, places = torch.randn(2, 2, 3, 16), ALiBiEmbedding(2), torch.tensor([0.0, 2.0, 7.0])
    found = [flex_attention(x, x, x, score_mod=alibi.score_mod(p)) for p in (places, places[None])]
    assert torch.equal(*found)
