"""Elapsed time as callers have it, numbers or timedeltas, and the weights that fade with it."""

from __future__ import annotations

import math
from datetime import timedelta
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_positive, is_concrete
from tabembed.functional.decay import decay as _weights
from tabembed.nn.number_input import as_numbers

_SECOND = np.timedelta64(1, "s")


def decay(elapsed: Any, half_life: Any) -> Tensor:
    """``2^(−elapsed / half_life)``; what has not happened yet has weight 1.

    Weights are from 0 to 1. Gradients are finite, and 0 where nothing has elapsed yet or nothing is left.

    Args:
        elapsed: time since an event: numbers in any unit, or timedeltas of Python, numpy or pandas, however
            short or long.
        half_life: time in which a weight halves, positive, of the same kind and in the same unit; one, or
            of a shape that broadcasts.

    Shape:
        - elapsed: ``(*)``
        - output: broadcast shape, in the dtype of ``elapsed``; float64 for integers and timedeltas. NaN and
          NaT give NaN

    Raises: ValueError for a half-life that is not positive, shapes that do not broadcast, and a plain integer
        that int64 cannot hold. TypeError for another kind, and numbers of one and timedeltas of the other.

    >>> decay(torch.tensor([0, 7, 14, -1000]), 7)
    tensor([1.0000, 0.5000, 0.2500, 1.0000], dtype=torch.float64)
    >>> decay([timedelta(days=1), timedelta(weeks=1)], timedelta(hours=24))
    tensor([0.5000, 0.0078], dtype=torch.float64)
    """
    (passed, timed), (life, life_timed) = _read(elapsed, "elapsed"), _read(half_life, "half_life")
    if timed != life_timed:
        raise TypeError("elapsed and half_life must both be numbers or both be timedeltas")
    if is_concrete(life) and life.numel():
        check_positive(half_life=float(life.detach().min()))
    _check_broadcast(passed, life)
    return _weights(passed, life)


def _check_broadcast(elapsed: Tensor, half_life: Tensor) -> None:
    """Both have shapes that broadcast."""
    sizes = zip(elapsed.shape[::-1], half_life.shape[::-1], strict=False)
    if any(a != b and 1 not in (a, b) for a, b in sizes):
        of_elapsed, got = tuple(elapsed.shape), tuple(half_life.shape)
        raise ValueError(
            f"half_life must have a shape that broadcasts with that of elapsed, {of_elapsed}, got {got}"
        )


def _read(x: Any, name: str) -> tuple[Tensor, bool]:
    """Numbers as a tensor, seconds for timedeltas, and whether they were timedeltas."""
    plain = isinstance(x, Tensor | Real) and not isinstance(x, bool | np.timedelta64)
    if plain:
        return as_numbers(x, name), False
    array = np.asarray(x)
    objects = array.dtype == object
    timed = array.dtype.kind == "m" or (objects and all(map(_is_span, array.flat)))
    if not timed and array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers or timedeltas, got {x!r}")
    if objects:  # one by one: numpy would cut what pandas holds below a microsecond
        seconds = [math.nan if one != one else one / _SECOND for one in array.flat]
        array = np.array(seconds, np.float64).reshape(array.shape)
    elif timed:
        array = array / _SECOND
    native = array.astype(array.dtype.newbyteorder("="), order="C")  # as torch reads it
    return as_numbers(torch.tensor(native, device="cpu"), name), timed


def _is_span(x: Any) -> bool:
    """Whether something is a timedelta, or missing: NaT and NaN are not what they are."""
    return isinstance(x, timedelta | np.timedelta64) or (x != x) is True
