"""Faster copies of ``functional``, and the one place where a backend is chosen."""

from __future__ import annotations

from torch import Tensor

from tabembed.functional.gather import columns as _look_up_columns
from tabembed.functional.gather import gather as _look_up
from tabembed.functional.rotary import rotate as _turn
from tabembed.functional.sinusoid import add_waves as _add_waves
from tabembed.kernels.backend import backend, takes_formula, use_backend
from tabembed.kernels.gather import columns as _gather_columns
from tabembed.kernels.gather import gather as _gather
from tabembed.kernels.rotary import rotate as _rotate
from tabembed.kernels.sinusoid import sinusoid as _sinusoid

__all__ = ["backend", "gather", "gather_columns", "rotate", "sinusoid", "use_backend"]


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
    places = q_positions, k_positions, frequencies, rates, origin
    return (_turn if takes_formula() else _rotate)(q, k, *places, interleaved, inverse)


def sinusoid(
    x: Tensor, positions: Tensor, frequencies: Tensor, phases: Tensor, scale: Tensor, order: str
) -> Tensor:
    """``x`` and waves of its positions: ``functional.sinusoid.add_waves``."""
    return (_add_waves if takes_formula() else _sinusoid)(x, positions, frequencies, phases, scale, order)


def gather(weights: list[Tensor], ids: Tensor) -> Tensor:
    """Rows of several tables side by side: ``functional.gather.gather``."""
    return (_look_up if takes_formula() else _gather)(weights, ids)


def gather_columns(weights: list[Tensor], ids: Tensor) -> list[Tensor]:
    """The parts of ``gather``, one for each table: ``functional.gather.columns``."""
    return (_look_up_columns if takes_formula() else _gather_columns)(weights, ids)
