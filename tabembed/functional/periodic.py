"""Cosines and sines of a number at some frequencies per column."""

from __future__ import annotations

import torch
from torch import Tensor

from tabembed.functional.phase import angles, cos_sin


def periodic_code(x: Tensor, frequencies: Tensor) -> Tensor:
    """``[cos(2π c x), sin(2π c x)]`` of the numbers of every column.

    Args:
        x: numbers.
        frequencies: ``c``, in turns per unit of ``x``, a row for each column.

    Shape:
        - x: ``(*, n_features)``
        - frequencies: ``(n_features, n_frequencies)``
        - output: ``(*, n_features, 2 · n_frequencies)``, cosines first

    Source: Gorishniy et al. 2022, arXiv:2203.05556, equation 2.

    >>> periodic_code(torch.tensor([2.0]), torch.tensor([[0.25, 0.5]])).round().int().tolist()
    [[-1, 1, 0, 0]]
    """
    return cos_sin(angles(x.unsqueeze(-1), frequencies), "cos_sin")


def shifted_code(x: Tensor, frequencies: Tensor, phases: Tensor) -> Tensor:
    """``cos(2π c x + φ)`` of the numbers of every column.

    Args:
        x: numbers.
        frequencies: ``c``, in turns per unit of ``x``, a row for each column.
        phases: ``φ``, in radians, of the shape of ``frequencies``.

    Shape:
        - x: ``(*, n_features)``
        - frequencies, phases: ``(n_features, n_frequencies)``
        - output: ``(*, n_features, n_frequencies)``

    Source: Holzmüller et al. 2024, arXiv:2407.04491, appendix A (PBLD).

    >>> shifted_code(torch.tensor([2.0]), torch.tensor([[0.5]]), torch.tensor([[torch.pi]])).tolist()
    [[-1.0]]
    """
    return torch.cos(angles(x.unsqueeze(-1), frequencies) + phases)
