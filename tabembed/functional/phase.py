"""Phases that keep their digits: multiplied and reduced before they are rounded."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tabembed._checks import is_concrete

_SPLIT = 2.0**27 + 1  # Dekker: cuts a float64 into two parts of 26 bits

_LARGE = 2**16  # numbers from which copying them costs more than taking views of where they belong


def widened(x: Tensor) -> Tensor:
    """The same numbers in float32 or wider: half precision becomes float32, integers float64."""
    if not x.is_floating_point():
        return x.double()
    return x.float() if x.dtype.itemsize < 4 else x


def turns(x: Tensor, frequencies: Tensor) -> Tensor:
    """Phases of numbers at some frequencies, in turns, whole turns taken off.

    Products of float64 numbers and of integers are exact (their rounding error is carried along),
    so that a phase is right to float32's last digit up to 2⁵³ and beyond; float32 numbers are
    multiplied in float32.

    Args:
        x: numbers ``(*, 1)``, or ``(*, n_frequencies)``.
        frequencies: turns per unit of ``x``, ``(n_frequencies,)`` or any shape that broadcasts.

    Shape:
        - output: broadcast shape, in [−½, ½], in the dtype of ``frequencies``, at least float32

    Source: Dekker 1971, "A floating-point technique for extending the available precision", (5.14).

    >>> turns(torch.tensor([1_700_000_000_000_001]), torch.tensor([0.25])).tolist()
    [0.25]
    """
    x, wide = widened(x), widened(frequencies)
    product = x * wide
    whole = product.detach().round()
    if x.dtype != torch.float64:
        return product - whole
    return (product - whole + _rounding_error(x.detach(), wide.detach().double(), product.detach())).to(wide)


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
        first, second = out.chunk(2, -1)
        cosine, sine = (first, second) if order == "cos_sin" else (second, first)
        torch.cos(angle, out=cosine)
        torch.sin(angle, out=sine)
        return out if amplitude == 1.0 else out.mul_(amplitude)
    cosine, sine = angle.cos(), angle.sin()
    both = torch.cat((cosine, sine) if order == "cos_sin" else (sine, cosine), -1)
    return both if amplitude == 1.0 else both * amplitude


def radians(turns: Tensor) -> Tensor:
    """Turns as radians."""
    return turns * (2 * math.pi)


def _pays_in_place(angle: Tensor) -> bool:
    """Many numbers, on the CPU, that no gradient is asked of."""
    if torch.compiler.is_compiling() or (angle.requires_grad and torch.is_grad_enabled()):
        return False
    return angle.numel() >= _LARGE and is_concrete(angle)


def _rounding_error(a: Tensor, b: Tensor, product: Tensor) -> Tensor:
    """What float64 multiplication lost: ``a · b − product``, exactly."""
    a_high, b_high = (_SPLIT * a - (_SPLIT * a - a)), (_SPLIT * b - (_SPLIT * b - b))
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
