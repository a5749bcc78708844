"""Phases of positions of any size: row numbers, seconds or nanoseconds since 1970.

A frequency is held in three float64 numbers, the first two of 21 bits; a position is cut in two, of at most
32 bits each. Their products lose nothing before whole turns are taken off.
"""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from tabembed.functional.phase import part

_RADIAN = 1 / (2 * Fraction(3141592653589793238462643383279502884197169399375105820974944592, 10**63))
_HIGH = float(round(_RADIAN * 2**28) / Fraction(2**28))  # 26 bits of 1 / (2π), the 26 below, and the rest
_MIDDLE = float(round((_RADIAN - Fraction(_HIGH)) * 2**54) / Fraction(2**54))
_LOW = float(_RADIAN - Fraction(_HIGH) - Fraction(_MIDDLE))

_WORD = 2**32


def in_turns(frequencies: Tensor) -> Tensor:
    """Frequencies in turns, each as three numbers that sum to it: what ``exact_turns`` takes.

    The sum is right to 79 bits; the gradient flows through the last of the three.

    Args:
        frequencies: radians per unit, ``(n_frequencies,)``, float32 or float64, 0 or from 1e-100 to 1e100.

    Shape:
        - output: ``(3, n_frequencies)`` float64, turns per unit

    >>> in_turns(torch.tensor([1.0, 0.01])).sum(0)
    tensor([0.1592, 0.0016], dtype=torch.float64)
    """
    wide = frequencies.double()
    f = wide.detach()
    upper = _upper(f, 27)
    first = _upper(upper * _HIGH, 21)
    left = upper * _HIGH - first
    below = upper * _MIDDLE + (f - upper) * _HIGH
    second = _upper(left + below, 21)
    third = (left - second) + below + ((f - upper) * _MIDDLE + f * _LOW)
    return torch.stack((first, second, third + (wide - f) * float(_RADIAN)))


def exact_turns(positions: Tensor, frequencies: Tensor) -> Tensor:
    """How far every wave has turned at some positions, without its whole turns.

    Right to 1e-9 of a turn for all of int64 and for float64 numbers up to 2⁶³, at frequencies of up to a turn
    per unit; derivatives flow to both arguments.

    Args:
        positions: ``(*)`` int64 or float64.
        frequencies: what ``in_turns`` gives, ``(3, n_frequencies)``.

    Shape:
        - output: ``(*, n_frequencies)`` float64, from −½ to ½

    Source: Dekker 1971, "A floating-point technique for extending the available precision", section 4; here a
    position is cut at a bit, which no fused multiplication can undo.

    >>> exact_turns(torch.tensor([2**40 + 1]), in_turns(torch.tensor([torch.pi / 2], dtype=torch.float64)))
    tensor([[0.2500]], dtype=torch.float64)
    """
    products = [
        part(half.unsqueeze(-1) * frequency) for frequency in frequencies for half in halves(positions)
    ]
    return part(torch.stack(products).sum(0))


def halves(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Int64 or float64 positions as sums of two float64 numbers of at most 32 bits; the second has the slope.

    >>> [half.tolist() for half in halves(torch.tensor([2**40 + 1]))]
    [[1099511627776.0], [1.0]]
    """
    if positions.is_floating_point():
        high = _upper(positions.detach(), 32)
        return high, positions - high
    low = (positions << 32) >> 32  # with its sign: parts of small numbers would cancel in a gradient
    high = (positions >> 32) + (low < 0)
    return high.double() * _WORD, low.double()


def as_positions(positions: Tensor) -> Tensor:
    """Positions as the exact functions take them: integers as int64, floats as float64."""
    return positions.double() if positions.is_floating_point() else positions.long()


def _upper(x: Tensor, bits: int) -> Tensor:
    """The upper bits of float64 numbers."""
    return (x.contiguous().view(torch.int64) & -(2 ** (53 - bits))).view(torch.float64)
