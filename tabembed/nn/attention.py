"""Attention over rows that stand somewhere: by number or in time, padded, packed or one at a time."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from tabembed.functional.phase import without_autocast
from tabembed.functional.position import row_positions
from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.attention_batch import Batch, attend_batch
from tabembed.nn.attention_checks import (
    check_bias,
    check_heads,
    check_mask,
    check_own_rows,
    check_packed,
    check_rotary,
    check_rows,
)
from tabembed.nn.decay import RelativeDecay
from tabembed.nn.packed import attend_packed
from tabembed.nn.positions import check_present, resolve
from tabembed.nn.rotary import RotaryEmbedding


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rotary: RotaryEmbedding | RelativeDecay | None = None,
    bias: ALiBiEmbedding | Tensor | None = None,
    positions: Tensor | None = None,
    mask: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    causal: bool = True,
) -> Tensor:
    """Scaled dot-product attention, with positions, padding and packing in one call.

    The work is torch's ``scaled_dot_product_attention``, in the dtype of the arguments, autocast or not.
    What depends on two positions is made for some rows at a time, so that memory grows with length, not
    with its square. Causal ALiBi is never written out where its slopes and the positions can be read, rows
    outnumber features, and no 65 neighbouring rows are so far apart that a score falls by more than 128.

    Where positions or what is learned cannot be read (compiled, or under ``torch.func``), they may be any:
    ALiBi is written out and a decay computed pair by pair of features, exactly and more slowly.
    A compiled graph serves every length up to 256 rows, then every length of as many blocks of 256, fewer for
    biases that are written out and decays that are fast: see ``torch._dynamo.config.recompile_limit``.

    A decay is fast where half-lives are not far below the gaps between rows: pairs of features that fade
    within 64 rows are written out, for the keys of which something is left. Vectorised, or differentiated by
    ``torch.func`` or in forward mode, attention is softmax written out.

    A sequence gives the same rows padded on the left, on the right, packed, alone, or one query at a time
    against the keys so far.

    Args:
        q: queries.
        k: keys; their heads may be fewer, each for as many of the queries'.
        v: values.
        rotary: turns queries and keys by their positions; a ``RelativeDecay`` lets scores fade with
            elapsed time, which needs ``causal``.
        bias: an ``ALiBiEmbedding``, or numbers that are added to the scores.
        positions: of the keys, row numbers or real time in any unit; ``None`` counts the real rows. Fewer
            queries are the last rows: with positions, ``rotary`` or ALiBi queries are rows of the keys, with
            ``causal`` or without, so they are not for cross-attention. In causal attention with ALiBi or a
            decay positions must not fall.
        mask: True for the real rows among the keys, the opposite of ``key_padding_mask``; padding may hold
            anything, and queries that are rows of the keys give zeros there, so pad on the left to go on from
            the last real rows. Or True where a query may attend to a key.
        cu_seqlens: where sequences begin and end that are packed in one, from 0 to the number of rows; they
            do not see each other, and rows are counted in each. It is read, so not in a compiled graph.
        causal: a query sees the keys up to its own row. Otherwise, without ``rotary``, positions and ALiBi,
            queries that are fewer or more than the keys are other rows, of which ``mask`` says nothing; as
            many as the keys are the same rows, so for others give a mask of four dimensions.

    Shape:
        - q: ``(n_batch, n_heads, n_q, dim)``, floats; k: ``(n_batch, n_k_heads, n_k, dim)``, in the dtype of
          q; v: as k, of any width, which is that of the output
        - bias: a shape that broadcasts to ``(n_batch, n_heads, n_q, n_k)``
        - positions: ``(n_k,)`` or ``(n_batch, n_k)``, integers, float32 or float64
        - mask: ``(n_batch, n_k)``, or four dimensions that broadcast to the scores; bool. A query that may
          attend to nothing gives zeros
        - cu_seqlens: ``(n_sequences + 1,)`` integers; n_batch is 1 then

    Raises: ValueError for shapes that do not fit, positions that fall or are missing, fewer queries that
        all are padding, ``cu_seqlens`` that do not go from 0
        to the number of rows or stand beside a mask, and a decay that looks ahead. TypeError for other kinds
        and dtypes. RuntimeError of torch for a second derivative that its kernel has not, which on the CPU
        ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`` around the call and its derivatives has.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1.

    >>> q = k = v = torch.randn(1, 8, 5, 16)
    >>> hours = torch.tensor([0.0, 0.5, 9.0, 9.1, 30.0])
    >>> bias = ALiBiEmbedding(8, mode="causal", unit=24)
    >>> attention(q, k, v, bias=bias, positions=hours).shape
    torch.Size([1, 8, 5, 16])

    One row at a time, against the keys so far:

    >>> steps = [attention(q[:, :, i : i + 1], k[:, :, : i + 1], v[:, :, : i + 1]) for i in range(5)]
    >>> torch.allclose(torch.cat(steps, 2), attention(q, k, v), atol=1e-5)
    True

    Sequences of 2 and 3 rows, packed in one:

    >>> packed = attention(q, k, v, cu_seqlens=torch.tensor([0, 2, 5]))
    >>> torch.allclose(packed[:, :, 2:], attention(q[:, :, 2:], k[:, :, 2:], v[:, :, 2:]), atol=1e-5)
    True
    """
    check_heads(q, k, v)
    check_rotary(rotary, causal)
    check_bias(bias, q, k)
    check_mask(mask, q, k)
    positioned = rotary is not None or positions is not None or isinstance(bias, ALiBiEmbedding)
    check_rows(q, k, causal or positioned)
    if positions is not None:
        positions = resolve(positions, 0, q.shape[0], k.shape[2], q.device)
    one = functools.partial(_attend, rotary=rotary, bias=bias, causal=causal, same=causal or positioned)
    with without_autocast(q.device):
        if cu_seqlens is None:
            return one(q, k, v, positions, mask)
        ends = check_packed(cu_seqlens, q, k, bias, mask)
        return attend_packed(q, k, v, positions, ends, one, with_mask=not causal)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor | None,
    mask: Tensor | None,
    *,
    rotary: RotaryEmbedding | RelativeDecay | None,
    bias: ALiBiEmbedding | Tensor | None,
    causal: bool,
    same: bool,
) -> Tensor:
    """Attention of a batch that is not packed; ``same``: queries are rows of the keys."""
    padding, mask = (mask, None) if mask is not None and mask.ndim == 2 else (None, mask)
    counted = positions is None
    if positions is None:
        rows = torch.arange(k.shape[2], device=q.device).unsqueeze(0)
        positions = rows if padding is None else row_positions(padding)
    own = None
    if padding is not None and k.shape[2]:
        k, v, positions = _without_padding(k, v, positions, padding)
        if same or q.shape[2] == k.shape[2]:
            own = padding[:, None, k.shape[2] - q.shape[2] :, None]
            check_own_rows(own, padding)
            q = torch.where(own, q, 0)
    check_present(positions, "positions")
    if isinstance(rotary, RotaryEmbedding):
        last = positions[:, k.shape[2] - q.shape[2] :]
        q, k = rotary(q, k, positions=last, k_positions=positions)
    decay = rotary if isinstance(rotary, RelativeDecay) else None
    alibi, added = (bias, None) if isinstance(bias, ALiBiEmbedding) else (None, bias)
    out = attend_batch(Batch(q, k, v, positions, counted, padding, mask, alibi, added, decay, causal))
    return out if own is None else torch.where(own, out, 0)


def _without_padding(
    k: Tensor, v: Tensor, positions: Tensor, padding: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Zeros instead of padded rows; their positions are those of the last real row before, or the first.

    A NaN would reach every gradient as NaN · 0, and a decay has its origin in the last row of a block.
    """
    real = padding[:, None, :, None]
    k, v = torch.where(real, k, 0), torch.where(real, v, 0)
    steps = torch.arange(k.shape[2], device=k.device)
    last = torch.where(padding, steps, -1).cummax(-1).values
    nearest = torch.where(last < 0, padding.int().argmax(-1, keepdim=True), last)
    held = torch.where(padding, positions, 0).expand_as(nearest).gather(-1, nearest)
    return k, v, held
