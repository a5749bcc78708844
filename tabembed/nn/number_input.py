"""Numbers as callers have them: tensors of integers or floats, and plain numbers."""

from __future__ import annotations

from numbers import Integral, Real

import torch
from torch import Tensor

from tabembed._checks import check_int64, check_number_tensor


def as_numbers(x: Tensor | float, name: str, device: torch.device | None = None) -> Tensor:
    """Numbers as a tensor: a plain number becomes one without dimensions, and keeps its digits.

    Args:
        x: a tensor of integers or floats, or a number.
        name: public name of the argument, for the message.
        device: where a number goes; a tensor stays.

    Shape:
        - output: shape of ``x``; of a number int64 or float64

    Raises: TypeError for another kind. ValueError for an integer that int64 cannot hold.

    >>> as_numbers(3, "x")
    tensor(3)
    """
    if isinstance(x, Tensor):
        check_number_tensor(x, name)
        if x.dtype == torch.uint64:
            raise TypeError(f"{name} must be floats or integers up to int64, got {x.dtype}")
        return x
    if isinstance(x, bool) or not isinstance(x, Real):
        raise TypeError(f"{name} must be a tensor or a number, got {x!r}")
    if isinstance(x, Integral):
        check_int64(**{name: x})
        return torch.tensor(int(x), dtype=torch.int64, device=device)
    return torch.tensor(float(x), dtype=torch.float64, device=device)
