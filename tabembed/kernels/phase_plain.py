"""Phases in PyTorch's own operators, for numbers that are there: one product where that is exact enough."""

from __future__ import annotations

import torch
from torch import Tensor

from tabembed.functional.exact_phase import halves

_PLAIN = 2.0**20  # turns up to which one product in float64 is as exact as ``exact_turns`` promises


def single(positions: Tensor, frequencies: Tensor) -> Tensor | None:
    """Frequencies in one number each, where every position turns so little that ``turns`` may multiply once.

    Positions are not empty; waits for a device.
    """
    sums = frequencies.sum(0)
    low, high = positions.aminmax()
    return sums if max(-low.item(), high.item()) * sums.abs().amax().item() < _PLAIN else None


def turns(positions: Tensor, frequencies: Tensor, phases: Tensor, sums: Tensor | None) -> Tensor:
    """What ``exact_turns`` gives plus phases, with few temporaries and no derivative.

    Args:
        positions: int64 or float64.
        frequencies: turns per unit in three numbers.
        phases: turns.
        sums: what ``single`` gives.

    Shape:
        - positions: ``(n, 1)``; frequencies: ``(3, n_frequencies)``; phases: ``(n_frequencies,)``
        - output: ``(n, n_frequencies)`` float64, from −½ to ½
    """
    if sums is not None:
        total = torch.addcmul(phases, positions.double(), sums)
        return total.sub_(total.round())
    total = phases.repeat(len(positions), 1)
    product, whole = torch.empty_like(total), torch.empty_like(total)
    for half in halves(positions):
        for frequency in frequencies:
            torch.round(torch.mul(half, frequency, out=product), out=whole)
            total.add_(product.sub_(whole))
    return total.sub_(torch.round(total, out=whole))
