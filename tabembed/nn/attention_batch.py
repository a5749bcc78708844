"""Attention of a batch of sequences, in blocks of queries where something depends on two positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tabembed._checks import can_be_read
from tabembed.functional.alibi import steepest_of_paper
from tabembed.functional.position import elapsed
from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.attention_blocks import ROWS, Block, blocks, halved, over_blocks, spans, written_rows
from tabembed.nn.attention_checks import check_rising
from tabembed.nn.attention_decay import faded_scores, faster, reach, turned, without
from tabembed.nn.attention_flex import attend_flex, runs_flex
from tabembed.nn.attention_scores import (
    as_many_heads,
    attend,
    attend_with_channels,
    is_transformed,
    up_to_own_row,
)
from tabembed.nn.decay import RelativeDecay

STEEPEST = 128.0
"""How far a channel may shift scores of one block: float32 keeps 1e-5 of them."""

_SHORTEST = 64
"""Rows of a block that is not cut for the sake of channels."""

_FEWEST = 64
"""Rows of a block that is not cut for the sake of a decay: every block turns all the keys before it."""

_TINY = 1e-300


@dataclass(frozen=True)
class Batch:
    """Queries, keys and values, and what decides who sees whom.

    Args:
        q: queries, turned already.
        k: keys, turned already.
        v: values.
        positions: of the keys; those of padding are those of some real row.
        counted: positions are row numbers.
        padding: True for real rows of the keys.
        mask: True where a query may attend to a key.
        alibi: what makes a bias of positions.
        added: numbers added to the scores.
        decay: turns queries and keys of a block.
        causal: queries see keys up to their own row.

    Shape:
        - q: ``(n_batch, n_heads, n_q, dim)``; k: ``(n_batch, n_k_heads, n_k, dim)``; v: of any width
        - positions: ``(n_batch or 1, n_k)`` int64 or float64; padding: ``(n_batch, n_k)``
        - mask, added: shapes that broadcast to ``(n_batch, n_heads, n_q, n_k)``
    """

    q: Tensor
    k: Tensor
    v: Tensor
    positions: Tensor
    counted: bool
    padding: Tensor | None
    mask: Tensor | None
    alibi: ALiBiEmbedding | None
    added: Tensor | None
    decay: RelativeDecay | None
    causal: bool

    @property
    def behind(self) -> int:
        """How many keys stand before the first query."""
        return self.k.shape[2] - self.q.shape[2]

    @property
    def learned(self) -> list[Tensor]:
        """Everything that may be asked for a gradient."""
        parameters = [p for m in (self.alibi, self.decay) if m is not None for p in m.parameters()]
        tensors = (self.q, self.k, self.v, self.positions, self.added, *parameters)
        return [x for x in tensors if x is not None and x.is_floating_point()]

    @property
    def needs_gradient(self) -> bool:
        """Whether a gradient is asked of anything here, by autograd: transformations take no checkpoints."""
        if is_transformed(biased=True):
            return False
        return any(x.requires_grad for x in self.learned)

    @property
    def seeing(self) -> bool:
        """Whether every query may attend to something: to its own row, at least."""
        return self.padding is None and self.mask is None and self.added is None


def attend_batch(batch: Batch) -> Tensor:
    """Attention of all queries: ``(n_batch, n_heads, n_q, dim of v)``."""
    if not batch.q.numel() or not batch.k.shape[2]:
        return _nothing(batch)
    if batch.causal and (batch.decay is not None or batch.alibi is not None):
        check_rising(batch.positions)
    symmetric = not batch.causal and batch.seeing
    if batch.alibi is not None and symmetric and runs_flex(batch.q, batch.positions, batch.alibi):
        return attend_flex(batch.q, batch.k, batch.v, batch.alibi, batch.positions)
    return over_blocks(lambda block: _attend_block(batch, block), _pieces(batch), batch.needs_gradient)


def _nothing(batch: Batch) -> Tensor:
    """Zeros of no queries or no keys, which give all that was asked for a gradient one of zeros."""
    read = sum(x.flatten()[:0].sum() for x in batch.learned)
    return batch.q.new_zeros(*batch.q.shape[:3], batch.v.shape[-1]) + torch.as_tensor(read).to(batch.q.dtype)


def _pieces(batch: Batch) -> list[Block]:
    """Blocks of queries that are exact, and cheap to compute together."""
    n_q = batch.q.shape[2]
    biased = batch.alibi is not None or batch.added is not None
    masked = batch.padding is not None or batch.mask is not None or batch.behind > 0
    if not (biased or batch.decay is not None or (batch.causal and masked)):
        return blocks(0, n_q, n_q)
    span = spans(batch.positions[:, batch.behind :], batch.counted)
    pieces = blocks(0, n_q, ROWS) if batch.decay is None else _anchored(batch, batch.decay, span)
    return _written_or_not(batch, pieces, span) if biased else pieces


def _anchored(batch: Batch, decay: RelativeDecay, span: Callable[[Block], float]) -> list[Block]:
    """Blocks that reach no further from their last row than a decay does, but for pairs of features that
    fade within few rows, or where nothing can be read: what they fade by is written out.
    """
    n_batch, n_heads, n_q, _ = batch.q.shape
    rates, whole = decay.known_rates(), blocks(0, n_q, ROWS)
    written = written_rows(n_batch, n_heads, batch.k.shape[2])
    if rates is None or span(whole[0]) == math.inf:
        return blocks(0, n_q, written, faded=tuple(range(decay.dim // 2)))
    limit, fewest = reach(batch.q.dtype) / max(*rates, _TINY), min(_FEWEST, written)
    if batch.counted:
        size = max(_rows_within(limit), fewest)
        return blocks(0, n_q, size, faded=faster(rates, size - 1, batch.q.dtype))
    pieces = halved(whole, lambda b: b.n_rows <= fewest or span(b) <= limit)
    return [b._replace(faded=faster(rates, span(b), batch.q.dtype)) for b in pieces]


def _written_or_not(batch: Batch, pieces: list[Block], span: Callable[[Block], float]) -> list[Block]:
    """Blocks whose bias stands in channels of the keys, and those whose bias is written out."""
    n_batch, n_heads, n_q, dim = batch.q.shape
    size, limit = written_rows(n_batch, n_heads, batch.k.shape[2]), -1.0
    if batch.alibi is not None and batch.added is None and batch.causal:
        limit = STEEPEST / max(_steepest(batch.alibi), _TINY)
    rows = _rows_within(limit)
    if not batch.counted and limit > 0:
        pieces = halved(pieces, lambda b: not limit < span(b) < math.inf or b.n_rows <= _SHORTEST)
    elif batch.counted and rows > _SHORTEST:
        pieces = [part for b in pieces for part in blocks(b.first, b.last, rows, faded=b.faded)]
    elif batch.counted:
        limit = -1.0
    # Fewer rows than features are cheaper written out, but one compiled graph should serve both.
    chosen: list[Block] = []
    for b in pieces:
        many = n_q > 1 if torch.compiler.is_compiling() else b.n_rows > dim
        in_channels = many and not b.faded and span(b) <= limit
        chosen += [b] if in_channels else blocks(b.first, b.last, size, written=True, faded=b.faded)
    return chosen


def _rows_within(limit: float) -> int:
    """How many rows reach no further, by number: the same for every length."""
    size = ROWS
    while size > 1 and size - 1 > limit:
        size //= 2
    return size


def _attend_block(batch: Batch, block: Block) -> Tensor:
    """Attention of the queries of a block."""
    end = batch.behind + block.last if batch.causal else batch.k.shape[2]
    rows = slice(batch.behind + block.first, batch.behind + block.last)
    q, k, v = batch.q[:, :, block.first : block.last], batch.k[:, :, :end], batch.v[:, :, :end]
    own, places = batch.positions[:, rows], batch.positions[:, :end]
    if batch.decay is not None:
        q, k = turned(q, k, own, places, batch.decay, block.faded)
    allowed = _allowed(batch, block, end)
    # Where nothing is added, kernels know the triangle by themselves.
    added = _added(batch, block, q, k, own, places)
    triangle = False
    if batch.causal and allowed is None and added is None and block.n_rows == end:
        triangle = True  # no symbol, as the comparison is in a compiled graph
    if batch.causal and batch.q.shape[2] > 1 and not triangle:
        before = up_to_own_row(block.n_rows, end, q.device)
        allowed = before if allowed is None else allowed & before
    if batch.alibi is not None and not block.written:
        return attend_with_channels(q, k, v, allowed, bias=batch.alibi, positions=places, seeing=batch.seeing)
    if batch.decay is not None and block.faded:
        q = without(q, batch.decay, block.faded)
    return attend(q, k, v, allowed, added=added, triangle=triangle, seeing=batch.seeing)


def _added(batch: Batch, block: Block, q: Tensor, k: Tensor, own: Tensor, places: Tensor) -> Tensor | None:
    """What is added to the scores of a block, written out."""
    added = None if batch.added is None else _part(batch.added, batch, block, k.shape[2])
    if batch.alibi is not None and block.written:
        added = batch.alibi.bias(own, places, q.dtype)
    if batch.decay is None or not block.faded:
        return added
    times = elapsed(own.unsqueeze(-1), places.unsqueeze(-2))
    scores = faded_scores(q, as_many_heads(k, q), times, batch.decay, block.faded)
    return scores if added is None else scores + added


def _allowed(batch: Batch, block: Block, end: int) -> Tensor | None:
    """Which keys the queries of a block may attend to, but for the order of rows."""
    if batch.mask is not None:
        return _part(batch.mask, batch, block, end)
    if batch.padding is None:
        return None
    return batch.padding[:, None, None, :end]


def _part(x: Tensor, batch: Batch, block: Block, end: int) -> Tensor:
    """The part of a mask or a bias that belongs to a block."""
    sizes = (batch.q.shape[2], batch.k.shape[2])
    return x.expand(*x.shape[:-2], *sizes)[..., block.first : block.last, :end]


def _steepest(alibi: ALiBiEmbedding) -> float:
    """The largest slope per unit of position, infinite where it cannot be read."""
    learned = alibi.learned_slopes
    if learned is None:
        return steepest_of_paper(alibi.num_heads) / alibi.unit
    return float(learned.detach().abs().amax()) / alibi.unit if can_be_read(learned) else math.inf
