"""torch's attention of some queries, with what is added to their scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tabembed.functional.alibi import key_channels
from tabembed.nn.alibi import ALiBiEmbedding


def up_to_own_row(n_q: int, n_k: int, device: torch.device) -> Tensor:
    """Which keys stand before or at every query, the queries being the last rows: ``(n_q, n_k)`` bool.

    >>> up_to_own_row(2, 3, torch.device("cpu"))
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    rows = torch.arange(n_k, device=device)
    return rows <= rows[n_k - n_q :].unsqueeze(-1)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    allowed: Tensor | None,
    *,
    added: Tensor | None = None,
    scale: float | None = None,
    triangle: bool = False,
    seeing: bool = False,
) -> Tensor:
    """Attention with a mask, a bias, or both; a query that may attend to nothing gives zeros.

    Args:
        q: queries.
        k: keys.
        v: values.
        allowed: True where a query may attend to a key; ``None`` allows all.
        added: numbers added to the scores, which are computed in their dtype where that is wider, so that
            no bias is rounded.
        scale: what products are multiplied by; ``None`` is ``1 / √dim``.
        triangle: as many queries as keys, each of which sees the keys up to its own row.
        seeing: every query may attend to something.

    Shape:
        - q, output: ``(n_batch, n_heads, n_q, dim)``; k, v: ``(n_batch, n_k_heads, n_k, dim)``
        - allowed, added: a shape that broadcasts to ``(n_batch, n_heads, n_q, n_k)``
    """
    grouped = q.shape[1] != k.shape[1]
    mask = allowed
    if added is not None:
        mask = added if allowed is None else added.masked_fill(~allowed, -math.inf)
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=triangle, scale=scale, enable_gqa=grouped)
    if grouped:  # with a mask some kernels do not take groups, and all the scores would be written out
        k, v = as_many_heads(k, q), as_many_heads(v, q)
    if mask.dtype == torch.bool:
        return _blanked(q, k, v, mask, scale, seeing)
    dtype = torch.promote_types(q.dtype, mask.dtype)
    return _blanked(q.to(dtype), k.to(dtype), v.to(dtype), mask.to(dtype), scale, seeing).to(q.dtype)


def _blanked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float | None, seeing: bool) -> Tensor:
    """Attention with a mask; queries that see nothing are zeros that see everything, and give zeros."""
    if seeing:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    sees = mask if mask.dtype == torch.bool else mask != -math.inf
    blind = ~sees.any(-1, keepdim=True)
    q, mask = q.masked_fill(blind, 0), mask.masked_fill(blind, mask.dtype == torch.bool)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).masked_fill(blind, 0)


def attend_with_channels(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    allowed: Tensor | None,
    *,
    bias: ALiBiEmbedding,
    positions: Tensor,
    seeing: bool,
) -> Tensor:
    """Attention with a causal bias that stands in features of the keys and is never written out.

    It is 0 at the last key: the further a query stands before that, the more digits its scores lose, which
    is why a block of queries must not reach far.

    Args:
        q: queries, the last of them at the last key.
        k: keys.
        v: values.
        allowed: as in ``attend``; ``None`` where queries and keys are the same rows.
        bias: its slopes and unit.
        positions: of the keys, ``(n_batch or 1, n_k)``, none above the last.
        seeing: as in ``attend``.
    """
    n_batch, n_heads, n_q, dim = q.shape
    k, v, scale = as_many_heads(k, q), as_many_heads(v, q), dim**-0.5
    slopes = bias.slopes_on(q.device)
    channels = key_channels(positions, positions[:, -1:], slopes, bias.unit, scale, q.dtype)
    n_parts = channels.shape[-1]
    idle = -(dim + n_parts) % 8  # kernels take widths that are multiples of 8, and values as wide as keys
    k = F.pad(torch.cat((k, channels.expand(n_batch, -1, -1, -1)), -1), (0, idle))
    q = F.pad(torch.cat((q, q.new_ones(n_batch, n_heads, n_q, n_parts)), -1), (0, idle))
    v = F.pad(v, (0, n_parts + idle))
    out = attend(q, k, v, allowed, scale=scale, triangle=allowed is None, seeing=seeing)
    return out[..., :dim]


def as_many_heads(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values, repeated for the heads of queries that share them."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)
