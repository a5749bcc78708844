"""Rotary position encoding as an operator: what ``functional.rotary`` says, in one pass.

Its gradient is the opposite rotation. What positions, frequencies and rates need comes from two sums over the
heads: the dot and the cross products of the pairs of the gradient and of the output.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from tabembed.functional.rotary import turn
from tabembed.kernels import rotary_plain
from tabembed.kernels.backend import runs_triton
from tabembed.kernels.by_loop import by_loop
from tabembed.kernels.rotary_gradient import of_angle, of_decay


def run(
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
    """What ``functional.rotary.rotate`` gives, without a derivative."""
    if runs_triton(q):
        from tabembed.kernels.rotary_triton import rotate as turn_pairs
    else:
        turn_pairs = rotary_plain.rotate
    return turn_pairs(q, k, q_positions, k_positions, frequencies, rates, origin, interleaved, inverse)


rotate = torch.library.custom_op("tabembed::rotate", run, mutates_args=())


@torch.library.custom_op("tabembed::pair_products", mutates_args=())
def pair_products(grad: Tensor, output: Tensor, n_pairs: int, interleaved: bool) -> Tensor:
    """Dot and cross products of the pairs of two tensors, summed over the heads.

    Args:
        grad: ``(n_batch, n_heads, n, dim)``.
        output: the same shape.
        n_pairs: how many pairs there are in ``dim``.
        interleaved: pairs are neighbours.

    Shape:
        - output: ``(2, n_batch, n, n_pairs)``, float32, or float64 for tensors of float64
    """
    if runs_triton(grad):
        from tabembed.kernels.pair_products_triton import pair_products as run
    else:
        run = rotary_plain.pair_products
    return run(grad, output, n_pairs, interleaved)


@rotate.register_fake
def _(q: Tensor, k: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k)


@pair_products.register_fake
def _(grad: Tensor, output: Tensor, n_pairs: int, interleaved: bool) -> Tensor:
    n_batch, _, n, _ = grad.shape
    return grad.new_empty(2, n_batch, n, n_pairs, dtype=torch.promote_types(grad.dtype, torch.float32))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.interleaved, ctx.inverse = inputs
    outputs = output if any(ctx.needs_input_grad[2:6]) else ()
    ctx.save_for_backward(*tensors[2:], *outputs)


def _back(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    q_positions, k_positions, frequencies, rates, origin, *outputs = ctx.saved_tensors
    found: list[Any] = [None] * 9
    if any(ctx.needs_input_grad[:2]):
        q, k = (x if need else x[:, :0] for x, need in zip(grads, ctx.needs_input_grad, strict=False))
        places = q_positions, k_positions, frequencies, rates, origin
        found[:2] = rotate(q, k, *places, ctx.interleaved, not ctx.inverse)
    if outputs:
        sides = zip(grads, outputs, (q_positions, k_positions), (-1, 1), strict=True)
        found[2:6] = _of_places(sides, frequencies, rates, origin, ctx.interleaved, ctx.inverse)
    return tuple(x if need else None for x, need in zip(found, ctx.needs_input_grad, strict=True))


def _of_places(
    sides: Any,
    frequencies: Tensor,
    rates: Tensor | None,
    origin: Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> tuple[Tensor | None, ...]:
    """Gradients of both positions, of the frequencies and of the rates."""
    of_positions, of_frequencies, of_rates = [], [], []
    for grad, output, positions, sign in sides:
        products = pair_products(grad, output, frequencies.shape[1], interleaved)
        dot, cross = products.sum(1, keepdim=True) if positions.shape[0] == 1 else products
        of_position, of_frequency = of_angle(-cross if inverse else cross, positions, frequencies)
        if rates is not None and origin is not None:
            more, of_growth = of_decay(dot, positions, sign * rates, origin, output.dtype)
            of_position = of_position + more
            of_rates.append(sign * of_growth)
        of_positions.append(of_position)
        of_frequencies.append(of_frequency)
    total = sum(of_rates[1:], of_rates[0]).to(rates) if rates is not None else None
    return (*of_positions, sum(of_frequencies[1:], of_frequencies[0]), total)


rotate.register_autograd(_back, setup_context=_keep)
rotate.register_vmap(by_loop(rotate))


def _keep_pairs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.n_pairs, ctx.interleaved = inputs
    ctx.save_for_backward(*tensors)


def _back_pairs(ctx: Any, of_products: Tensor) -> tuple[Tensor | None, ...]:
    """Both products are bilinear: their derivatives are rotations by them, stretched."""
    grad, output = ctx.saved_tensors
    dot, cross = of_products.unsqueeze(-3)
    rest = grad.shape[-1] - 2 * ctx.n_pairs
    of_grad, of_output = (
        pad(turn(x[..., : 2 * ctx.n_pairs], dot, sine, ctx.interleaved), (0, rest))
        for x, sine in ((output, cross), (grad, -cross))
    )
    return of_grad, of_output, None, None


pair_products.register_autograd(_back_pairs, setup_context=_keep_pairs)
pair_products.register_vmap(by_loop(pair_products))
