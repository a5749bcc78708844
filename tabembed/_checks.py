"""Argument checks that modules share: one check and one message per rule."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor


def check_integer(minimum: int = 1, **numbers: Any) -> None:
    """Each number, given by its public name, is an integer of at least ``minimum``.

    Raises: TypeError for another kind (bool included), ValueError for a smaller number.

    >>> check_integer(embed_dim=0)
    Traceback (most recent call last):
    ValueError: embed_dim must be at least 1, got 0
    """
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise TypeError(f"{name} must be an integer, got {number!r}")
        if number < minimum:
            raise ValueError(f"{name} must be at least {minimum}, got {number}")


def check_real(minimum: float = 0.0, **numbers: Any) -> None:
    """Each number is real, finite and at least ``minimum``.

    Raises: TypeError for another kind, ValueError for a smaller, infinite or undefined number.
    """
    for name, number in numbers.items():
        if not minimum <= _real(name, number) < math.inf:
            raise ValueError(f"{name} must be finite and at least {minimum:g}, got {number}")


def check_positive(**numbers: Any) -> None:
    """Each number is real, finite and above 0.

    Raises: TypeError for another kind, ValueError for the rest.
    """
    for name, number in numbers.items():
        if not 0 < _real(name, number) < math.inf:
            raise ValueError(f"{name} must be finite and positive, got {number}")


def check_scale(**numbers: Any) -> None:
    """Each number is positive, and float32 holds what it multiplies or divides: from 1e-30 to 1e30.

    Raises: TypeError for another kind, ValueError for the rest.
    """
    check_positive(**numbers)
    for name, number in numbers.items():
        if not 1e-30 <= number <= 1e30:
            raise ValueError(f"{name} must be from 1e-30 to 1e+30, got {number}")


def check_finite(**numbers: Any) -> None:
    """Each number is real and finite.

    Raises: TypeError for another kind, ValueError for an infinite or undefined number.
    """
    for name, number in numbers.items():
        if not math.isfinite(_real(name, number)):
            raise ValueError(f"{name} must be finite, got {number}")


def check_int64(**numbers: Any) -> None:
    """Each number that is an integer can stand in an int64 tensor.

    Raises: ValueError for a larger one.
    """
    for name, number in numbers.items():
        if isinstance(number, Integral) and not -(2**63) <= int(number) < 2**63:
            raise ValueError(f"{name} must fit into int64, got {number}")


def check_choice(choices: Collection[Any], **given: Any) -> None:
    """Each argument, given by its public name, is one of the choices.

    Raises: ValueError that lists them.
    """
    for name, value in given.items():
        if not isinstance(value, Hashable) or value not in tuple(choices):
            raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}")


def check_bool(**flags: Any) -> None:
    """Each flag is a bool, Python's or numpy's: a word that means no would count as yes.

    Raises: TypeError for another kind.
    """
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_):
            raise TypeError(f"{name} must be True or False, got {flag!r}")


def check_probability(**numbers: Any) -> None:
    """Each number is a share of what is dropped, so 1 is excluded.

    Raises: TypeError for another kind, ValueError outside ``[0, 1)``.
    """
    for name, number in numbers.items():
        if not 0 <= _real(name, number) < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {number}")


def _real(name: str, number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{name} must be a number, got {number!r}")
    real: Any = number
    try:
        return float(real)
    except OverflowError:  # an integer or a fraction
        return math.inf if real > 0 else -math.inf


def check_columns(columns: Sequence[Any], kind: type) -> None:
    """What a module of some columns is made from is a sequence of columns of one kind.

    Raises: TypeError with the kind found.
    """
    for column in columns:
        if not isinstance(column, kind):
            raise TypeError(f"columns must be {kind.__name__}, got {type(column).__name__}")


def check_seed(seed: Any) -> None:
    """A seed is ``None`` or an integer that torch's generators take.

    Raises: TypeError for another kind, ValueError for a number below 0, or from 2⁶⁴ on.
    """
    if seed is None:
        return
    check_integer(0, seed=seed)
    if seed >= 2**64:
        raise ValueError(f"seed must be below 2**64, got {seed}")


def check_tensor(x: Any, name: str) -> None:
    """An argument is a tensor.

    Raises: TypeError with the kind found.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")


def check_last_dim(tensor: Tensor, size: int, name: str) -> None:
    """The last dimension of a tensor has this size.

    Raises: ValueError with the shape found.
    """
    if tensor.ndim == 0 or tensor.shape[-1] != size:
        raise ValueError(f"{name} must have {size} as its last dimension, got shape {tuple(tensor.shape)}")


def check_bool_tensor(tensor: Tensor, name: str) -> None:
    """A flag is a bool tensor: an integer one would be read as positions elsewhere.

    Raises: TypeError with the kind or dtype found.
    """
    check_tensor(tensor, name)
    if tensor.dtype != torch.bool:
        raise TypeError(f"{name} must be bool, got {tensor.dtype}")


def check_integer_tensor(tensor: Tensor, name: str) -> None:
    """A tensor of ids or times holds integers.

    Raises: TypeError with the kind or dtype found.
    """
    check_tensor(tensor, name)
    if tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex():
        raise TypeError(f"{name} must be integers, got {tensor.dtype}")


def check_number_tensor(tensor: Tensor, name: str) -> None:
    """A tensor of numbers holds floats or integers: complex ones would lose half of themselves.

    Raises: TypeError with the kind or dtype found.
    """
    check_tensor(tensor, name)
    if tensor.dtype == torch.bool or tensor.is_complex():
        raise TypeError(f"{name} must be floats or integers, got {tensor.dtype}")


def can_be_read(tensor: Tensor) -> bool:
    """True when there are numbers, on whatever device: not while something is traced or vectorised."""
    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or type(tensor) not in (Tensor, torch.nn.Parameter)  # a fake or otherwise wrapped tensor
        or tensor.is_meta
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def is_concrete(tensor: Tensor) -> bool:
    """True when the numbers can be read at no cost: on the CPU, and not traced in any way."""
    return can_be_read(tensor) and tensor.device.type == "cpu"


def check_ids(
    outside: Tensor, ids: Tensor, cardinalities: Sequence[int], names: Sequence[str] | None
) -> None:
    """No id is out of range, as far as that can be seen without waiting for a device.

    Args:
        outside: True where an id is out of range.
        ids: the ids, one column for each of ``cardinalities`` in the last dimension.
        cardinalities: number of ids of each column.
        names: names of the columns, for the message.

    Raises: ValueError naming the first column with such an id.
    """
    if not is_concrete(outside) or not outside.any():
        return
    j = int(outside.reshape(-1, len(cardinalities)).any(0).nonzero()[0])
    got = ids[..., j][outside[..., j]].flatten()[0].item()
    name, last = names[j] if names else j, cardinalities[j] - 1
    raise ValueError(f"column {name!r}: ids must be from 0 to {last}, got {got}")
