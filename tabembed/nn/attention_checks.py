"""What ``attention`` refuses, by the name of the argument."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tabembed._checks import check_bool, check_bool_tensor, check_integer_tensor, is_concrete
from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.decay import RelativeDecay
from tabembed.nn.positions import check_floats
from tabembed.nn.rotary import RotaryEmbedding


def check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Queries, keys and values have four dimensions and fit each other.

    Raises: TypeError for what is no tensor of floats and for two dtypes. ValueError for other shapes.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_floats(x, name)
        if x.ndim != 4:
            raise ValueError(f"{name} must have shape (n_batch, n_heads, n_rows, dim), got {tuple(x.shape)}")
        if x.dtype != q.dtype:
            raise TypeError(f"{name} must be {q.dtype}, as q is, got {x.dtype}")
    if k.shape[0] != q.shape[0] or k.shape[-1] != q.shape[-1]:
        raise ValueError(f"k must have n_batch and dim of q, {tuple(q.shape)}, got {tuple(k.shape)}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v must have n_batch, heads and rows of k, {tuple(k.shape)}, got {tuple(v.shape)}")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"k must have as many heads as q or a divisor, {q.shape[1]}, got {k.shape[1]}")


def check_rows(q: Tensor, k: Tensor, needed: bool) -> None:
    """Queries are rows of the keys, the last ones, wherever that decides anything.

    Raises: ValueError for more of them.
    """
    if needed and q.shape[-2] > k.shape[-2]:
        raise ValueError(f"q must have at most the {k.shape[-2]} rows of k, got {q.shape[-2]}")


def check_bias(bias: Any, q: Tensor, k: Tensor) -> None:
    """A bias is an ``ALiBiEmbedding`` of as many heads, or a tensor that broadcasts to the scores.

    Raises: TypeError for another kind, ValueError for another number of heads or shape.
    """
    if isinstance(bias, ALiBiEmbedding):
        if bias.num_heads != q.shape[1]:
            raise ValueError(f"bias must have {q.shape[1]} heads, as q has, got {bias.num_heads}")
    elif isinstance(bias, Tensor):
        check_floats(bias, "bias")
        _check_broadcast(bias, (*q.shape[:3], k.shape[2]), "bias")
    elif bias is not None:
        raise TypeError(f"bias must be an ALiBiEmbedding or a tensor, got {type(bias).__name__}")


def check_mask(mask: Any, q: Tensor, k: Tensor) -> None:
    """A mask tells real rows, or which key a query may attend to.

    Raises: TypeError when it is not bool, ValueError for another shape.
    """
    if mask is None:
        return
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a tensor, got {type(mask).__name__}")
    check_bool_tensor(mask, "mask")
    rows = (k.shape[0], k.shape[2])
    if mask.ndim == 4:
        _check_broadcast(mask, (*q.shape[:3], k.shape[2]), "mask")
    elif tuple(mask.shape) != rows:
        raise ValueError(f"mask must have shape {rows} or four dimensions, got {tuple(mask.shape)}")


def check_rotary(rotary: Any, causal: bool) -> None:
    """What turns queries and keys is a module for that, and a decay looks back.

    Raises: TypeError for another kind, ValueError for a decay without ``causal``.
    """
    check_bool(causal=causal)
    if rotary is not None and not isinstance(rotary, RotaryEmbedding | RelativeDecay):
        kind = type(rotary).__name__
        raise TypeError(f"rotary must be a RotaryEmbedding or a RelativeDecay, got {kind}")
    if isinstance(rotary, RelativeDecay) and not causal:
        raise ValueError("causal must be True with a RelativeDecay: what is to come has not decayed")


def check_packed(cu_seqlens: Any, q: Tensor, k: Tensor, bias: Any, mask: Any) -> list[int]:
    """Where packed sequences begin and end, as numbers.

    Raises: TypeError when they are no integers. ValueError when they do not go from 0 to the number of rows,
        fall, or stand beside a mask, a tensor as bias or another number of queries than keys.
    """
    if mask is not None:
        raise ValueError("mask must be None with cu_seqlens: packed rows are all real")
    if isinstance(bias, Tensor):
        raise ValueError("bias must be an ALiBiEmbedding or None with cu_seqlens, got a tensor")
    if not isinstance(cu_seqlens, Tensor):
        raise TypeError(f"cu_seqlens must be a tensor, got {type(cu_seqlens).__name__}")
    check_integer_tensor(cu_seqlens, "cu_seqlens")
    if q.shape[0] != 1 or q.shape[2] != k.shape[2]:
        raise ValueError(
            f"q and k must have shape (1, n_heads, n_rows, dim) with cu_seqlens, got {tuple(q.shape)} and "
            f"{tuple(k.shape)}"
        )
    if cu_seqlens.ndim != 1 or not cu_seqlens.numel():
        raise ValueError(f"cu_seqlens must have shape (n_sequences + 1,), got {tuple(cu_seqlens.shape)}")
    ends: list[int] = cu_seqlens.tolist()
    if ends[0] != 0 or ends[-1] != q.shape[2]:
        raise ValueError(f"cu_seqlens must go from 0 to {q.shape[2]}, got {ends[0]} to {ends[-1]}")
    for before, after in zip(ends, ends[1:], strict=False):
        if after < before:
            raise ValueError(f"cu_seqlens must not fall, got {after} after {before}")
    return ends


def check_own_rows(own: Tensor, padding: Tensor) -> None:
    """Some query is a real row where some key is, as far as that can be seen at no cost.

    Raises: ValueError where all queries would give zeros.
    """
    if own.numel() and is_concrete(padding) and padding.any() and not own.any():
        raise ValueError(
            "mask must be True for a query, and all are padding: queries are the last rows of k, "
            "so pad on the left"
        )


def check_rising(positions: Tensor) -> None:
    """Positions do not fall, as far as that can be seen at no cost.

    Raises: ValueError with the first two that do.
    """
    if not is_concrete(positions):
        return
    falls = positions[:, 1:] < positions[:, :-1]
    if falls.any():
        i, j = falls.nonzero()[0].tolist()
        before, after = positions[i, j].item(), positions[i, j + 1].item()
        raise ValueError(f"positions must not fall in causal attention, got {after} after {before}")


def _check_broadcast(x: Tensor, shape: tuple[int, ...], name: str) -> None:
    sizes = (1,) * (len(shape) - x.ndim) + tuple(x.shape)
    if len(sizes) != len(shape) or any(a not in (1, b) for a, b in zip(sizes, shape, strict=True)):
        raise ValueError(f"{name} must broadcast to {shape}, got shape {tuple(x.shape)}")
