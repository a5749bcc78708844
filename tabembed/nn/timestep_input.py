"""Times as callers of diffusion models have them: columns, plain numbers, some rounded already."""

from __future__ import annotations

import torch
from torch import Tensor

from tabembed._checks import is_concrete
from tabembed.nn.number_input import as_numbers

_LARGEST = 256  # whole numbers above are skipped by bfloat16


def as_times(t: Tensor | float, device: torch.device | None = None) -> Tensor:
    """Times as a tensor: a number becomes a tensor without dimensions, a column ``(B, 1)`` becomes ``(B,)``.

    Args:
        t: a tensor of integers or floats, or a number.
        device: where a number goes; a tensor stays.

    Raises: TypeError for another kind.

    >>> as_times(torch.tensor([[3], [5]]))
    tensor([3, 5])
    """
    t = as_numbers(t, "t", device)
    return t[:, 0] if t.ndim == 2 and t.shape[1] == 1 else t


def check_steps(t: Tensor | float, scale: float = 1.0) -> None:
    """No step of a diffusion model was lost when the times were rounded.

    Args:
        t: a tensor, or a number, which is never rounded.
        scale: what the times will be multiplied by.

    Raises: ValueError for a half-precision tensor with ``|t|`` or ``|scale · t|`` above 256, as far as
        that can be seen without waiting for a device.

    >>> check_steps(torch.tensor([937.0], dtype=torch.bfloat16))
    Traceback (most recent call last):
    ValueError: t must be float32, float64 or integers above 256, got torch.bfloat16 up to 936: ...
    """
    if not isinstance(t, Tensor) or not t.is_floating_point() or t.dtype.itemsize > 2:
        return
    if not is_concrete(t) or not t.numel():
        return
    largest = t.detach().float().abs().nan_to_num(0.0).max().item()
    if largest * max(1.0, abs(scale)) > _LARGEST:
        above = f"{_LARGEST}" if abs(scale) <= 1 else f"{_LARGEST} / scale = {_LARGEST / abs(scale):g}"
        raise ValueError(
            f"t must be float32, float64 or integers above {above}, got {t.dtype} up to {largest:g}: "
            "do not round times with the rest of the model"
        )
