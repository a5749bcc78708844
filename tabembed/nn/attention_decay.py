"""The decay of a block of queries: in queries and keys, or written out for pairs that fade in few rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tabembed._checks import can_be_read
from tabembed.functional.rotary import exponent_limit
from tabembed.kernels import rotate
from tabembed.nn.decay import RelativeDecay
from tabembed.nn.heads import as_pair, held_for


def reach(dtype: torch.dtype) -> float:
    """The exponent that queries of a block may have, so that nothing is seen of keys whose own has ended."""
    return exponent_limit(dtype) + math.log(torch.finfo(dtype).eps)


def faster(rates: Sequence[float], span: float, dtype: torch.dtype) -> tuple[int, ...]:
    """Pairs of features that fade by more than ``reach`` within a block that is so long.

    >>> faster([1e3, 1.0, 0.1], 100.0, torch.float32)
    (0, 1)
    """
    return tuple(i for i, rate in enumerate(rates) if rate * span > reach(dtype))


def turned(
    q: Tensor, k: Tensor, own: Tensor, places: Tensor, decay: RelativeDecay, faded: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Queries and keys, turned and scaled around the last query, but for what pairs in ``faded`` fade by.

    Args:
        q: queries of a block.
        k: keys.
        own: positions of the queries.
        places: positions of the keys.
        decay: turns and scales.
        faded: pairs that are not scaled.
    """
    queries, keys = as_pair(q, k, decay.dim, -2)
    turns, rates = held_for(q, decay, decay.rotary.turns()), held_for(q, decay, decay.rates())
    if faded:
        rates = torch.where(_among(faded, decay, q.device), 0, rates)
    return rotate(queries, keys, own, places, turns, rates, own[:, -1].detach(), decay.rotary.interleaved)


def without(q: Tensor, decay: RelativeDecay, faded: tuple[int, ...]) -> Tensor:
    """Queries without the pairs whose scores are added."""
    pairs = _among(faded, decay, q.device)
    return torch.where(pairs.repeat_interleave(2) if decay.rotary.interleaved else pairs.repeat(2), 0, q)


def faded_scores(q: Tensor, k: Tensor, times: Tensor, decay: RelativeDecay, faded: tuple[int, ...]) -> Tensor:
    """Scores that fade with elapsed time, whatever it is: one pair of features after the other.

    Keys are left out that nothing is left of; of fast pairs that is most of them.

    Args:
        q: queries, turned already.
        k: keys, turned already.
        times: elapsed from a key to a query; what lies after a query counts as 0.
        decay: its rates.
        faded: the pairs, one at least.

    Shape:
        - q: ``(n_batch, n_heads, n_q, dim)``; k: ``(n_batch, n_heads, n_k, dim)``
        - times: ``(n_batch or 1, n_q, n_k)`` float64
        - output: ``(n_batch, n_heads, n_q, n_k)``, in float32 or wider
    """
    dtype, rates = torch.promote_types(q.dtype, torch.float32), decay.rates()
    times = times.clamp(min=0).unsqueeze(-3)
    starts = _starts(times, rates, dtype)
    order = sorted(faded, key=lambda i: starts[i], reverse=True)
    start = starts[order[-1]]
    queries = _in_pairs(q.to(dtype) * q.shape[-1] ** -0.5, decay, order)
    keys = _in_pairs(k[..., start:, :].to(dtype), decay, order)
    scores, n_keys = None, 0
    for i, query, key in zip(order, queries, keys, strict=True):
        weights = (times[..., starts[i] :] * -rates[i]).to(dtype).exp()
        of_pair = query @ key[..., starts[i] - start :, :].mT * weights
        n_more = k.shape[2] - starts[i] - n_keys
        scores = of_pair if scores is None else F.pad(scores, (n_more, 0)) + of_pair
        n_keys += n_more
    return q.new_zeros(()) if scores is None else F.pad(scores, (start, 0))


def _in_pairs(x: Tensor, decay: RelativeDecay, pairs: list[int]) -> tuple[Tensor, ...]:
    """Some pairs of features, each by itself: their gradients are put together once."""
    both = x.unflatten(-1, (-1, 2)) if decay.rotary.interleaved else x.unflatten(-1, (2, -1)).mT
    return both.movedim(-2, 0)[pairs].unbind(0)


def _starts(times: Tensor, rates: Tensor, dtype: torch.dtype) -> list[int]:
    """The first key of which something is left, for every pair of features; 0 where that cannot be read."""
    if not (can_be_read(times) and can_be_read(rates)):
        return [0] * rates.shape[0]
    info = torch.finfo(dtype)
    gone = -math.log(info.tiny * info.eps)
    nearest = times.detach().amin((0, 1, 2))
    starts: list[int] = (nearest * rates.detach().unsqueeze(-1) <= gone).int().argmax(-1).tolist()
    return starts


def _among(faded: tuple[int, ...], decay: RelativeDecay, device: torch.device) -> Tensor:
    """True for the pairs of features in ``faded``."""
    return torch.tensor([i in faded for i in range(decay.dim // 2)], device=device)
