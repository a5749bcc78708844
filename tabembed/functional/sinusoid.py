"""Sines and cosines of positions and times, on their own or added to something."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tabembed.functional.exact_phase import as_positions, exact_turns, in_turns
from tabembed.functional.phase import ORDERS, angles, cos_sin, part, radians, widened

WAVES = ("interleaved", *ORDERS, "sin")
"""How waves lie side by side: sine and cosine in turn (an odd width lacks the last cosine), sines before
cosines, cosines before sines, or sines alone."""


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


def add_waves(
    x: Tensor, positions: Tensor, frequencies: Tensor, phases: Tensor, scale: Tensor, order: str
) -> Tensor:
    """``x + scale · waves``: sines and cosines of ``position · frequencies + phases``.

    Args:
        x: what the waves are added to.
        positions: of the steps, int64 or float64.
        frequencies: turns per unit in three numbers, as ``in_turns`` gives them.
        phases: turns, one for each frequency.
        scale: one number.
        order: one of ``WAVES``.

    Shape:
        - x: ``(n_positions, n_rows, n_steps, dim)``: the rows share the positions of the steps
        - positions: ``(n_positions, n_steps)``; frequencies: ``(3, n_frequencies)`` float64;
          phases: ``(n_frequencies,)`` float64
        - output: shape and dtype of x, computed in float32 or wider

    Source: Vaswani et al. 2017, arXiv:1706.03762, 3.5; Kazemi et al. 2019, arXiv:1907.05321, equation 1.
    """
    turned = part(exact_turns(positions, frequencies) + phases)
    wide = widened(x)
    waves = scale.reshape(()).to(wide.dtype) * _waves(radians(turned).to(wide.dtype), order, x.shape[-1])
    return (wide + waves.unsqueeze(1)).to(x.dtype)


def _waves(angle: Tensor, order: str, dim: int) -> Tensor:
    if order == "sin":
        return angle.sin()
    if order in ORDERS:
        return cos_sin(angle, order)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)[..., :dim]


def falling(dim: int, base: float = 10_000.0) -> list[float]:
    """Frequencies of pairs of features: ``base^(−2i / dim)`` radians per unit, ``i = 0, 1, …``

    Source: Vaswani et al. 2017, arXiv:1706.03762, 3.5; Su et al. 2021, arXiv:2104.09864, equation 15.

    >>> falling(5)
    [1.0, 0.025118864315095794, 0.000630957344480193]
    """
    return [base ** (-2 * i / dim) for i in range((dim + 1) // 2)]


def sinusoidal_rows(
    n: int,
    dim: int,
    *,
    offset: int = 0,
    base: float = 10_000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Rows ``offset`` to ``offset + n`` of the table of sinusoidal position codes, sine and cosine in turn.

    Args:
        n: number of rows.
        dim: width of a row.
        offset: number of the first row, of any size.
        base: what the frequencies fall towards the inverse of.
        dtype: of the output.
        device: where to.

    Shape:
        - output: ``(n, dim)``

    Source: Vaswani et al. 2017, arXiv:1706.03762, 3.5.

    >>> sinusoidal_rows(2, 4, offset=1)
    tensor([[ 0.8415,  0.5403,  0.0100,  0.9999],
            [ 0.9093, -0.4161,  0.0200,  0.9998]])
    """
    frequencies = in_turns(torch.tensor(falling(dim, base), dtype=torch.float64, device=device))
    positions = as_positions(offset + torch.arange(n, device=device)).unsqueeze(0)
    nothing = torch.zeros((), dtype=dtype, device=device).expand(1, 1, n, dim)
    still = frequencies.new_zeros(frequencies.shape[-1])
    return add_waves(nothing, positions, frequencies, still, still.new_ones(()), "interleaved")[0, 0]
