from __future__ import annotations

import mmap

import pytest
import torch

from tabembed.kernels import huge_pages
from tabembed.kernels.huge_pages import empty_like


def asked(monkeypatch, x):
    """What Linux was asked for one output, and the output."""
    calls = []
    monkeypatch.setattr(huge_pages, "_advice", lambda: lambda first, n_bytes: calls.append((first, n_bytes)))
    return calls, empty_like(x)


def test_whole_pages_of_a_large_output_and_nothing_else(monkeypatch):
    x = torch.empty(2**10, 3, 2**9 + 1).transpose(0, 1)
    calls, out = asked(monkeypatch, x)
    ((first, n_bytes),) = calls
    assert first % mmap.PAGESIZE == 0
    assert 0 <= first - out.data_ptr() < mmap.PAGESIZE
    assert first + n_bytes == out.data_ptr() + 4 * x.numel()
    assert (out.shape, out.stride(), out.dtype) == (x.shape, x.stride(), x.dtype)


@pytest.mark.parametrize("x", [torch.empty(2**19), torch.empty(0), torch.empty(2**22, device="meta")])
def test_small_ones_and_other_devices_are_left_alone(x, monkeypatch):
    calls, out = asked(monkeypatch, x)
    assert calls == []
    assert (out.shape, out.device) == (x.shape, x.device)


def test_the_advice_is_given_where_there_is_one(monkeypatch):
    x = torch.ones(2**21)
    assert empty_like(x).copy_(x).sum() == 2**21
    huge_pages._advice.cache_clear()
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert huge_pages._advice()(0, 2**21) is None
    assert empty_like(x).copy_(x).sum() == 2**21
    huge_pages._advice.cache_clear()


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no such advice")
def test_linux_takes_it():
    x = torch.empty(2**22)
    first = -(-x.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    assert huge_pages._advice()(first, 2**22) in (0, -1)  # refused where the kernel was built without
