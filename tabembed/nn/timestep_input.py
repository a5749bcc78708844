"""Times as callers have them: tensors of any kind, columns, plain numbers."""

from __future__ import annotations

from numbers import Integral, Real

import torch
from torch import Tensor

from tabembed._checks import is_concrete

_LARGEST = 256  # whole numbers above are skipped by bfloat16


def as_times(t: Tensor | float, *, scale: float = 1.0, device: torch.device | None = None) -> Tensor:
    """Times as a tensor: a number becomes a tensor without dimensions, a column ``(B, 1)`` becomes ``(B,)``.

    Args:
        t: a tensor of integers or floats, or a number.
        scale: what the times will be multiplied by; widens the check below.
        device: where a number goes; a tensor stays.

    Raises: TypeError for another kind. ValueError for a half-precision tensor with ``|t|`` or
        ``|scale · t|`` above 256, where the step that was meant is already lost (as far as that can be
        seen without waiting for a device).

    >>> as_times(torch.tensor([[3], [5]]))
    tensor([3, 5])
    >>> as_times(torch.tensor([937.0], dtype=torch.bfloat16))
    Traceback (most recent call last):
    ValueError: t must be float32, float64 or integers above 256, got torch.bfloat16 up to 936: ...
    """
    if isinstance(t, Tensor):
        if t.dtype == torch.bool or t.is_complex():
            raise TypeError(f"t must be integers or floats, got {t.dtype}")
        _check_half(t, scale)
        return t[:, 0] if t.ndim == 2 and t.shape[1] == 1 else t
    if isinstance(t, bool) or not isinstance(t, Real):
        raise TypeError(f"t must be a tensor or a number, got {t!r}")
    if isinstance(t, Integral):
        return torch.tensor(int(t), dtype=torch.int64, device=device)
    return torch.tensor(float(t), dtype=torch.float64, device=device)


def _check_half(t: Tensor, scale: float) -> None:
    if not t.is_floating_point() or t.dtype.itemsize > 2 or not is_concrete(t) or not t.numel():
        return
    largest = t.detach().float().abs().nan_to_num(0.0).max().item()
    if largest * max(1.0, abs(scale)) > _LARGEST:
        above = f"{_LARGEST}" if abs(scale) <= 1 else f"{_LARGEST} / scale = {_LARGEST / abs(scale):g}"
        raise ValueError(
            f"t must be float32, float64 or integers above {above}, got {t.dtype} up to {largest:g}: "
            "do not round times with the rest of the model"
        )
