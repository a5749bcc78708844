from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tabembed.nn.rotary import RotaryEmbedding
from tabembed.nn.rotary_layout import convert_layout


@pytest.mark.parametrize(("dim", "rotary_dim"), [(8, None), (8, 8), (7, 4), (8, 6), (2, None)])
@pytest.mark.parametrize(("layout", "to"), [("half", "interleaved"), ("interleaved", "half")])
def test_scores_stay_what_they_were(dim, rotary_dim, layout, to):
    torch.manual_seed(0)
    project = {n: torch.nn.Linear(5, n * dim) for n in (4, 2)}  # four heads of queries, two of keys
    x = torch.randn(3, 6, 5)

    def scores(name, convert):
        heads = []
        for n, layer in project.items():
            weight, bias = convert(layer.weight, n), convert(layer.bias, n)
            heads.append(torch.nn.functional.linear(x, weight, bias).unflatten(-1, (n, dim)))
        q, k = RotaryEmbedding(dim, layout=name, rotary_dim=rotary_dim)(*heads, seq_dim=1)
        return torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(2, 2))

    before = scores(layout, lambda weight, n: weight)
    converted = scores(to, lambda weight, n: convert_layout(weight, n, to=to, rotary_dim=rotary_dim))
    assert_close(converted, before, rtol=1e-5, atol=1e-5)
    if (rotary_dim or dim) > 2:
        assert (scores(to, lambda weight, n: weight) - before).abs().max() > 0.01


def test_there_and_back():
    weight = torch.randn(3 * 6, 4)
    there = convert_layout(weight, 3, to="interleaved", rotary_dim=4)
    assert not torch.equal(there, weight)
    assert torch.equal(convert_layout(there, 3, to="half", rotary_dim=4), weight)


def test_the_order_of_one_head():
    assert convert_layout(torch.arange(6), 1, to="interleaved").tolist() == [0, 3, 1, 4, 2, 5]
    assert convert_layout(torch.arange(6), 1, to="half").tolist() == [0, 2, 4, 1, 3, 5]
    assert convert_layout(torch.arange(8), 2, to="half").tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"to": "neox"}, "to must be one of half, interleaved, got 'neox'"),
        ({"n_heads": 5}, r"weight must have rows for 5 heads, got shape (12, 3)"),
        ({"n_heads": 4}, "dim must be even, got 3"),
        ({"rotary_dim": 5}, "rotary_dim must be even, got 5"),
        ({"rotary_dim": 8}, "rotary_dim must be at most dim, 6, got 8"),
        ({"n_heads": 0}, "n_heads must be at least 1, got 0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        convert_layout(torch.zeros(12, 3), **{"n_heads": 2, "to": "half", **arguments})
    assert str(caught.value) == message


def test_a_weight_is_a_tensor():
    for weight in ([1.0, 2.0], torch.nn.Linear(2, 4)):
        with pytest.raises(TypeError, match=f"^weight must be a tensor, got {type(weight).__name__}$"):
            convert_layout(weight, 1, to="half")


def test_numpys_integers_are_pythons():
    weight = torch.arange(600)
    assert torch.equal(convert_layout(weight, np.int8(3), to="half"), convert_layout(weight, 3, to="half"))
    given = convert_layout(weight, 3, to="half", rotary_dim=np.int8(4))
    assert torch.equal(given, convert_layout(weight, 3, to="half", rotary_dim=4))
