"""Rotary position encoding: every pair of features turns by its frequency times the position."""

from __future__ import annotations

import torch
from torch import Tensor

from tabembed._checks import check_choice
from tabembed.functional.exact_phase import exact_turns
from tabembed.functional.phase import radians, widened
from tabembed.functional.position import elapsed

LAYOUTS = ("half", "interleaved")
"""Which features make a pair: i and i + width / 2, or 2 i and 2 i + 1."""


def rotate(
    q: Tensor,
    k: Tensor,
    q_positions: Tensor,
    k_positions: Tensor,
    frequencies: Tensor,
    rates: Tensor | None,
    origin: Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> tuple[Tensor, Tensor]:
    """Queries and keys turned by their positions; with rates, their products decay with elapsed time.

    Pair i turns by ``position · frequencies[i]``; features past ``2 · n_frequencies`` pass through. With
    rates, a query is multiplied by ``exp(−rates · (position − origin))`` and a key by the inverse of that,
    so that their product holds ``exp(−rates · elapsed)`` whatever the origin.

    Args:
        q: queries.
        k: keys; no heads of them when only queries are to be turned.
        q_positions: positions of the queries.
        k_positions: positions of the keys.
        frequencies: turns per unit in three numbers, as ``in_turns`` gives them.
        rates: per unit of position, one for each pair; ``None`` decays nothing.
        origin: the position where the decay is 1, not differentiated; ``None`` where ``rates`` is.
        interleaved: pairs are neighbours; otherwise they are half a width apart.
        inverse: turn the other way, which is the gradient; the decay stays.

    Shape:
        - q: ``(n_batch, n_heads, n_q, dim)``; k: ``(n_batch, n_k_heads, n_k, dim)``
        - q_positions: ``(n_batch or 1, n_q)`` int64 or float64; k_positions: ``(n_batch or 1, n_k)``
        - frequencies: ``(3, n_frequencies)`` float64; rates: ``(n_frequencies,)``;
          origin: ``(n_batch or 1,)``, in the dtype of the positions
        - output: the shapes and dtypes of q and k

    Source: Su et al. 2021, arXiv:2104.09864, equation 34; the decay: Sun et al. 2022, arXiv:2212.10554,
    equation 10.
    """
    return (
        _turned(q, q_positions, frequencies, None if rates is None else -rates, origin, interleaved, inverse),
        _turned(k, k_positions, frequencies, rates, origin, interleaved, inverse),
    )


def _turned(
    x: Tensor,
    positions: Tensor,
    frequencies: Tensor,
    growth: Tensor | None,
    origin: Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> Tensor:
    angle = radians(exact_turns(positions, frequencies)).unsqueeze(-3)  # (n_batch or 1, 1, n, n_frequencies)
    angle = angle.to(widened(x).dtype)
    cosine, sine = angle.cos(), angle.sin() * (-1 if inverse else 1)
    if growth is not None and origin is not None:
        amplitude = amplitudes(positions, growth, origin, x.dtype).unsqueeze(-3)
        cosine, sine = cosine * amplitude, sine * amplitude
    return turn(x, cosine, sine, interleaved)


def turn(x: Tensor, cosine: Tensor, sine: Tensor, interleaved: bool) -> Tensor:
    """Every pair of features ``(a, b)`` as ``(a cos − b sin, b cos + a sin)``; the rest as it is.

    Args:
        x: ``(*, dim)``.
        cosine: of the angles, in float32 or wider, ``(*, n_pairs)`` or a shape that broadcasts.
        sine: of the same angles.
        interleaved: pairs are neighbours.

    >>> turn(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([0.0]), torch.tensor([1.0]), interleaved=False)
    tensor([-2.,  1.,  9.])
    """
    width = 2 * cosine.shape[-1]
    pairs = widened(x[..., :width]).unflatten(-1, (-1, 2) if interleaved else (2, -1))
    a, b = pairs.unbind(-1 if interleaved else -2)
    turned = torch.stack((a * cosine - b * sine, b * cosine + a * sine), -1 if interleaved else -2)
    return torch.cat((turned.flatten(-2).to(x.dtype), x[..., width:]), -1)


def amplitudes(positions: Tensor, growth: Tensor, origin: Tensor, dtype: torch.dtype) -> Tensor:
    """``exp(growth · (positions − origin))``, its exponent kept where products of ``dtype`` cannot overflow.

    Shape:
        - positions: ``(n_batch or 1, n)``; origin: ``(n_batch or 1,)``; growth: ``(n_pairs,)``
        - output: ``(n_batch or 1, n, n_pairs)``, float32, or float64 for a ``dtype`` of float64
    """
    limit = exponent_limit(dtype)
    exponent = elapsed(positions, origin.detach().unsqueeze(-1)).unsqueeze(-1) * growth.double()
    return exponent.clamp(-limit, limit).exp().to(torch.promote_types(dtype, torch.float32))


def exponent_limit(dtype: torch.dtype) -> float:
    """Where the exponent of a decay ends, so that no product of features of ``dtype`` overflows.

    >>> exponent_limit(torch.float16), exponent_limit(torch.bfloat16)
    (10.0, 80.0)
    """
    return 10.0 if dtype == torch.float16 else 80.0


def rotate_gradient(grad: Tensor, angle: Tensor, *, layout: str = "half") -> Tensor:
    """The gradient of a rotation by an angle: the opposite rotation.

    Args:
        grad: gradient of the rotated features, ``(*, n, dim)``.
        angle: radians, ``(n, dim / 2)`` or a shape that broadcasts.
        layout: ``"half"`` or ``"interleaved"``.

    >>> rotate_gradient(torch.tensor([[1.0, 0.0]]), torch.tensor([[torch.pi / 2]])).round()
    tensor([[-0., -1.]])
    """
    check_choice(LAYOUTS, layout=layout)
    return turn(grad, angle.cos(), -angle.sin(), layout == "interleaved")
