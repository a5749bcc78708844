"""Symmetric ALiBi in one fused kernel: torch's FlexAttention, where it can run."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from tabembed.kernels.backend import is_installed
from tabembed.nn.alibi import ALiBiEmbedding

_NARROWEST = 16  # the width of a head that its kernels begin with


def runs_flex(q: Tensor, positions: Tensor, alibi: ALiBiEmbedding) -> bool:
    """Whether FlexAttention's kernel takes the queries, and no gradient is asked of it that it has not."""
    learned = torch.is_grad_enabled() and (positions.requires_grad or alibi.slopes.requires_grad)
    fits = q.dtype != torch.float64 and q.shape[-1] >= _NARROWEST
    return q.is_cuda and fits and not learned and is_installed()


def attend_flex(q: Tensor, k: Tensor, v: Tensor, alibi: ALiBiEmbedding, positions: Tensor) -> Tensor:
    """Attention of all queries to all keys, biased by their positions.

    Args:
        q: queries, the last rows of the keys.
        k: keys.
        v: values.
        alibi: the bias.
        positions: of the keys.

    Shape:
        - q, output: ``(n_batch, n_heads, n_q, dim)``; k, v: ``(n_batch, n_k_heads, n_k, dim)``
        - positions: ``(n_batch or 1, n_k)`` int64 or float64
    """
    score_mod = alibi.score_mod(positions, positions[:, k.shape[2] - q.shape[2] :])
    return _kernel(q.is_cuda)(q, k, v, score_mod=score_mod, enable_gqa=q.shape[1] != k.shape[1])


def _kernel(fused: bool) -> Any:
    """FlexAttention: the compiled one, unless all around it is being compiled or nothing compiles it."""
    from torch.nn.attention.flex_attention import flex_attention  # late: it is slow to import

    return _compiled() if fused and not torch.compiler.is_compiling() else flex_attention


@functools.cache
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)
