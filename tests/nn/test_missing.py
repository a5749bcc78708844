from __future__ import annotations

import math

import pytest
import torch

from tabembed.nn.missing import filled


@pytest.mark.parametrize("leading", [(), (0,), (2, 3)])
def test_zeros_stand_where_numbers_are_missing(leading):
    values, missing = torch.full((*leading, 3), 7.0), torch.rand(*leading, 3) < 0.5
    got, where = filled(values.masked_fill(missing, math.nan), missing, 3)
    assert where is missing
    assert torch.equal(got, torch.where(missing, 0.0, 7.0))
    everything, nowhere = filled(values, None, 3)
    assert torch.equal(everything, values)
    assert nowhere.shape == values.shape
    assert not nowhere.any()


def test_bad_tensors():
    with pytest.raises(ValueError, match=r"values must have 2 as its last dimension, got shape \(4, 1\)"):
        filled(torch.zeros(4, 1), None, 2)
    with pytest.raises(TypeError, match="missing must be bool, got torch.uint8"):
        filled(torch.zeros(2), torch.zeros(2, dtype=torch.uint8), 2)


@pytest.mark.parametrize(
    ("dtype", "found"),
    [
        (torch.uint64, torch.float64),
        (torch.uint16, torch.int64),
        (torch.int8, torch.int64),
        (torch.bfloat16, torch.bfloat16),
        (torch.float8_e4m3fn, torch.float32),
    ],
)
def test_numbers_of_every_kind_are_filled(dtype, found):
    got, _ = filled(torch.tensor([3, 7], dtype=dtype), torch.tensor([True, False]), 2)
    assert got.dtype == found
    assert got.tolist() == [0, 7]


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64])
def test_what_is_no_number_is_refused(dtype):
    with pytest.raises(TypeError, match=f"values must be floats or integers, got {dtype}"):
        filled(torch.zeros(2, dtype=dtype), None, 2)
