"""Weights that halve with every half-life that has elapsed."""

from __future__ import annotations

from datetime import timedelta
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_number_tensor, check_positive, is_concrete
from tabembed.functional.phase import widened

_GONE = 1100.0  # half-lives after which float64 holds nothing but 0


def decay(elapsed: Any, half_life: Any) -> Tensor:
    """``2^(−elapsed / half_life)``; what has not happened yet has weight 1.

    Weights are from 0 to 1. Gradients are finite, and 0 where nothing has elapsed yet or nothing is left.

    Args:
        elapsed: time since an event: numbers in any unit, or timedeltas of Python, numpy or pandas.
        half_life: time in which a weight halves, positive, of the same kind and in the same unit; one, or
            of a shape that broadcasts.

    Shape:
        - elapsed: ``(*)``
        - output: broadcast shape, in the dtype of ``elapsed``; float64 for integers and timedeltas. NaN and
          NaT give NaN

    Raises: ValueError for a half-life that is not positive. TypeError for another kind, and for numbers of
        one and timedeltas of the other.

    >>> decay(torch.tensor([0, 7, 14, -1000]), 7)
    tensor([1.0000, 0.5000, 0.2500, 1.0000], dtype=torch.float64)
    >>> decay([timedelta(days=1), timedelta(weeks=1)], timedelta(hours=24))
    tensor([0.5000, 0.0078], dtype=torch.float64)
    """
    (passed, timed), (life, live_timed) = _numbers(elapsed, "elapsed"), _numbers(half_life, "half_life")
    if timed != live_timed:
        raise TypeError("elapsed and half_life must both be numbers or both be timedeltas")
    _check_half_life(life)
    dtype = passed.dtype if passed.is_floating_point() else torch.float64
    passed, life = widened(passed), widened(life)
    gone = passed > _GONE * life
    weight = torch.exp2(-(passed.clamp(min=0).masked_fill(gone, 0) / life))
    return weight.masked_fill(gone, 0).to(dtype)


def _numbers(x: Any, name: str) -> tuple[Tensor, bool]:
    """Numbers as a tensor, seconds for timedeltas, and whether they were timedeltas."""
    if isinstance(x, Tensor):
        check_number_tensor(x, name)
        return x, False
    if isinstance(x, Real) and not isinstance(x, bool | np.timedelta64):
        return torch.tensor(float(x), dtype=torch.float64, device="cpu"), False
    array = np.asarray(x)
    if array.dtype == object and array.size and all(isinstance(one, timedelta) for one in array.flat):
        array = array.astype("timedelta64[us]")
    if array.dtype.kind == "m":
        return torch.tensor(array / np.timedelta64(1, "s"), dtype=torch.float64, device="cpu"), True
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers or timedeltas, got {x!r}")
    return torch.tensor(array, device="cpu"), False


def _check_half_life(half_life: Tensor) -> None:
    if is_concrete(half_life) and half_life.numel():
        check_positive(half_life=float(half_life.detach().min()))
