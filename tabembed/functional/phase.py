"""Phases that keep their digits: multiplied and reduced before they are rounded."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from tabembed._checks import is_concrete

RADIAN = 1 / (2 * math.pi)
"""One radian in turns."""

ORDERS = ("sin_cos", "cos_sin")
"""Which half comes first, sines or cosines."""

_SPLIT = 2.0**24 + 1  # Dekker: cuts a float64 into its upper 29 bits and the 24 below

_LARGE, _WIDE = 2**16, 64  # numbers in all and in a row from which copying costs more than strided writing


def widened(x: Tensor) -> Tensor:
    """The same numbers in float32 or wider: half precision becomes float32, integers float64."""
    if not x.is_floating_point():
        return x.double()
    return x.float() if x.dtype.itemsize < 4 else x


def turns(x: Tensor, frequencies: Tensor) -> Tensor:
    """Phases of numbers at some frequencies, in turns.

    Whole turns are taken off the phases of float64 numbers and of integers before anything is
    rounded, so that they are right to float32's last digit up to 2⁵³; float32 numbers are
    multiplied in float32, which sine and cosine take as it is. From 1e300 on (a number, or its product
    with a frequency; float32 from 3e38 on) the result is NaN.

    Args:
        x: numbers ``(*, 1)``, or ``(*, n_frequencies)``.
        frequencies: turns per unit of ``x``, ``(n_frequencies,)`` or any shape that broadcasts.

    Shape:
        - output: broadcast shape, in the dtype of ``frequencies``, at least float32; in [−½, ½] for
          float64 numbers and integers

    Source: Dekker 1971, "A floating-point technique for extending the available precision", section 4.

    >>> turns(torch.tensor([1_700_000_000_000_001]), torch.tensor([0.25])).tolist()
    [0.25]
    """
    x, frequencies = widened(x), widened(frequencies)
    if x.dtype != torch.float64:
        return x * frequencies
    # The product of 29 or 24 bits and the 24 of a float32 fits into float64: nothing is rounded away.
    high = (_SPLIT * x - (_SPLIT * x - x)).detach()
    if frequencies.dtype != torch.float64:
        wide = frequencies.double()
        return part(torch.addcmul(part(high * wide), x - high, wide)).to(frequencies)
    coarse = frequencies.detach().float().double()
    fine = torch.addcmul(part(high * coarse), x - high, coarse)
    return part(torch.addcmul(fine, x, frequencies - coarse))


def angles(x: Tensor, frequencies: Tensor) -> Tensor:
    """Phases as ``turns`` gives them, in radians: what sine and cosine take.

    >>> angles(torch.tensor([0.5]), torch.tensor([1.0])).tolist()
    [3.1415927410125732]
    """
    if widened(x).dtype == torch.float64:
        return radians(turns(x, frequencies))
    return turns(x, radians(widened(frequencies)))  # few frequencies, many numbers: multiplied once


def cos_sin(angle: Tensor, order: str, amplitude: float = 1.0) -> Tensor:
    """Cosines and sines of angles side by side in the last dimension, times an amplitude.

    Args:
        angle: radians, ``(*, n)``.
        order: ``"cos_sin"`` or ``"sin_cos"``: which half comes first.
        amplitude: what both are multiplied by.

    Shape:
        - output: ``(*, 2 · n)``
    """
    if _pays_in_place(angle):
        # Written where they belong: concatenation would copy them, which takes longer than they do.
        out = angle.new_empty(*angle.shape[:-1], 2 * angle.shape[-1])
        return write_cos_sin(angle, order, amplitude, out)
    cosine, sine = angle.cos(), angle.sin()
    both = torch.cat((cosine, sine) if order == "cos_sin" else (sine, cosine), -1)
    return both if amplitude == 1.0 else both * amplitude


def write_cos_sin(angle: Tensor, order: str, amplitude: float, out: Tensor) -> Tensor:
    """Write into ``out`` what ``cos_sin`` gives, without a derivative, and return it."""
    first, second = out.chunk(2, -1)
    cosine, sine = (first, second) if order == "cos_sin" else (second, first)
    torch.cos(angle, out=cosine)
    torch.sin(angle, out=sine)
    return out if amplitude == 1.0 else out.mul_(amplitude)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """A context in which nothing is rounded to half precision, on devices that would (``meta`` does not)."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def radians(turns: Tensor) -> Tensor:
    """Turns as radians."""
    return turns * (2 * math.pi)


def _pays_in_place(angle: Tensor) -> bool:
    """Many numbers, on the CPU, that no gradient is asked of."""
    if torch.compiler.is_compiling() or (angle.requires_grad and torch.is_grad_enabled()):
        return False
    return angle.numel() >= _LARGE and angle.shape[-1] >= _WIDE and is_concrete(angle)


def part(turns: Tensor) -> Tensor:
    """Turns without the whole ones: from −½ to ½."""
    return turns - turns.detach().round()
