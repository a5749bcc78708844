"""Faster copies of ``functional``, and the one place where a backend is chosen."""

from __future__ import annotations

from torch import Tensor

from tabembed._checks import check_choice
from tabembed.functional.rotary import rotate as _turn
from tabembed.functional.sinusoid import WAVES
from tabembed.functional.sinusoid import add_waves as _add_waves
from tabembed.kernels.backend import backend, implementation, use_backend
from tabembed.kernels.gather import columns as gather_columns
from tabembed.kernels.gather import gather
from tabembed.kernels.rotary import rotate as _rotate
from tabembed.kernels.rotary import run as _run_rotate
from tabembed.kernels.sinusoid import run as _run_sinusoid
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
    if origin is not None and origin.shape[0] > 1:  # one for each sequence: then positions are, too
        q_positions, k_positions = (p.expand(origin.shape[0], -1) for p in (q_positions, k_positions))
    places = q_positions, k_positions, frequencies, rates, origin
    run = implementation(_turn, _rotate, _run_rotate, (q, k, *places))
    return run(q, k, *places, interleaved, inverse)


def sinusoid(
    x: Tensor, positions: Tensor, frequencies: Tensor, phases: Tensor, scale: Tensor, order: str
) -> Tensor:
    """``x`` and waves of its positions: ``functional.sinusoid.add_waves``."""
    check_choice(WAVES, order=order)
    tensors = x, positions, frequencies, phases, scale
    return implementation(_add_waves, _sinusoid, _run_sinusoid, tensors)(*tensors, order)
