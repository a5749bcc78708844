from __future__ import annotations

import math

import pytest
import torch

from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.attention import attention
from tabembed.nn.decay import RelativeDecay
from tabembed.nn.rotary import RotaryEmbedding

N = 5


def x(*shape, dtype=torch.float32):
    return torch.zeros(shape or (2, 4, N, 8), dtype=dtype)


def call(q=None, k=None, v=None, **kwargs):
    q, k = x() if q is None else q, x() if k is None else k
    return attention(q, k, k if v is None else v, **kwargs)


def packed(**kwargs):
    return call(x(1, 4, N, 8), x(1, 4, N, 8), **kwargs)


REFUSED = [
    (lambda: call(q=[1.0]), TypeError, "q must be a tensor, got list"),
    (lambda: call(v=x().long()), TypeError, "v must be floats, got torch.int64"),
    (
        lambda: call(q=x(4, N, 8)),
        ValueError,
        r"q must have shape \(n_batch, n_heads, n_rows, dim\), got \(4, 5, 8\)",
    ),
    (
        lambda: call(k=x(dtype=torch.float16)),
        TypeError,
        "k must be torch.float32, as q is, got torch.float16",
    ),
    (lambda: call(v=x().double()), TypeError, "v must be torch.float32, as q is, got torch.float64"),
    (
        lambda: call(k=x(2, 4, N, 6)),
        ValueError,
        r"k must have n_batch and dim of q, \(2, 4, 5, 8\), got \(2, 4, 5, 6\)",
    ),
    (lambda: call(k=x(1, 4, N, 8)), ValueError, r"k must have n_batch and dim of q, .* got \(1, 4, 5, 8\)"),
    (
        lambda: call(v=x(2, 4, 6, 8)),
        ValueError,
        r"v must have n_batch, heads and rows of k, \(2, 4, 5, 8\), got \(2, 4, 6, 8\)",
    ),
    (lambda: call(k=x(2, 3, N, 8)), ValueError, "k must have as many heads as q or a divisor, 4, got 3"),
    (lambda: call(k=x(2, 0, N, 8)), ValueError, "k must have as many heads as q or a divisor, 4, got 0"),
    (lambda: call(q=x(2, 4, 6, 8)), ValueError, "q must have at most the 5 rows of k, got 6"),
    (
        lambda: call(q=x(2, 4, 6, 8), causal=False, bias=ALiBiEmbedding(4)),
        ValueError,
        "q must have at most the 5 rows of k, got 6",
    ),
    (
        lambda: call(q=x(2, 4, 6, 8), causal=False, rotary=RotaryEmbedding(8)),
        ValueError,
        "q must have at most the 5 rows of k, got 6",
    ),
    (lambda: call(causal="yes"), TypeError, "causal must be True or False, got 'yes'"),
    (
        lambda: call(rotary=torch.nn.Identity()),
        TypeError,
        "rotary must be a RotaryEmbedding or a RelativeDecay, got Identity",
    ),
    (
        lambda: call(rotary=RelativeDecay(8, half_lives=2.0), causal=False),
        ValueError,
        "causal must be True with a RelativeDecay: what is to come has not decayed",
    ),
    (lambda: call(rotary=RotaryEmbedding(6)), ValueError, "q must have 6 as its last dimension"),
    (lambda: call(bias=ALiBiEmbedding(8)), ValueError, "bias must have 4 heads, as q has, got 8"),
    (lambda: call(bias="alibi"), TypeError, "bias must be an ALiBiEmbedding or a tensor, got str"),
    (lambda: call(bias=x(N, N).bool()), TypeError, "bias must be floats, got torch.bool"),
    (lambda: call(bias=x(N, 4)), ValueError, r"bias must broadcast to \(2, 4, 5, 5\), got shape \(5, 4\)"),
    (lambda: call(bias=x(1, 2, 4, N, N)), ValueError, r"bias must broadcast to \(2, 4, 5, 5\), got shape"),
    (lambda: call(mask=[[True]]), TypeError, "mask must be a tensor, got list"),
    (lambda: call(mask=x(2, N)), TypeError, "mask must be bool, got torch.float32"),
    (
        lambda: call(mask=x(1, N).bool()),
        ValueError,
        r"mask must have shape \(2, 5\) or four dimensions, got \(1, 5\)",
    ),
    (lambda: call(mask=x(2, N, N).bool()), ValueError, r"mask must have shape \(2, 5\) or four dimensions"),
    (
        lambda: call(mask=x(2, 4, N, 4).bool()),
        ValueError,
        r"mask must broadcast to \(2, 4, 5, 5\), got shape",
    ),
    (lambda: call(positions=x(4)), ValueError, r"positions must have shape \(5,\) or \(2, 5\), got \(4,\)"),
    (
        lambda: call(positions=x(N).half()),
        TypeError,
        "positions must be integers up to int64, float32 or float64",
    ),
    (
        lambda: call(positions=torch.tensor([0, 1, 3, 2, 4]), bias=ALiBiEmbedding(4)),
        ValueError,
        "positions must not fall in causal attention, got 2 after 3",
    ),
    (
        lambda: call(positions=torch.tensor([0.0, 1, 3, 2.5, 4]), rotary=RelativeDecay(8, half_lives=2.0)),
        ValueError,
        "positions must not fall in causal attention, got 2.5 after 3.0",
    ),
    (
        lambda: call(x(2, 4, 1, 8), mask=torch.arange(N).expand(2, -1) < 3),
        ValueError,
        "mask must be True for a query, and all are padding: .* so pad on the left",
    ),
    (
        lambda: call(positions=torch.tensor([0, 1, math.nan, 2, 3])),
        ValueError,
        "positions must be finite, got nan",
    ),
    (
        lambda: call(positions=torch.tensor([-(2**63), 1, 2, 3, 4]), bias=ALiBiEmbedding(4)),
        ValueError,
        f"positions must not be missing, got -{2**63}",
    ),
    (
        lambda: call(positions=torch.tensor([0, 1, 2, 3, math.inf]), mask=torch.ones(2, N).bool()),
        ValueError,
        "positions must be finite, got inf",
    ),
    (
        lambda: packed(cu_seqlens=torch.tensor([0, N]), mask=x(1, N).bool()),
        ValueError,
        "mask must be None with cu_seqlens: packed rows are all real",
    ),
    (
        lambda: packed(cu_seqlens=torch.tensor([0, N]), bias=x(N, N)),
        ValueError,
        "bias must be an ALiBiEmbedding or None with cu_seqlens, got a tensor",
    ),
    (lambda: packed(cu_seqlens=[0, N]), TypeError, "cu_seqlens must be a tensor, got list"),
    (
        lambda: packed(cu_seqlens=torch.tensor([0.0, N])),
        TypeError,
        "cu_seqlens must be integers, got torch.float32",
    ),
    (
        lambda: call(cu_seqlens=torch.tensor([0, N])),
        ValueError,
        r"q and k must have shape \(1, n_heads, n_rows, dim\) with cu_seqlens, got \(2, 4, 5, 8\) and",
    ),
    (
        lambda: call(x(1, 4, 3, 8), x(1, 4, N, 8), cu_seqlens=torch.tensor([0, N])),
        ValueError,
        r"q and k must have shape \(1, n_heads, n_rows, dim\) with cu_seqlens",
    ),
    (
        lambda: packed(cu_seqlens=torch.tensor([[0, N]])),
        ValueError,
        r"cu_seqlens must have shape \(n_sequences \+ 1,\), got \(1, 2\)",
    ),
    (
        lambda: packed(cu_seqlens=torch.tensor([], dtype=torch.int64)),
        ValueError,
        r"cu_seqlens must have shape",
    ),
    (
        lambda: packed(cu_seqlens=torch.tensor([1, N])),
        ValueError,
        "cu_seqlens must go from 0 to 5, got 1 to 5",
    ),
    (
        lambda: packed(cu_seqlens=torch.tensor([0, 4])),
        ValueError,
        "cu_seqlens must go from 0 to 5, got 0 to 4",
    ),
    (
        lambda: packed(cu_seqlens=torch.tensor([0, 4, 2, N])),
        ValueError,
        "cu_seqlens must not fall, got 2 after 4",
    ),
]


