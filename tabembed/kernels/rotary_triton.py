"""The rotation on a GPU: queries and keys in one launch, angles once for all heads that a program turns."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabembed.functional.rotary import exponent_limit
from tabembed.kernels.launch_triton import PROGRAMS as _PROGRAMS
from tabembed.kernels.launch_triton import lanes, on_nvidia, steps_in_memory
from tabembed.kernels.pairs_triton import along, load_pairs, options, store_pairs, tile
from tabembed.kernels.phase_triton import cos_sin, exact_turns

_SIDE = ["steps", "tokens", "heads", "each", "batch", "head", "step", "out_batch", "out_head", "out_step"]
_SIZES = [f"{side}_{size}" for side in "qk" for size in (*_SIDE, "p_batch", "p_step")]


@triton.jit
def amplitudes(positions, origin, growth, LIMIT: tl.constexpr, WIDE: tl.constexpr):
    """What ``functional.rotary.amplitudes`` gives, for a tile of positions and of pairs."""
    if positions.dtype == tl.int64:
        high = ((positions >> 32) - (origin >> 32)).to(tl.float64)
        elapsed = high * 4294967296.0 + ((positions & 4294967295) - (origin & 4294967295)).to(tl.float64)
    else:
        elapsed = positions - origin
    exponent = tl.minimum(tl.maximum(elapsed * growth, -LIMIT), LIMIT)
    if WIDE:
        return tl.exp(exponent)
    # A power of two is exact, and what is left of the exponent small enough for float32.
    exponent = exponent * 1.4426950408889634
    whole = tl.floor(exponent + 0.5)
    return tl.exp2(whole.to(tl.float32)) * tl.exp2((exponent - whole).to(tl.float32))


@triton.jit
def turn(
    program, x, out, positions, frequencies, rates, origin, n_steps, n_tokens, n_heads, heads_each,
    x_batch, x_head, x_step, x_unit, out_batch, out_head, out_step, out_unit, p_batch, p_step, origin_batch,
    SIGN: tl.constexpr, ALIGNED: tl.constexpr, UNIT: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr,
    LIMIT: tl.constexpr, N: tl.constexpr, DIM: tl.constexpr, INTERLEAVED: tl.constexpr,
    INVERSE: tl.constexpr, DECAY: tl.constexpr, APPROXIMATE: tl.constexpr,
):  # fmt: skip
    """Turn ``TOKENS`` steps of ``heads_each`` heads of one tensor."""
    WIDE: tl.constexpr = x.dtype.element_ty == tl.float64
    n_tiles = (n_tokens + TOKENS - 1) // TOKENS
    # Divided in 32 bits, unless there are so many tokens that ``n_tokens`` comes in 64.
    token = program % n_tiles * TOKENS + tl.arange(0, TOKENS)[:, None]
    there = token < n_tokens
    batch, step = (token // n_steps).to(tl.int64), (token % n_steps).to(tl.int64)
    j = tl.arange(0, triton.next_power_of_2(N))[None, :]

    position = tl.load(positions + batch * p_batch + step * p_step, mask=there, other=0)
    cosine, sine = cos_sin(exact_turns(position, frequencies, j, j < N, N), WIDE, APPROXIMATE)
    if INVERSE:
        sine = -sine
    if DECAY:
        growth = SIGN * tl.load(rates + j, mask=j < N, other=0.0).to(tl.float64)
        start = tl.load(origin + batch * origin_batch, mask=there, other=0)
        amplitude = amplitudes(position, start, growth, LIMIT, WIDE)
        cosine, sine = cosine * amplitude, sine * amplitude
    cosine, sine = cosine[None, :, :], sine[None, :, :]

    first = program // n_tiles * heads_each
    last = tl.minimum(first + heads_each, n_heads)
    source = x + ((batch * x_batch + step * x_step) * ALIGNED)[None, :, :]
    target = out + ((batch * out_batch + step * out_step) * ALIGNED)[None, :, :]
    for some in range(first, last, HEADS):
        head = (some + tl.arange(0, HEADS)[:, None, None]).to(tl.int64)
        mask = there[None, :, :] & (head < last)
        from_rows, to_rows = source + head * x_head * ALIGNED, target + head * out_head * ALIGNED
        a, b = load_pairs(from_rows, x_unit, mask, N, INTERLEAVED, UNIT)
        u, v = a * cosine - b * sine, b * cosine + a * sine
        store_pairs(to_rows, out_unit, mask, u, v, N, INTERLEAVED, UNIT)
        if DIM > 2 * N:
            column = 2 * N + tl.arange(0, triton.next_power_of_2(DIM - 2 * N))[None, None, :]
            rest = tl.load(from_rows + along(column, x_unit, UNIT), mask=mask & (column < DIM), other=0.0)
            tl.store(to_rows + along(column, out_unit, UNIT), rest, mask=mask & (column < DIM))


@triton.jit(do_not_specialize=["q_programs", "origin_batch", *_SIZES])
def rotate_kernel(
    q_programs, frequencies, rates, origin, origin_batch,
    q, q_out, q_positions, q_steps, q_tokens, q_heads, q_each, q_batch, q_head, q_step, q_unit,
    q_out_batch, q_out_head, q_out_step, q_out_unit, q_p_batch, q_p_step,
    k, k_out, k_positions, k_steps, k_tokens, k_heads, k_each, k_batch, k_head, k_step, k_unit,
    k_out_batch, k_out_head, k_out_step, k_out_unit, k_p_batch, k_p_step,
    Q_ALIGNED: tl.constexpr, Q_UNIT: tl.constexpr, Q_TOKENS: tl.constexpr, Q_TILE: tl.constexpr,
    Q_LIMIT: tl.constexpr,
    K_ALIGNED: tl.constexpr, K_UNIT: tl.constexpr, K_TOKENS: tl.constexpr, K_TILE: tl.constexpr,
    K_LIMIT: tl.constexpr,
    N: tl.constexpr, DIM: tl.constexpr, INTERLEAVED: tl.constexpr, INVERSE: tl.constexpr, DECAY: tl.constexpr,
    APPROXIMATE: tl.constexpr,
):  # fmt: skip
    """Turn queries with the first programs and keys with those after them: one call for each, so that the
    compiler keeps what it knows of either's addresses.

    Strides of ``q``, ``k`` and their outputs are in units of ``ALIGNED`` elements, but for that from one
    feature to the next, ``unit``, which counts only where ``UNIT`` is false.
    """
    program = tl.program_id(0)
    if program < q_programs:
        turn(
            program, q, q_out, q_positions, frequencies, rates, origin, q_steps, q_tokens, q_heads, q_each,
            q_batch, q_head, q_step, q_unit, q_out_batch, q_out_head, q_out_step, q_out_unit,
            q_p_batch, q_p_step, origin_batch, -1.0, Q_ALIGNED, Q_UNIT, Q_TOKENS, Q_TILE,
            Q_LIMIT, N, DIM, INTERLEAVED, INVERSE, DECAY, APPROXIMATE,
        )  # fmt: skip
    else:
        turn(
            program - q_programs, k, k_out, k_positions, frequencies, rates, origin, k_steps, k_tokens,
            k_heads, k_each, k_batch, k_head, k_step, k_unit, k_out_batch, k_out_head, k_out_step, k_out_unit,
            k_p_batch, k_p_step, origin_batch, 1.0, K_ALIGNED, K_UNIT, K_TOKENS, K_TILE,
            K_LIMIT, N, DIM, INTERLEAVED, INVERSE, DECAY, APPROXIMATE,
        )  # fmt: skip


def rotate(
    q: Tensor,
    k: Tensor,
    q_positions: Tensor,
    k_positions: Tensor,
    frequencies: Tensor,
    rates: Tensor | None,
    origin: Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> tuple[Tensor, Tensor]:
    """What ``functional.rotary.rotate`` gives, without a derivative, in the strides of ``empty_like``."""
    n_pairs = frequencies.shape[1]
    q_out, q_programs, q_arguments, q_constants = _side(q, q_positions, n_pairs)
    k_out, k_programs, k_arguments, k_constants = _side(k, k_positions, n_pairs)
    decays = rates is not None and origin is not None
    if rates is None or origin is None:
        rates, origin = frequencies, q_positions  # not read
    if q_programs + k_programs:
        with torch.cuda.device_of(q):
            rotate_kernel[(q_programs + k_programs,)](
                q_programs,
                frequencies.contiguous(),
                rates.contiguous(),
                origin,
                origin.stride(0) if len(origin) > 1 else 0,
                *q_arguments,
                *k_arguments,
                *q_constants,
                *k_constants,
                n_pairs,
                q.shape[-1],
                interleaved,
                inverse,
                decays,
                on_nvidia(q),
                **options(on_nvidia(q)),
            )
    return q_out, k_out


def _side(x: Tensor, positions: Tensor, n_pairs: int) -> tuple[Tensor, int, list[Any], tuple[Any, ...]]:
    """Output, number of programs, arguments and constants of the kernel for queries or for keys."""
    out = torch.empty_like(x)
    n_batch, n_heads, n_steps, _ = x.shape
    tokens, heads = tile(x.element_size(), n_pairs, n_heads, lanes(x))
    n_tiles, n_rounds = triton.cdiv(n_batch * n_steps, tokens), triton.cdiv(n_heads, heads)
    n_groups = min(n_rounds, max(1, _PROGRAMS // max(1, n_tiles)))
    each = triton.cdiv(n_rounds, max(1, n_groups)) * heads
    programs = n_tiles * triton.cdiv(n_heads, each) if x.numel() else 0
    aligned, strides = steps_in_memory(x, out)
    places = (positions.stride(0) if len(positions) > 1 else 0), positions.stride(1)
    sizes = [n_steps, n_batch * n_steps, n_heads, each]
    unit, limit = x.stride(-1) == out.stride(-1) == 1, exponent_limit(x.dtype)
    return (
        out,
        programs,
        [x, out, positions, *sizes, *strides, *places],
        (aligned, unit, tokens, heads, limit),
    )
