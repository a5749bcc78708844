"""Faster copies of ``functional``, and the one place where a backend is chosen."""

from __future__ import annotations

from torch import Tensor

from tabembed.functional import rotary as _rotary
from tabembed.kernels.backend import backend, use_backend

__all__ = ["backend", "rotate", "use_backend"]


def rotate(
    q: Tensor,
    k: Tensor,
    q_positions: Tensor,
    k_positions: Tensor,
    frequencies: Tensor,
    rates: Tensor | None = None,
    origin: Tensor | None = None,
    interleaved: bool = False,
    inverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """Queries and keys turned by their positions: ``functional.rotary.rotate``."""
    return _rotary.rotate(q, k, q_positions, k_positions, frequencies, rates, origin, interleaved, inverse)
