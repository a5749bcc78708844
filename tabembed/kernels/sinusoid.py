"""Waves added in one pass: the operator, its derivatives, and how it runs without Triton."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tabembed.functional.phase import widened
from tabembed.kernels.backend import runs_triton
from tabembed.kernels.by_loop import by_loop
from tabembed.kernels.phase_plain import single, turns

_BLOCK = 2**14  # phases at a time: what a core's cache holds

_QUARTER = 0.25  # of a turn: the derivative of a sine is the sine that far ahead


def run(
    x: Tensor, positions: Tensor, frequencies: Tensor, phases: Tensor, scale: Tensor, order: str
) -> Tensor:
    """What ``functional.sinusoid.add_waves`` gives, without a derivative; the output is contiguous."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    if runs_triton(x):
        from tabembed.kernels.sinusoid_triton import launch

        launch(out, x, positions, frequencies, phases, scale, order)
        return out
    waves = torch.empty(*positions.shape, x.shape[-1], dtype=widened(x).dtype, device=x.device)
    _write_waves(waves.flatten(0, 1), positions.reshape(-1, 1), frequencies, phases, order)
    return torch.add(x, waves.mul_(scale.reshape(())).unsqueeze(1), out=out)


sinusoid = torch.library.custom_op("tabembed::sinusoid", run, mutates_args=())


@sinusoid.register_fake
def _(x: Tensor, positions: Tensor, frequencies: Tensor, phases: Tensor, scale: Tensor, order: str) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, *numbers, ctx.order = inputs
    ctx.dtype, ctx.dim = widened(x).dtype, x.shape[-1]
    ctx.save_for_backward(*numbers)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Those asked for, summed in float64; made of differentiable operators and of this one."""
    of_x, of_positions, of_frequencies, of_phases, of_scale, _ = ctx.needs_input_grad
    positions, frequencies, phases, scale = ctx.saved_tensors
    gradients: list[Tensor | None] = [grad if of_x else None, None, None, None, None, None]
    if not (of_positions or of_frequencies or of_phases or of_scale):
        return tuple(gradients)
    nothing = grad.new_zeros((), dtype=ctx.dtype).expand(len(positions), 1, positions.shape[1], ctx.dim)
    one = torch.ones_like(scale, dtype=torch.float64)
    total = grad.sum(1, dtype=torch.float64)
    if of_scale:
        waves = sinusoid(nothing, positions, frequencies, phases, one, ctx.order)
        gradients[4] = (total * waves.squeeze(1)).sum().to(scale.dtype).reshape(scale.shape)
    if not (of_positions or of_frequencies or of_phases):
        return tuple(gradients)
    slopes = sinusoid(nothing, positions, frequencies, phases + _QUARTER, one, ctx.order)
    of_turns = _by_frequency(total * slopes.squeeze(1), ctx.order) * (
        2 * math.pi * scale.double().reshape(())
    )
    if of_positions:
        gradients[1] = (of_turns * frequencies.sum(0)).sum(-1).to(positions.dtype)
    if of_frequencies:
        each = (positions.double().unsqueeze(-1) * of_turns).sum((0, 1))
        gradients[2] = each.to(frequencies.dtype).expand_as(frequencies)
    if of_phases:
        gradients[3] = of_turns.sum((0, 1)).to(phases.dtype)
    return tuple(gradients)


sinusoid.register_autograd(_gradients, setup_context=_keep)
sinusoid.register_vmap(by_loop(sinusoid))


def _by_frequency(columns: Tensor, order: str) -> Tensor:
    """The sum of each sine's column and its cosine's: ``(*, dim)`` as ``(*, n_frequencies)``."""
    if order == "sin":
        return columns
    if order == "interleaved":
        even = torch.nn.functional.pad(columns, (0, columns.shape[-1] % 2))
        return even.unflatten(-1, (-1, 2)).sum(-1)
    return columns.unflatten(-1, (2, -1)).sum(-2)


def _write_waves(waves: Tensor, positions: Tensor, frequencies: Tensor, phases: Tensor, order: str) -> None:
    """Write the waves of positions ``(n, 1)`` into ``waves (n, dim)``, a block of rows at a time."""
    n_rows, sums = max(1, _BLOCK // phases.shape[0]), single(positions, frequencies)
    for start in range(0, positions.shape[0], n_rows):
        block, some = waves[start : start + n_rows], positions[start : start + n_rows]
        angle = turns(some, frequencies, phases, sums).mul_(2 * math.pi).to(waves.dtype)
        sine, cosine = _places(block, order)
        torch.sin(angle, out=sine)
        if cosine is not None:
            torch.cos(angle[:, : cosine.shape[-1]], out=cosine)


def _places(block: Tensor, order: str) -> tuple[Tensor, Tensor | None]:
    """Where in a block sines and cosines go."""
    if order == "sin":
        return block, None
    if order == "interleaved":
        return block[:, ::2], block[:, 1::2]
    first, second = block.chunk(2, -1)
    return (first, second) if order == "sin_cos" else (second, first)
