"""Waves added in Triton: a tile of steps and frequencies is computed once, for all rows that share it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabembed.kernels.launch_triton import PROGRAMS as _PROGRAMS
from tabembed.kernels.launch_triton import on_nvidia, steps_in_memory
from tabembed.kernels.phase_triton import cos_sin, exact_turns, part

_TILE = 1024  # waves of a tile
_WIDEST = 128  # frequencies of a tile


@triton.jit(
    do_not_specialize=["n_tokens", "n_steps", "n_rows", "rows_each", "stride_p", "stride_r", "stride_s"]
)
def sinusoid_kernel(
    out,
    x,
    positions,
    frequencies,
    phases,
    scale,
    n_tokens,
    n_steps,
    n_rows,
    rows_each,
    stride_p,
    stride_r,
    stride_s,
    stride_d,
    ORDER: tl.constexpr,
    DIM: tl.constexpr,
    N: tl.constexpr,
    UNIT: tl.constexpr,
    ALIGNED: tl.constexpr,
    TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
    APPROXIMATE: tl.constexpr,
):
    """Add the waves of ``TOKENS`` steps and ``COLUMNS`` frequencies to ``rows_each`` rows.

    Strides of ``x`` other than ``stride_d``, which counts only where ``UNIT`` is false, are in units of
    ``ALIGNED`` elements, so that the compiler sees how far an address can be trusted.
    """
    N_TILES: tl.constexpr = (N + COLUMNS - 1) // COLUMNS
    WIDE: tl.constexpr = x.dtype.element_ty == tl.float64
    tile = tl.program_id(0) // N_TILES
    j = (tl.program_id(0) % N_TILES) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    n_token_tiles = (n_tokens + TOKENS - 1) // TOKENS
    token = (tile % n_token_tiles).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)[:, None]
    first = (tile // n_token_tiles).to(tl.int64) * rows_each
    there = token < n_tokens
    p, s = token // n_steps, token % n_steps

    turns = exact_turns(tl.load(positions + token, mask=there, other=0), frequencies, j, j < N, N)
    turns = part(turns + tl.load(phases + j, mask=j < N, other=0.0))
    cosine, sine = cos_sin(turns, WIDE, APPROXIMATE)
    factor = tl.load(scale).to(sine.dtype)
    cosine, sine = cosine * factor, sine * factor

    source = x + (p * stride_p + s * stride_s) * ALIGNED
    target = out + (p * n_rows * n_steps + s) * DIM
    halves: tl.constexpr = ORDER == "sin_cos" or ORDER == "cos_sin"
    if ORDER == "interleaved":
        waves = tl.interleave(sine, cosine)
        d = (tl.program_id(0) % N_TILES) * (2 * COLUMNS) + tl.arange(0, 2 * COLUMNS)[None, :]
    else:
        waves, d = cosine if ORDER == "cos_sin" else sine, j
    inside = there & (d < (N if halves else DIM))
    from_d = d if UNIT else d.to(tl.int64) * stride_d
    for r in range(first, tl.minimum(first + rows_each, n_rows)):
        from_row, to_row = source + r * stride_r * ALIGNED, target + r * n_steps * DIM
        values = tl.load(from_row + from_d, mask=inside, other=0.0).to(waves.dtype)
        if halves:
            from_second = d + N if UNIT else (d + N).to(tl.int64) * stride_d
            others = tl.load(from_row + from_second, mask=inside, other=0.0).to(waves.dtype)
            tl.store(to_row + N + d, others + (sine if ORDER == "cos_sin" else cosine), mask=inside)
        tl.store(to_row + d, values + waves, mask=inside)


def launch(
    out: Tensor, x: Tensor, positions: Tensor, frequencies: Tensor, phases: Tensor, scale: Tensor, order: str
) -> None:
    """Write ``functional.sinusoid.add_waves`` into ``out``, which is contiguous and not empty."""
    n_positions, n_rows, n_steps, dim = x.shape
    n = phases.numel()
    n_tokens = n_positions * n_steps
    columns = min(triton.next_power_of_2(n), _WIDEST)
    tokens = max(1, min(_TILE // columns, triton.next_power_of_2(n_tokens)))
    tiles = triton.cdiv(n_tokens, tokens) * triton.cdiv(n, columns)
    rows_each = triton.cdiv(n_rows, max(1, min(n_rows, _PROGRAMS // tiles)))
    aligned, strides = steps_in_memory(x)
    with torch.cuda.device_of(x):
        sinusoid_kernel[(tiles * triton.cdiv(n_rows, rows_each),)](
            out,
            x,
            positions.contiguous(),
            frequencies.contiguous(),
            phases.contiguous(),
            scale,
            n_tokens,
            n_steps,
            n_rows,
            rows_each,
            *strides,
            ORDER=order,
            DIM=dim,
            N=n,
            UNIT=x.stride(3) == 1,
            ALIGNED=aligned,
            TOKENS=tokens,
            COLUMNS=columns,
            APPROXIMATE=on_nvidia(x),
            num_warps=4 if on_nvidia(x) else 2,  # of twice as many threads
        )
