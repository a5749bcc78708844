"""How a number is brought to the size that a network expects, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from tabembed.schema import ContinuousColumn

SQUASH_LIMIT = 3.0
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_TAIL = 1e-7  # as scikit-learn's QuantileTransformer: the normal quantile of 0 and 1 is infinite


@dataclass(frozen=True)
class Scaler:
    """Two functions of (float64 numbers, column), and how centre and scale come about."""

    forward: Callable[[np.ndarray, ContinuousColumn], np.ndarray]
    inverse: Callable[[np.ndarray, ContinuousColumn], np.ndarray]
    robust: bool


def _bounded(x: np.ndarray, column: ContinuousColumn, bound: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        z = x - column.centre
        z /= column.scale
    np.minimum(z, bound, out=z)
    return np.maximum(z, -bound, out=z)


def _linear(x: np.ndarray, column: ContinuousColumn) -> np.ndarray:
    return _bounded(x, column, _FLOAT32_MAX)


def _unlinear(z: np.ndarray, column: ContinuousColumn) -> np.ndarray:
    return z * column.scale + column.centre


def _squash(x: np.ndarray, column: ContinuousColumn) -> np.ndarray:
    z = _bounded(x, column, 1e15).astype(np.float32)  # bounded, so that its square is finite
    root = z / np.float32(SQUASH_LIMIT)
    root *= root
    root += 1
    z /= np.sqrt(root, out=root)
    return z


def _unsquash(y: np.ndarray, column: ContinuousColumn) -> np.ndarray:
    inside = 1.0 - np.square(y / SQUASH_LIMIT)
    z = y / np.sqrt(np.maximum(inside, 1e-12))
    return np.clip(_unlinear(z, column), column.minimum, column.maximum)


def _to_normal(x: np.ndarray, column: ContinuousColumn) -> np.ndarray:
    quantiles, levels = _grid(column)
    with np.errstate(over="ignore", invalid="ignore"):
        upper = np.interp(x, quantiles, levels)
        lower = -np.interp(-x, -quantiles[::-1], -levels[::-1])  # equal quantiles: the middle of their levels
        level = np.nan_to_num((upper + lower) / 2, nan=0.5)  # quantiles closer than floats can tell
    return torch.special.ndtri(torch.from_numpy(np.clip(level, _TAIL, 1 - _TAIL))).numpy()


def _from_normal(z: np.ndarray, column: ContinuousColumn) -> np.ndarray:
    quantiles, levels = _grid(column)
    return np.interp(torch.special.ndtr(torch.from_numpy(z)).numpy(), levels, quantiles)


def _as_it_is(x: np.ndarray, column: ContinuousColumn) -> np.ndarray:
    return np.clip(x, -_FLOAT32_MAX, _FLOAT32_MAX)


def _grid(column: ContinuousColumn) -> tuple[np.ndarray, np.ndarray]:
    quantiles = np.array(column.quantiles)
    return quantiles, np.linspace(0.0, 1.0, len(quantiles))


SCALERS: dict[str, Scaler] = {
    "squash": Scaler(_squash, _unsquash, robust=True),
    "standard": Scaler(_linear, _unlinear, robust=False),
    "quantile": Scaler(_to_normal, _from_normal, robust=True),
    "none": Scaler(_as_it_is, lambda y, column: y.copy(), robust=True),
}
"""``squash``: (x − median) / IQR, then y / √(1 + (y/3)²); ``standard``: (x − mean) / std;
``quantile``: the normal quantile of the rank; ``none``: the number itself."""


def check_scaler(scaler: str | None, name: str) -> None:
    """Check that a scaler is one of those there are."""
    if scaler is not None and (not isinstance(scaler, str) or scaler not in SCALERS):
        raise ValueError(f"{name} must be None or one of {list(SCALERS)}, got {scaler!r}")
