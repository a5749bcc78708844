"""Dot and cross products of pairs on a GPU, summed over heads by one program, so equal in every run."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabembed.kernels.launch_triton import lanes, on_nvidia, steps_in_memory
from tabembed.kernels.pairs_triton import load_pairs, options, tile

_SIZES = ["n_steps", "n_tokens", "n_heads", "g_batch", "g_head", "g_step", "o_batch", "o_head", "o_step"]


@triton.jit(do_not_specialize=_SIZES)
def pair_products_kernel(
    grad, output, products, n_steps, n_tokens, n_heads,
    g_batch, g_head, g_step, g_unit, o_batch, o_head, o_step, o_unit,
    ALIGNED: tl.constexpr, UNIT: tl.constexpr, TOKENS: tl.constexpr, N: tl.constexpr,
    INTERLEAVED: tl.constexpr,
):  # fmt: skip
    """Sum over all heads, one by one, for ``TOKENS`` steps; strides as in ``rotate_kernel``."""
    BLOCK: tl.constexpr = triton.next_power_of_2(N)
    token = tl.program_id(0) % ((n_tokens + TOKENS - 1) // TOKENS) * TOKENS
    token += tl.arange(0, TOKENS)[None, :, None]
    there = token < n_tokens
    batch, step = (token // n_steps).to(tl.int64), (token % n_steps).to(tl.int64)
    of_grad = grad + (batch * g_batch + step * g_step) * ALIGNED
    of_output = output + (batch * o_batch + step * o_step) * ALIGNED
    dot = tl.zeros((1, TOKENS, BLOCK), products.dtype.element_ty)
    cross = tl.zeros((1, TOKENS, BLOCK), products.dtype.element_ty)
    g_next, o_next = tl.cast(g_head, tl.int64) * ALIGNED, tl.cast(o_head, tl.int64) * ALIGNED
    for head in range(n_heads):
        g, h = load_pairs(of_grad + head * g_next, g_unit, there, N, INTERLEAVED, UNIT)
        a, b = load_pairs(of_output + head * o_next, o_unit, there, N, INTERLEAVED, UNIT)
        dot += g * a + h * b
        cross += h * a - g * b
    j = tl.arange(0, BLOCK)[None, None, :]
    target, mask = products + token.to(tl.int64) * N + j, there & (j < N)
    tl.store(target, dot, mask=mask)
    tl.store(target + tl.cast(n_tokens, tl.int64) * N, cross, mask=mask)


def pair_products(grad: Tensor, output: Tensor, n_pairs: int, interleaved: bool) -> Tensor:
    """What ``rotary_plain.pair_products`` gives."""
    n_batch, n_heads, n_steps, _ = grad.shape
    dtype = torch.promote_types(grad.dtype, torch.float32)
    products = grad.new_empty(2, n_batch, n_steps, n_pairs, dtype=dtype)
    if products.numel():
        n_tokens = n_batch * n_steps
        tokens, _ = tile(grad.element_size(), n_pairs, 1, lanes(grad))
        aligned, strides = steps_in_memory(grad, output)
        with torch.cuda.device_of(grad):
            pair_products_kernel[(triton.cdiv(n_tokens, tokens),)](
                grad, output, products, n_steps, n_tokens, n_heads, *strides,
                aligned, grad.stride(-1) == output.stride(-1) == 1, tokens, n_pairs, interleaved,
                **options(on_nvidia(grad)),
            )  # fmt: skip
    return products
