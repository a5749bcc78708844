"""Covariance functions (kernels) that random features approximate, computed exactly."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tabembed._checks import check_choice
from tabembed.functional.phase import widened

KERNELS = ("rbf", "matern12", "matern32", "matern52", "laplacian")


def covariance(kernel: str, x: Tensor, y: Tensor, lengthscale: Tensor | float = 1.0) -> Tensor:
    """The kernel of every row of ``x`` with every row of ``y``.

    With δ = (x − y)/ℓ and r = ‖δ‖₂: ``rbf`` exp(−r²/2), ``matern12`` exp(−r), ``matern32``
    (1 + √3 r) exp(−√3 r), ``matern52`` (1 + √5 r + 5r²/3) exp(−√5 r); ``laplacian`` exp(−‖δ‖₁),
    scikit-learn's ``laplacian_kernel`` with gamma = 1/ℓ.

    Args:
        kernel: one of ``KERNELS``.
        x: rows ``(*, n, n_features)``.
        y: rows ``(*, m, n_features)``.
        lengthscale: ℓ in the unit of the rows, one number or one per feature.

    Shape:
        - output: ``(*, n, m)``, in the widest dtype of the three, at least float32

    Raises: ValueError for another kernel.

    Source: Rasmussen & Williams 2006, equations 4.9, 4.14 and 4.17; Rahimi & Recht 2007, figure 1.

    >>> rows = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    >>> covariance("matern12", rows, rows, lengthscale=5.0)
    tensor([[1.0000, 0.3679],
            [0.3679, 1.0000]])
    """
    check_choice(KERNELS, kernel=kernel)
    x, y = widened(x) / lengthscale, widened(y) / lengthscale
    wide = torch.promote_types(x.dtype, y.dtype)
    # Differences, not ‖x‖² + ‖y‖² − 2xy, which cancels where two rows are close.
    norm, exact = (1.0 if kernel == "laplacian" else 2.0), "donot_use_mm_for_euclid_dist"
    return _OF_DISTANCE[kernel](torch.cdist(x.to(wide), y.to(wide), norm, exact))


def _matern32(r: Tensor) -> Tensor:
    s = math.sqrt(3) * r
    return (1 + s) * torch.exp(-s)


def _matern52(r: Tensor) -> Tensor:
    s = math.sqrt(5) * r
    return (1 + s + s * s / 3) * torch.exp(-s)


_OF_DISTANCE = {
    "rbf": lambda r: torch.exp(-r * r / 2),
    "matern12": lambda r: torch.exp(-r),
    "matern32": _matern32,
    "matern52": _matern52,
    "laplacian": lambda r: torch.exp(-r),
}
