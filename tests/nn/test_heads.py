from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tabembed.nn.heads import as_heads, as_pair, held_for, shaped_as

X = torch.arange(2.0 * 3 * 4 * 5 * 6).view(2, 3, 4, 5, 6)


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (X[0, 0, 0], (1, 1, 5, 6)),
        (X[0, 0], (4, 1, 5, 6)),
        (X[0], (3, 4, 5, 6)),
        (X, (2, 12, 5, 6)),
        (X.transpose(1, 2), (2, 12, 5, 6)),  # no view
        (X[:0], (0, 12, 5, 6)),
        (X[:, :0], (2, 0, 5, 6)),
        (X[..., :0, :], (2, 12, 0, 6)),
    ],
)
def test_four_dimensions_and_back(x, shape):
    heads = as_heads(x, 6)
    assert heads.shape == shape
    assert torch.equal(shaped_as(x, heads), x)


@pytest.mark.parametrize("seq_dim", [0, 1, 2, 3, -2, -3, -5])
def test_steps_in_any_dimension(seq_dim):
    for x in (X, X[0]) if seq_dim in (0, 1, 2, -2, -3) else (X,):
        heads = as_heads(x, 6, seq_dim=seq_dim)
        assert heads.shape[2] == x.shape[seq_dim]
        first = x.select(seq_dim, 0)  # all that stands at the first step
        assert torch.equal(heads[:, :, 0].flatten(0, 1), first.reshape(-1, 6))
        assert torch.equal(shaped_as(x, heads, seq_dim), x)


def test_three_dimensions_of_both_may_be_heads_of_one_sequence():
    q, k = as_pair(X[0, 0], X[0, 0, :2], 6, -2)
    assert (q.shape, k.shape) == ((1, 4, 5, 6), (1, 2, 5, 6))
    assert torch.equal(shaped_as(X[0, 0], q), X[0, 0])
    assert as_pair(X[0, 0], X[0, 1], 6, -2)[0].shape == (4, 1, 5, 6)
    assert as_pair(X[0], X[0, :, :1], 6, -2)[1].shape == (3, 1, 5, 6)
    with pytest.raises(ValueError, match="^k must have 3 sequences, as q has, got 1$"):
        as_pair(X[0], X[0, :1], 6, -2)


def test_what_is_no_row_is_refused():
    with pytest.raises(TypeError, match="^q must be a tensor, got list$"):
        as_heads([[0.0] * 6], 6, "q")
    with pytest.raises(TypeError, match=r"^x must be floats, got torch.int64$"):
        as_heads(X.long(), 6)
    with pytest.raises(ValueError, match=r"^k must have 7 as its last dimension, got shape \(5, 6\)$"):
        as_heads(X[0, 0, 0], 7, "k")
    with pytest.raises(ValueError, match=r"^x must have shape \(\*, n_steps, 6\), got \(6,\)$"):
        as_heads(X[0, 0, 0, 0], 6)
    for seq_dim in (-1, 4, 5, -6):
        with pytest.raises(
            ValueError, match=f"^seq_dim must be a dimension of x before .*, got {seq_dim} of"
        ):
            as_heads(X, 6, seq_dim=seq_dim)


@pytest.mark.parametrize("seq_dim", [1.0, "a", None, True], ids=str)
def test_the_dimension_of_the_steps_is_an_integer(seq_dim):
    with pytest.raises(TypeError, match=f"^seq_dim must be an integer, got {seq_dim!r}$"):
        as_heads(X, 6, seq_dim=seq_dim)


def test_the_dimension_of_the_steps_may_be_numpys():
    assert as_heads(X, 6, seq_dim=np.int8(1)).shape == as_heads(X, 6, seq_dim=1).shape


def test_keys_are_where_the_queries_are():
    with pytest.raises(ValueError, match="^k must be on cpu, as q is, got meta$"):
        as_pair(X[0], X[0].to("meta"), 6, -2)
    with pytest.raises(ValueError, match="^k must be on meta, as q is, got cpu$"):
        as_pair(X[0].to("meta"), X[0], 6, -2)


def test_what_a_module_holds_is_where_the_rows_are():
    layer = nn.Linear(2, 2, device="meta")
    message = (
        "^Linear must be materialised, got parameters on meta: call to_empty, then load_state_dict or "
        "reset_parameters$"
    )
    with pytest.raises(ValueError, match=message):
        held_for(X, layer, layer.weight)
    assert held_for(X.to("meta"), layer, layer.weight) is layer.weight
    assert held_for(X.to("meta"), layer, X).is_meta
    assert held_for(X, layer, X) is X
