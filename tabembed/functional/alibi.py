"""Attention with linear biases: a score falls by a slope times the distance of its two rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tabembed.functional.position import elapsed

N_PARTS = 3
"""How many numbers hold one bias: three of 8 digits in base 2 have the digits of float32."""

_LARGEST = 2.0**15
"""Where a channel in float16 ends: attention has long been 0 there."""


def paper_slopes(num_heads: int, device: torch.device | None = None) -> Tensor:
    """The slope of every head: ``2^(−8 h / n)``, h from 1 to the number n of heads.

    Where n is no power of two, the slopes of the closest lower power are followed by every second slope
    of the next.

    Args:
        num_heads: number of heads.
        device: where they go.

    Shape:
        - output: ``(num_heads,)`` float64

    Source: Press et al. 2022, arXiv:2108.12409, section 3, and the authors' code for other numbers.

    >>> paper_slopes(3).tolist()
    [0.0625, 0.00390625, 0.25]
    """
    lower = 2 ** (num_heads.bit_length() - 1)
    first = torch.arange(1, lower + 1, dtype=torch.float64, device=device) * (-8 / lower)
    between = (torch.arange(num_heads - lower, dtype=torch.float64, device=device) + 0.5) * (-8 / lower)
    return torch.cat((first, between)).exp2()


def steepest_of_paper(num_heads: int) -> float:
    """The largest of ``paper_slopes``, without a tensor.

    >>> steepest_of_paper(8), steepest_of_paper(3)
    (0.5, 0.25)
    """
    lower = 2 ** (num_heads.bit_length() - 1)
    return 2.0 ** ((-8 if num_heads == lower else -4) / lower)


def linear_bias(
    q_positions: Tensor, k_positions: Tensor, slopes: Tensor, unit: float, causal: bool
) -> Tensor:
    """``−slope · |t_q − t_k| / unit`` of every head, query and key.

    Args:
        q_positions: positions of the queries.
        k_positions: positions of the keys.
        slopes: of the heads.
        unit: the distance that costs one slope.
        causal: keys later than the query get −∞.

    Shape:
        - q_positions: ``(*, n_q)`` int64 or float64; k_positions: ``(*, n_k)``, of the same dtype
        - slopes: ``(n_heads,)``
        - output: ``(*, n_heads, n_q, n_k)``, in the dtype of the slopes

    Source: Press et al. 2022, arXiv:2108.12409, section 3.

    >>> linear_bias(torch.tensor([3]), torch.tensor([1, 3]), torch.tensor([0.5]), 1.0, False)
    tensor([[[-1., -0.]]])
    """
    queries, keys = q_positions[..., None, :, None], k_positions[..., None, None, :]
    return penalty(queries, keys, slopes[:, None, None], unit, causal)


def penalty(
    q_position: Tensor, k_position: Tensor, slope: Tensor, unit: float | Tensor, causal: bool
) -> Tensor:
    """The bias of one query, key and head, or of any tensors of them that broadcast.

    >>> penalty(torch.tensor(1), torch.tensor(3), torch.tensor(0.5), 1.0, False)
    tensor(-1.)
    """
    gap = elapsed(q_position, k_position)
    bias = -slope * (gap.abs() / unit).to(slope.dtype)
    return bias.masked_fill(gap < 0, -math.inf) if causal else bias


def key_channels(
    positions: Tensor, anchor: Tensor, slopes: Tensor, unit: float, scale: float, dtype: torch.dtype
) -> Tensor:
    """The causal bias as features of the keys alone, which a query of ones reads.

    ``−slope · (t_q − t_k)`` differs by what is the same for all keys of a query from
    ``slope · (t_k − anchor)``, and softmax does not see that. The number is held in parts, the first the
    number rounded and the others what that left over, so that products in half precision or in TF32
    lose none of it.

    Args:
        positions: positions of the keys, none after the anchor.
        anchor: the position where the bias is 0, not differentiated.
        slopes: of the heads.
        unit: the distance that costs one slope.
        scale: what attention multiplies products of queries and keys by; the channels are divided by it.
        dtype: of the keys.

    Shape:
        - positions: ``(n_batch or 1, n_k)`` int64 or float64; anchor: ``(n_batch or 1, 1)``
        - slopes: ``(n_heads,)``
        - output: ``(n_batch or 1, n_heads, n_k, 3)``, in ``dtype``; one part alone for float64

    >>> key_channels(torch.tensor([[0, 3]]), torch.tensor([[3]]), torch.ones(1), 1.0, 0.5, torch.half)[..., 0]
    tensor([[[-6.,  0.]]], dtype=torch.float16)
    """
    units = elapsed(positions, anchor.detach()).unsqueeze(-2) / unit
    bias = slopes.double().unsqueeze(-1) * units / scale
    if dtype == torch.float64:
        return bias.unsqueeze(-1)
    if dtype == torch.float16:
        bias = bias.clamp(-_LARGEST, _LARGEST)
    step = torch.float16 if dtype == torch.float16 else torch.bfloat16
    parts, rest = [], bias.detach()
    for _ in range(N_PARTS):
        parts.append(rest.to(dtype).to(step).to(dtype))
        rest = rest - parts[-1]
    whole = bias.to(dtype)  # the derivative, all of which is the first part's, is not rounded to a step
    parts[0] = whole + (parts[0] - whole).detach()
    return torch.stack(parts, -1)
