"""Memory for large outputs on the CPU: the first write to a fresh page takes longer than arithmetic on it."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

_LARGE = 2**22  # bytes from which asking pays, as numpy has it, which asks for its own arrays


def empty_like(x: Tensor) -> Tensor:
    """As ``torch.empty_like``; Linux is asked to back a large one by pages of 2 MiB instead of 4 KiB."""
    out = torch.empty_like(x)
    n_bytes = out.numel() * out.itemsize
    if out.device.type == "cpu" and n_bytes >= _LARGE:
        first = -(-out.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        _advice()(first, out.data_ptr() + n_bytes - first)
    return out


@cache
def _advice() -> Callable[[int, int], object]:
    """What asks for huge pages; where nothing does, nothing. A refusal changes nothing but the time."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return lambda first, n_bytes: None
    call = ctypes.CDLL(None).madvise
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return lambda first, n_bytes: call(first, n_bytes, mmap.MADV_HUGEPAGE)
