from __future__ import annotations

import math

import pytest
import rtdl_num_embeddings
import torch
from torch.testing import assert_close

from tabembed.nn import LinearEmbedding
from tabembed.schema import ContinuousColumn


@pytest.mark.parametrize("leading", [(), (6,), (2, 3)])
def test_equals_rtdl(leading):
    theirs = rtdl_num_embeddings.LinearEmbeddings(4, 5)
    ours = LinearEmbedding(4, 5)
    ours.load_state_dict({**theirs.state_dict(), "missing": torch.full((4, 5), 9.0)})
    x = torch.randn(*leading, 4, generator=torch.Generator().manual_seed(0))
    assert_close(ours(x), theirs(x))
    ours(x).sin().sum().backward()
    theirs(x).sin().sum().backward()
    assert_close(ours.weight.grad, theirs.weight.grad)
    assert_close(ours.bias.grad, theirs.bias.grad)


@pytest.mark.parametrize("under", [0.0, math.nan, math.inf])
def test_missing_gives_the_learned_row_and_nothing_leaks(under):
    embedding = LinearEmbedding(2, 3, seed=0)
    values = torch.tensor([[under, 1.0], [2.0, under], [under, under]], requires_grad=True)
    missing = torch.tensor([[True, False], [False, True], [True, True]])
    output = embedding(values, missing)
    assert_close(output[missing], embedding.missing[[0, 1, 0, 1]], rtol=0, atol=0)
    output.sum().backward()
    assert_close(embedding.weight.grad, torch.tensor([[2.0], [1.0]]).expand(2, 3))
    assert_close(embedding.bias.grad, torch.ones(2, 3))
    assert_close(embedding.missing.grad, torch.full((2, 3), 2.0))
    assert_close(values.grad[missing], torch.zeros(4))
    assert values.grad[~missing].all()


def test_nan_without_the_flag_stays_visible():
    assert LinearEmbedding(1, 2)(torch.tensor([[math.nan]])).isnan().all()


def test_first_weights_fill_their_interval():
    embedding = LinearEmbedding(2000, 16, seed=0)
    for weight in (embedding.weight, embedding.bias, embedding.missing):
        assert weight.abs().max().item() == pytest.approx(0.25, rel=1e-3)
        assert weight.mean().item() == pytest.approx(0, abs=0.01)
    assert not torch.equal(embedding.weight, embedding.bias)


def test_half_precision_weights_take_float32_values():
    embedding = LinearEmbedding(1, 4).half()
    x = torch.tensor([[1.0 + 2**-12]])
    exact = x.double() * embedding.weight.double() + embedding.bias.double()
    assert_close(embedding(x)[0], exact.half(), rtol=0, atol=0)


def test_from_columns_counts_them():
    column = ContinuousColumn("x", 1, 0, 0.0, 1.0, 0.0, 1.0, 0.5, 0.5, (0.0, 1.0), (0.0, 1.0), (1, 0))
    embedding = LinearEmbedding.from_columns([column] * 3, 5, seed=2)
    assert (embedding.n_features, embedding.d_embedding) == (3, 5)
    assert_close(embedding.weight, LinearEmbedding(3, 5, seed=2).weight, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n_features": 0}, ValueError, "n_features must be at least 1, got 0"),
        ({"d_embedding": 0}, ValueError, "d_embedding must be at least 1, got 0"),
        ({"d_embedding": 2.0}, TypeError, "d_embedding must be an integer, got 2.0"),
        ({"seed": -3}, ValueError, "seed must be at least 0, got -3"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        LinearEmbedding(**{"n_features": 2, **arguments})


def test_bad_tensors():
    with pytest.raises(ValueError, match=r"values must have 2 as its last dimension, got shape \(4, 1\)"):
        LinearEmbedding(2)(torch.zeros(4, 1))
    with pytest.raises(TypeError, match="missing must be bool, got torch.int64"):
        LinearEmbedding(2)(torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.int64))
