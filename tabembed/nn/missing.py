"""Numbers of some columns, with zeros where they are missing."""

from __future__ import annotations

import torch
from torch import Tensor

from tabembed._checks import check_bool_tensor, check_last_dim, check_number_tensor


def filled(values: Tensor, missing: Tensor | None, n_features: int) -> tuple[Tensor, Tensor]:
    """Numbers with 0 where they are missing, and where that is.

    A learned row replaces the zeros' vectors; a NaN would reach the gradient of every weight as NaN · 0.

    Args:
        values: numbers; anything where missing.
        missing: bool; ``None`` means that nothing is missing.
        n_features: number of columns.

    Shape:
        - values, missing, both outputs: ``(*, n_features)``; integers become int64, uint64 float64

    Raises: ValueError for another number of columns. TypeError when ``values`` are no numbers or
        ``missing`` is not bool.

    >>> filled(torch.tensor([torch.nan, 2.0]), torch.tensor([True, False]), 2)[0]
    tensor([0., 2.])
    """
    check_last_dim(values, n_features, "values")
    check_number_tensor(values, "values")
    missing = torch.zeros_like(values, dtype=torch.bool) if missing is None else missing
    check_bool_tensor(missing, "missing")
    return _signed(values).masked_fill(missing, 0), missing


def _signed(values: Tensor) -> Tensor:
    """Floats, and integers as int64, or float64 where that may not hold them: what torch can fill."""
    if values.is_floating_point():
        return values.float() if values.dtype.itemsize == 1 else values
    return values.double() if values.dtype == torch.uint64 else values.long()
