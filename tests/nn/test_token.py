from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tabembed.nn.token import TokenEmbedding


def test_vectors_are_rows_times_the_root_of_the_width():
    module = TokenEmbedding(9, 6)
    ids = torch.tensor([[8, 0], [3, 3]], dtype=torch.int32)
    assert_close(module(ids), module.weight[ids.long()] * math.sqrt(6))


def test_padding_is_zero_whatever_stands_in_its_row():
    module = TokenEmbedding(5, 4, padding_idx=2)
    with torch.no_grad():
        module.weight.fill_(math.nan)
        module.weight[1] = 1.0
    vectors = module(torch.tensor([2, 1]))
    assert vectors.tolist() == [[0.0] * 4, [2.0] * 4]
    vectors.sum().backward()
    assert module.weight.grad[2].tolist() == [0.0] * 4


def test_rows_are_drawn_with_the_deviation():
    assert_close(TokenEmbedding(2000, 32, seed=0).weight.std().item(), 0.02, rtol=0.02, atol=0)
    assert_close(TokenEmbedding(2000, 32, init_std=1.5, seed=0).weight.std().item(), 1.5, rtol=0.02, atol=0)


def test_bad_arguments_and_ids_are_refused():
    with pytest.raises(ValueError, match="^num_tokens must be at least 1, got 0$"):
        TokenEmbedding(0, 4)
    with pytest.raises(TypeError, match="^dim must be an integer, got None$"):
        TokenEmbedding(4, None)
    with pytest.raises(ValueError, match="^padding_idx must be below 4, got 4$"):
        TokenEmbedding(4, 4, padding_idx=4)
    with pytest.raises(ValueError, match="ids must be from 0 to 3, got 4$"):
        TokenEmbedding(4, 4)(torch.tensor([0, 4]))
    for ids in ([0, 1], None):
        with pytest.raises(TypeError, match=f"^ids must be a tensor, got {type(ids).__name__}$"):
            TokenEmbedding(4, 4)(ids)
    with torch.device("meta"):
        module = TokenEmbedding(4, 4)
    with pytest.raises(ValueError, match="^TokenEmbedding must be materialised, got parameters on meta: "):
        module(torch.tensor([0]))
    assert module(torch.tensor([0], device="meta")).is_meta


def test_numpys_integers_are_pythons():
    module = TokenEmbedding(np.int64(5), np.int8(4), padding_idx=np.int8(1))
    assert module.extra_repr() == "5, 4, padding_idx=1"
