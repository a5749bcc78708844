"""Attention of a batch of sequences, in blocks of queries where something depends on two positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tabembed._checks import is_concrete
from tabembed.functional.rotary import LIMIT
from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.attention_blocks import ROWS, Block, blocks, halved, over_blocks, spans, written_rows
from tabembed.nn.attention_checks import check_rising
from tabembed.nn.attention_flex import attend_flex, runs_flex
from tabembed.nn.attention_scores import attend, attend_with_channels, up_to_own_row
from tabembed.nn.decay import RelativeDecay

STEEPEST = 256.0
"""How far a channel may shift scores of one block: float32 keeps 1e-5 of them."""


@dataclass(frozen=True)
class Batch:
    """Queries, keys and values, and what decides who sees whom.

    Args:
        q: queries, turned already.
        k: keys, turned already.
        v: values.
        positions: of the keys; those of padding are those of some real row.
        counted: positions are row numbers.
        padding: True for real rows.
        mask: True where a query may attend to a key.
        alibi: what makes a bias of positions.
        added: numbers added to the scores.
        decay: turns queries and keys of a block.
        causal: queries see keys up to their own row.

    Shape:
        - q: ``(n_batch, n_heads, n_q, dim)``; k, v: ``(n_batch, n_k_heads, n_k, dim)``
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
    def needs_gradient(self) -> bool:
        """Whether a gradient is asked of anything here, by autograd: ``torch.func`` takes no checkpoints."""
        if not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(self.q):
            return False
        parameters = [p for m in (self.alibi, self.decay) if m is not None for p in m.parameters()]
        tensors = (self.q, self.k, self.v, self.positions, self.added, *parameters)
        return any(x is not None and x.requires_grad for x in tensors)

    @property
    def seeing(self) -> bool:
        """Whether every query may attend to something: to its own row, at least."""
        return self.padding is None and self.mask is None and self.added is None


def attend_batch(batch: Batch) -> Tensor:
    """Attention of all queries: ``(n_batch, n_heads, n_q, dim)``."""
    if not batch.q.numel() or not batch.k.shape[2]:
        return batch.q.masked_fill(torch.ones_like(batch.q, dtype=torch.bool), 0)
    if batch.causal and (batch.decay is not None or batch.alibi is not None):
        check_rising(batch.positions)
    symmetric = not batch.causal and batch.seeing
    if batch.alibi is not None and symmetric and runs_flex(batch.q, batch.positions, batch.alibi):
        return attend_flex(batch.q, batch.k, batch.v, batch.alibi, batch.positions)
    return over_blocks(lambda block: _attend_block(batch, block), _pieces(batch), batch.needs_gradient)


def _pieces(batch: Batch) -> list[Block]:
    """Blocks of queries that are exact, and cheap to compute together."""
    n_q = batch.q.shape[2]
    biased = batch.alibi is not None or batch.added is not None
    masked = batch.padding is not None or batch.mask is not None or batch.behind > 0
    if not (biased or batch.decay is not None or (batch.causal and masked)):
        return blocks(0, n_q, n_q)
    pieces = blocks(0, n_q, ROWS)
    span = spans(batch.positions[:, batch.behind :], batch.counted)
    if batch.decay is not None:
        rate, limit = _fastest(batch.decay), _reach(batch.q.dtype)
        pieces = halved(pieces, lambda block: (span(block) or 0.0) * rate <= limit)
    return _written_or_not(batch, pieces, span) if biased else pieces


def _written_or_not(batch: Batch, pieces: list[Block], span: Callable[[Block], float | None]) -> list[Block]:
    """Blocks whose bias stands in channels of the keys, and smaller ones whose bias is written out."""
    n_batch, n_heads, _, dim = batch.q.shape
    size = written_rows(n_batch, n_heads, batch.k.shape[2])
    slope = _steepest(batch.alibi) if batch.alibi is not None and batch.causal else math.inf
    chosen: list[Block] = []
    for block in pieces:
        # Fewer rows than features are cheaper written out; and where a span is not known, it may be any.
        reach = span(block) if block.n_rows > dim and batch.added is None else None
        fits = reach is not None and reach * slope <= STEEPEST
        chosen += [block] if fits else blocks(block.first, block.last, size, written=True)
    return chosen


def _attend_block(batch: Batch, block: Block) -> Tensor:
    """Attention of the queries of a block."""
    end = batch.behind + block.last if batch.causal else batch.k.shape[2]
    rows = slice(batch.behind + block.first, batch.behind + block.last)
    q, k, v = batch.q[:, :, block.first : block.last], batch.k[:, :, :end], batch.v[:, :, :end]
    own, places = batch.positions[:, rows], batch.positions[:, :end]
    if batch.decay is not None:
        q, k = batch.decay(q, k, positions=own, k_positions=places)
    allowed = _allowed(batch, block, end)
    # Where nothing is added, kernels know the triangle by themselves.
    triangle = batch.causal and allowed is None and block.n_rows == end and not block.written
    if batch.causal and block.n_rows > 1 and not triangle:
        before = up_to_own_row(block.n_rows, end, q.device)
        allowed = before if allowed is None else allowed & before
    if batch.alibi is None:
        added = None if batch.added is None else _part(batch.added, batch, block, end)
        return attend(q, k, v, allowed, added=added, triangle=triangle, seeing=batch.seeing)
    if block.written:
        return attend(q, k, v, allowed, added=batch.alibi.bias(own, places, q.dtype), seeing=batch.seeing)
    return attend_with_channels(q, k, v, allowed, bias=batch.alibi, positions=places, seeing=batch.seeing)


def _allowed(batch: Batch, block: Block, end: int) -> Tensor | None:
    """Which keys the queries of a block may attend to, but for the order of rows."""
    if batch.mask is not None:
        return _part(batch.mask, batch, block, end)
    if batch.padding is None:
        return None
    keys = batch.padding[:, None, None, :end]
    if not batch.causal:
        return keys
    return keys & batch.padding[:, None, batch.behind + block.first : batch.behind + block.last, None]


def _part(x: Tensor, batch: Batch, block: Block, end: int) -> Tensor:
    """The part of a mask or a bias that belongs to a block."""
    sizes = (batch.q.shape[2], batch.k.shape[2])
    return x.expand(*x.shape[:-2], *sizes)[..., block.first : block.last, :end]


def _steepest(alibi: ALiBiEmbedding) -> float:
    """The largest slope per unit of position, as far as it can be read; those of the paper are below 1."""
    learned = alibi.learned_slopes
    if learned is None or not is_concrete(learned):
        return 1.0 / alibi.unit
    return float(learned.detach().abs().amax()) / alibi.unit


def _fastest(decay: RelativeDecay) -> float:
    """The rate of the pair that fades fastest, as far as it can be read."""
    learned = decay.log_half_lives
    return decay.largest_rate() if learned is None or is_concrete(learned) else 0.0


def _reach(dtype: torch.dtype) -> float:
    """The exponent that queries of a block may have, so that nothing is seen of keys whose own has ended."""
    return LIMIT.get(dtype, 80.0) + math.log(torch.finfo(dtype).eps)
