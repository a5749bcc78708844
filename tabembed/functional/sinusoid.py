"""The sinusoid that diffusion models read their timestep through."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tabembed.functional.phase import angles, cos_sin


def ladder(
    n_frequencies: int,
    *,
    freq_shift: float = 0.0,
    max_period: float = 10_000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Frequencies that fall from 1 towards ``1 / max_period`` in equal ratios.

    Args:
        n_frequencies: how many.
        freq_shift: 0 stops one ratio above ``1 / max_period``, 1 stops there.
        max_period: longest period, in units of 2π.
        dtype: float32 or float64.
        device: where to.

    Shape:
        - output: ``(n_frequencies,)``, radians per unit of time

    >>> ladder(3, freq_shift=1, max_period=100.0)
    tensor([1.0000, 0.1000, 0.0100])
    """
    # The order of these operations is what makes the numbers equal to the peers' bit by bit.
    steps = torch.arange(n_frequencies, dtype=dtype, device=device)
    return steps.mul_(-math.log(max_period)).div_(n_frequencies - freq_shift).exp_()


def sinusoid(
    times: Tensor,
    dim: int,
    *,
    order: str = "cos_sin",
    freq_shift: float = 0.0,
    scale: float = 1.0,
    max_period: float = 10_000.0,
    exact: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Cosines and sines of ``scale · times · ladder``; one zero at the end when ``dim`` is odd.

    Args:
        times: any numbers.
        dim: width of the output.
        order: which half comes first, ``"cos_sin"`` or ``"sin_cos"``.
        freq_shift: see ``ladder``.
        scale: what times are multiplied by.
        max_period: see ``ladder``.
        exact: multiply in float64 and take whole turns off before rounding to ``dtype``; otherwise
            everything is done in ``dtype``.
        dtype: of the output, float32 or float64.

    Shape:
        - times: ``(*)``
        - output: ``(*, dim)``

    Source: Ho et al. 2020, arXiv:2006.11239, appendix B; Vaswani et al. 2017, arXiv:1706.03762, 3.5.

    >>> sinusoid(torch.tensor([0, 1]), 5)
    tensor([[1.0000, 1.0000, 0.0000, 0.0000, 0.0000],
            [0.5403, 0.9999, 0.8415, 0.0100, 0.0000]])
    """
    wide = torch.float64 if exact else dtype
    frequencies = ladder(
        dim // 2, freq_shift=freq_shift, max_period=max_period, dtype=wide, device=times.device
    )
    if exact:
        angle = angles(times.double().unsqueeze(-1), frequencies * (scale / (2 * math.pi))).to(dtype)
    else:
        times = times.to(dtype) if times.is_floating_point() else times  # integers are cast by the product
        angle = times.unsqueeze(-1) * frequencies
        angle = angle if scale == 1.0 else angle * scale
    halves = cos_sin(angle, order)
    return halves if dim % 2 == 0 else torch.nn.functional.pad(halves, (0, 1))
