"""Pairs of features in a kernel: a tile of heads and steps, read and written sixteen bytes at a time."""

from __future__ import annotations

import triton
import triton.language as tl

N_WARPS = 4
_HEADS = 4  # heads that a program has under way at once


def tile(itemsize: int, n_pairs: int, n_heads: int, lanes: int) -> tuple[int, int]:
    """Steps and heads of a tile: with one head every lane has 16 bytes of both features of its pairs.

    Args:
        itemsize: bytes of a feature.
        n_pairs: pairs of a head.
        n_heads: heads in all.
        lanes: threads of a warp.
    """
    n_steps = N_WARPS * lanes * 16 // itemsize // triton.next_power_of_2(n_pairs)
    return max(1, n_steps), min(_HEADS, triton.next_power_of_2(max(1, n_heads)))


def options(nvidia: bool) -> dict[str, int]:
    """How a kernel over pairs is compiled: NVIDIA's compiler, left alone, saves registers and spills one."""
    return {"num_warps": N_WARPS, "maxnreg": 128} if nvidia else {"num_warps": N_WARPS}


@triton.jit
def along(columns, unit, UNIT: tl.constexpr):
    """Offsets of features that are ``unit`` elements apart: one, known ahead, when ``UNIT``."""
    return columns if UNIT else columns.to(tl.int64) * unit


@triton.jit
def load_pairs(rows, unit, mask, N: tl.constexpr, INTERLEAVED: tl.constexpr, UNIT: tl.constexpr):
    """First and second features of the pairs of rows ``(heads, steps, 1)``, in float32 or wider."""
    BLOCK: tl.constexpr = triton.next_power_of_2(N)
    DTYPE: tl.constexpr = tl.float64 if rows.dtype.element_ty == tl.float64 else tl.float32
    if INTERLEAVED:
        column = tl.arange(0, 2 * BLOCK)[None, None, :]
        both = tl.load(rows + along(column, unit, UNIT), mask=mask & (column < 2 * N), other=0.0)
        a, b = tl.split(tl.reshape(both, (rows.shape[0], rows.shape[1], BLOCK, 2)))
    else:
        j = tl.arange(0, BLOCK)[None, None, :]
        a = tl.load(rows + along(j, unit, UNIT), mask=mask & (j < N), other=0.0)
        b = tl.load(rows + along(N + j, unit, UNIT), mask=mask & (j < N), other=0.0)
    return a.to(DTYPE), b.to(DTYPE)


@triton.jit
def store_pairs(rows, unit, mask, a, b, N: tl.constexpr, INTERLEAVED: tl.constexpr, UNIT: tl.constexpr):
    """Round pairs once and write them where ``load_pairs`` would find them."""
    BLOCK: tl.constexpr = triton.next_power_of_2(N)
    a, b = a.to(rows.dtype.element_ty), b.to(rows.dtype.element_ty)
    if INTERLEAVED:
        column = tl.arange(0, 2 * BLOCK)[None, None, :]
        both = tl.reshape(tl.join(a, b), (rows.shape[0], rows.shape[1], 2 * BLOCK))
        tl.store(rows + along(column, unit, UNIT), both, mask=mask & (column < 2 * N))
    else:
        j = tl.arange(0, BLOCK)[None, None, :]
        tl.store(rows + along(j, unit, UNIT), a, mask=mask & (j < N))
        tl.store(rows + along(N + j, unit, UNIT), b, mask=mask & (j < N))
