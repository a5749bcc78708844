from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tabembed.nn import CyclicEmbedding, FrequencyEmbedding, TimestampEmbedding
from tabembed.nn.number_input import as_numbers


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (3, torch.int64),
        (np.int32(3), torch.int64),
        (2**60 + 1, torch.int64),
        (1_700_000_000.123, torch.float64),
        (np.float32(0.5), torch.float64),
        (math.nan, torch.float64),
    ],
)
def test_a_number_keeps_its_digits(number, dtype):
    tensor = as_numbers(number, "x")
    assert (tensor.shape, tensor.dtype) == ((), dtype)
    assert_close(tensor.item(), number, rtol=0, atol=0, equal_nan=True, check_dtype=False)
    assert as_numbers(number, "x", torch.device("meta")).is_meta


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bfloat16, torch.float64])
def test_a_tensor_is_left_alone(dtype):
    tensor = torch.ones(4, 1, dtype=dtype)
    assert as_numbers(tensor, "x", torch.device("meta")) is tensor


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (True, "x must be a tensor or a number, got True"),
        ([1, 2], r"x must be a tensor or a number, got \[1, 2\]"),
        ("3", "x must be a tensor or a number, got '3'"),
        (None, "x must be a tensor or a number, got None"),
        (torch.tensor(True), "x must be floats or integers, got torch.bool"),
        (torch.tensor(1j), "x must be floats or integers, got torch.complex64"),
        (torch.tensor(1, dtype=torch.uint64), "x must be floats or integers up to int64, got torch.uint64"),
    ],
)
def test_bad_numbers(x, text):
    with pytest.raises(TypeError, match=text):
        as_numbers(x, "x")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
def test_integers_that_int64_cannot_hold(number):
    with pytest.raises(ValueError, match=f"t must fit into int64, got {number}"):
        as_numbers(number, "t")
    assert as_numbers(-(2**63), "t").item() == -(2**63)


@pytest.mark.parametrize(
    ("module", "argument"),
    [
        (CyclicEmbedding(24, n_harmonics=2), "x"),
        (FrequencyEmbedding(4, seed=0), "t"),
        (TimestampEmbedding(5, seed=0), "t"),
    ],
    ids=lambda a: type(a).__name__,
)
def test_modules_take_plain_numbers(module, argument):
    for number in (3, 3.0, -0.25, 10**9 + 7):
        tensor = torch.tensor([number], dtype=torch.float64 if isinstance(number, float) else torch.int64)
        assert module(number).shape == module(tensor)[0].shape
        assert_close(module(number), module(tensor)[0])
    assert not torch.equal(module(3), module(4))
    with pytest.raises(TypeError, match=rf"{argument} must be a tensor or a number, got \[3\]"):
        module([3])
