from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tabembed.nn import TimeEmbedding
from tabembed.schema import MISSING_TIME, DatetimeColumn

SECOND = 10**9
START = 1_700_000_000 * SECOND


def column(earliest, latest):
    return DatetimeColumn("t", 2, 0, earliest, latest, None)


def test_neighbouring_nanoseconds_stay_apart():
    embedding = TimeEmbedding([column(START, START + 1000)])
    times = START + torch.arange(1001).unsqueeze(-1)
    assert_close(embedding.position(times), torch.arange(1001).unsqueeze(-1) / 1000)


def test_half_precision_loses_no_time_before_the_scaling():
    embedding = TimeEmbedding([column(START, START + 1000 * SECOND)], 4, seed=0)
    times = torch.tensor([[START + 500 * SECOND], [START + 1000 * SECOND]])
    narrow = embedding.bfloat16()
    weight, bias = (w.double() for w in (narrow.linear.weight, narrow.linear.bias))
    expected = torch.tensor([0.5, 1.0], dtype=torch.float64)[:, None, None] * weight + bias
    assert_close(narrow(times), expected.bfloat16(), rtol=0, atol=0)


def test_constant_column_and_times_far_outside_are_finite_and_not_wrapped():
    far = 2**63 - 1
    embedding = TimeEmbedding([column(-far, -far), column(START, START + 1)])
    position = embedding.position(torch.tensor([[-far, -far], [far, far]]))
    exact = [[0, -far - START], [2 * far, far - START]]
    assert_close(position, torch.tensor(exact, dtype=torch.float32))


def test_missing_time_gives_the_learned_row():
    embedding = TimeEmbedding([column(START, START + 9)], 3)
    output = embedding(torch.tensor([[MISSING_TIME], [START]]))
    assert_close(output[0], embedding.linear.missing, rtol=0, atol=0)
    assert_close(output[1], embedding.linear.bias, rtol=0, atol=0)
    output.sum().backward()
    assert_close(embedding.linear.missing.grad, torch.ones(1, 3))
    assert_close(embedding.linear.weight.grad, torch.zeros(1, 3))


def test_bad_times():
    embedding = TimeEmbedding([column(0, 1)])
    with pytest.raises(ValueError, match=r"times must have 1 as its last dimension, got shape \(2, 3\)"):
        embedding(torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(TypeError, match="times must be integers, got torch.float32"):
        embedding(torch.zeros(2, 1))


def test_no_columns():
    with pytest.raises(ValueError, match="n_features must be at least 1, got 0"):
        TimeEmbedding([])
