from __future__ import annotations

import itertools

import pytest
import torch
from torch.testing import assert_close

from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.attention import attention
from tabembed.nn.packed import attend_packed
from tabembed.nn.rotary import RotaryEmbedding

LENGTHS = [
    pytest.param([5], id="one"),
    pytest.param([1, 1, 1], id="singles"),
    pytest.param([0, 3, 0, 7, 0], id="empty ones"),
    pytest.param([9, 1, 30, 2, 2, 17, 300, 8], id="mixed"),
    pytest.param([0], id="nothing"),
]


def some(n: int, n_k_heads: int = 2) -> list[torch.Tensor]:
    drawn = torch.Generator().manual_seed(n)
    return [torch.randn(1, h, n, 8, generator=drawn, requires_grad=True) for h in (4, n_k_heads, n_k_heads)]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_packed_equals_every_sequence_alone(lengths, timed, causal):
    ends = [0, *itertools.accumulate(lengths)]
    q, k, v = some(ends[-1])
    times = (
        torch.randint(9, (ends[-1],), generator=torch.Generator().manual_seed(1)).cumsum(0) if timed else None
    )
    kwargs = {"rotary": RotaryEmbedding(8), "bias": ALiBiEmbedding(4, slopes="learned"), "causal": causal}
    out = attention(q, k, v, positions=times, cu_seqlens=torch.tensor(ends, dtype=torch.int32), **kwargs)
    alone = [
        attention(
            *(x[:, :, a:b] for x in (q, k, v)), positions=None if times is None else times[a:b], **kwargs
        )
        for a, b in itertools.pairwise(ends)
    ]
    expected = torch.cat(alone, 2)
    assert out.shape == q.shape
    assert_close(out, expected, rtol=0, atol=1e-5)
    if ends[-1]:
        given = (q, k, v, kwargs["bias"].slopes)
        found, wanted = (torch.autograd.grad(o.sin().sum(), given) for o in (out, expected))
        for a, b in zip(found, wanted, strict=True):
            assert_close(a, b, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_a_sequence_sees_nothing_of_its_neighbours(causal):
    q, k, v = (x.detach() for x in some(12))
    ends = torch.tensor([0, 4, 9, 12])
    for x in (q, k, v):
        x[:, :, 4:9] = torch.nan
    out = attention(q, k, v, cu_seqlens=ends, causal=causal)
    assert out[:, :, :4].isfinite().all()
    assert out[:, :, 9:].isfinite().all()


def test_many_sequences_take_few_calls():
    lengths = torch.randint(1, 200, (400,), generator=torch.Generator().manual_seed(0))
    ends = [0, *lengths.cumsum(0).tolist()]
    q, k, v = (x.detach() for x in some(ends[-1]))
    shapes = []

    def attend(q, k, v, positions, mask):
        shapes.append(q.shape)
        return q

    assert torch.equal(attend_packed(q, k, v, None, ends, attend, False), q)
    assert len(shapes) <= 16
    assert sum(s[0] * s[2] for s in shapes) < 1.3 * ends[-1]


def test_the_default_device_is_not_asked():
    q, k, v = some(12)
    ends = torch.tensor([0, 4, 9, 12])
    for kwargs in ({}, {"causal": False}, {"bias": ALiBiEmbedding(4, slopes="learned")}):
        expected = attention(q, k, v, cu_seqlens=ends, **kwargs)
        with torch.device("meta"):
            assert torch.equal(attention(q, k, v, cu_seqlens=ends, **kwargs), expected)