@pytest.mark.parametrize(("refused", "kind", "message"), REFUSED)
def test_what_is_refused(refused, kind, message):
    with pytest.raises(kind, match=message):
        refused()


def test_positions_of_padding_may_fall():
    mask = torch.tensor([[False, True, True, True, False]]).expand(2, -1)
    call(mask=mask, positions=torch.tensor([9, 1, 2, 2, 0]), bias=ALiBiEmbedding(4))


def test_positions_may_fall_where_nothing_goes_by_their_order():
    falling = torch.arange(N).flip(0)
    call(positions=falling, rotary=RotaryEmbedding(8))
    call(positions=falling, bias=ALiBiEmbedding(4), causal=False)


def test_positions_of_padding_may_be_missing():
    mask = torch.tensor([[False, True, True, True, False], [False] * 5])
    for missing in (torch.tensor(-(2**63)), torch.tensor(math.nan)):
        positions = torch.where(mask, torch.arange(N), missing)
        call(mask=mask, positions=positions, bias=ALiBiEmbedding(4), rotary=RotaryEmbedding(8))


def test_a_sequence_that_has_ended_may_stand_beside_one_that_goes_on():
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    out = call(x(2, 4, 1, 8) + 1, x() + 1, mask=mask)
    assert (out[0] == 1).all()
    assert (out[1] == 0).all()
