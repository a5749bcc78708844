"""torch's attention of some queries, with what is added to their scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch.autograd import forward_ad
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
        - q: ``(n_batch, n_heads, n_q, dim)``; k: ``(n_batch, n_k_heads, n_k, dim)``; v: of any width, which
          is that of the output
        - allowed, added: a shape that broadcasts to ``(n_batch, n_heads, n_q, n_k)``
    """
    mask = allowed
    if added is not None:
        mask = added if allowed is None else added.masked_fill(~allowed, -math.inf)
    # Where a kernel takes no groups, all the scores would be written out.
    if q.shape[1] != k.shape[1] and not takes_groups(q, mask):
        k, v = as_many_heads(k, q), as_many_heads(v, q)
    if mask is None:
        return _kernel(q, k, v, None, scale, triangle)
    if mask.dtype == torch.bool:
        return _blanked(q, k, v, mask, scale, seeing)
    dtype = torch.promote_types(q.dtype, mask.dtype)
    return _blanked(q.to(dtype), k.to(dtype), v.to(dtype), mask.to(dtype), scale, seeing).to(q.dtype)


def _blanked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float | None, seeing: bool) -> Tensor:
    """Attention with a mask; queries that see nothing are zeros that see everything, and give zeros."""
    if seeing:
        return _kernel(q, k, v, mask, scale)
    sees = mask if mask.dtype == torch.bool else mask != -math.inf
    blind = ~sees.any(-1, keepdim=True)
    q, mask = q.masked_fill(blind, 0), mask.masked_fill(blind, mask.dtype == torch.bool)
    return _kernel(q, k, v, mask, scale).masked_fill(blind, 0)


def _kernel(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None, triangle: bool = False
) -> Tensor:
    """torch's attention, of values as wide as keys: no other kernel than the slowest takes others."""
    dim, n_values = q.shape[-1], v.shape[-1]
    scale = dim**-0.5 if scale is None else scale
    if is_transformed(mask is not None and mask.is_floating_point()):
        k, v = as_many_heads(k, q), as_many_heads(v, q)
        return _written_out(
            q, k, v, up_to_own_row(q.shape[2], k.shape[2], q.device) if triangle else mask, scale
        )
    if dim != n_values:
        width = max(dim, n_values)
        q, k, v = (F.pad(x, (0, width - x.shape[-1])) for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=triangle, scale=scale, enable_gqa=grouped
    )
    return out[..., :n_values]


def _written_out(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Attention by its formula, in float32 or wider, which every transformation can differentiate."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return (scores.softmax(-1) @ v.to(wide)).to(q.dtype)


def is_transformed(biased: bool = False) -> bool:
    """Whether forward-mode AD or a transformation of ``torch.func`` is at work that torch's kernels have no
    rule for: all but one ``grad``, and that one, too, where it may be asked for the gradient of a bias.
    """
    if torch.compiler.is_compiling():
        return False
    levels = torch._C._functorch.get_interpreter_stack() or ()
    one = len(levels) == 1 and levels[0].key() == TransformType.Grad and not biased
    return forward_ad._current_level >= 0 or bool(levels) and not one


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
    n_values = v.shape[-1]
    k, v, scale = as_many_heads(k, q), as_many_heads(v, q), dim**-0.5
    slopes = bias.slopes_on(q.device)
    channels = key_channels(positions, positions[:, -1:], slopes, bias.unit, scale, q.dtype)
    n_parts = channels.shape[-1]
    width = max(dim + n_parts, n_values)
    width += -width % 8  # kernels take widths that are multiples of 8, and values as wide as keys
    k = F.pad(torch.cat((k, channels.expand(n_batch, -1, -1, -1)), -1), (0, width - dim - n_parts))
    q = F.pad(torch.cat((q, q.new_ones(n_batch, n_heads, n_q, n_parts)), -1), (0, width - dim - n_parts))
    v = F.pad(v, (0, width - n_values))
    out = attend(q, k, v, allowed, scale=scale, triangle=allowed is None, seeing=seeing)
    return out[..., :n_values]


def takes_groups(q: Tensor, mask: Tensor | None) -> bool:
    """Whether a kernel takes keys that several heads share: without a mask, on a GPU if narrow."""
    return mask is None and not (q.is_cuda and q.dtype.itemsize > 2)


def as_many_heads(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values, repeated for the heads of queries that share them."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)
