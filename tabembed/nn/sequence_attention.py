"""Attention of the rows of sequences, whichever way they are batched, with rows of one instant kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tabembed.nn.attention import attention
from tabembed.nn.draws import split_seed
from tabembed.nn.packed import attend_packed
from tabembed.nn.sequence_clock import Clock
from tabembed.nn.sequence_layout import Layout
from tabembed.nn.sequence_position import SequencePosition
from tabembed.nn.transformer import Transformer

HEAD = 16
"""Width of a head."""


class AttendedRows(nn.Module):
    """Transformer blocks over the rows of sequences, placed by a scheme.

    Args:
        scheme: of the positions.
        clock: what positions are counted in.
        d_model: width of a row: a multiple of 16, or an even number below 32, which is one head.
        n_layers: number of blocks.
        causal: rows see those up to their own.
        dropout: as in ``TransformerBlock``.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - tokens, output: ``(n_lines, n_new, d_model)``, rows of the last places of the layout

    Raises: ValueError for another width.
    """

    keeps_rows = True
    """Later rows look at all the rows before."""

    def __init__(
        self,
        scheme: str | None,
        clock: Clock,
        *,
        d_model: int,
        n_layers: int,
        causal: bool = True,
        dropout: float = 0.0,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.causal, n_heads, seeds = causal, _heads(d_model), split_seed(seed, 2)
        self.position = SequencePosition(
            scheme, clock, d_model=d_model, n_heads=n_heads, causal=causal, seed=seeds[0]
        )
        self.transformer = Transformer(
            d_model, n_layers=n_layers, n_heads=n_heads, dropout=dropout, seed=seeds[1]
        )

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        self.position.reset_parameters()
        self.transformer.reset_parameters()

    def placed(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Tokens with what the scheme adds to them; the layout is theirs."""
        return self.position(tokens, layout)

    def nothing(self, n_lines: int) -> tuple[Any, ...]:
        """Keys and values before any row."""
        return self.transformer.nothing(n_lines)

    def forward(
        self, tokens: Tensor, layout: Layout, layers: tuple[Any, ...] | None = None
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """Vectors of the rows, and, where earlier ones are given, keys and values of all rows.

        Args:
            tokens: placed ones.
            layout: where all rows stand, the earlier ones, too.
            layers: keys and values of earlier rows.
        """
        attend = RowAttention(layout, self.position, self.causal, layers is not None)
        return self.transformer(tokens, attend, layers)


def _heads(d_model: int) -> int:
    """How many heads there are."""
    if d_model % HEAD and (d_model > 2 * HEAD or d_model % 2):
        raise ValueError(f"d_model must be a multiple of 16, or even and below 32, got {d_model}")
    return max(d_model // HEAD, 1)


@dataclass(frozen=True, eq=False)
class RowAttention:
    """Who sees whom among the rows of some sequences: a function of queries, keys and values.

    Args:
        layout: where the keys stand; queries are the last of its places.
        position: the scheme.
        causal: rows see those up to their own.
        grown: keys of earlier calls stand before the queries.

    Shape:
        - q: ``(n_lines, n_heads, n_q, width)``; k, v: ``(n_lines, n_heads, n_places, width)``
        - output: as q
    """

    layout: Layout
    position: SequencePosition
    causal: bool
    grown: bool = False

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of the queries."""
        layout, strict = self.layout, self.layout.instant is not None
        if layout.ends is not None:
            if not strict:
                ends = torch.tensor(layout.ends, device="cpu")
                return self._attend(q, k, v, self._timed(layout.times), cu_seqlens=ends)
            return attend_packed(q, k, v, layout.times, layout.ends, self._strict_packed, with_mask=True)
        if not (strict or self.grown):
            mask = layout.real if layout.padded else None
            return self._attend(q, k, v, self._timed(layout.times), mask=mask)
        allowed = layout.real[:, None, None, :]
        if strict:
            allowed = self._apart(layout.times, layout.real)[:, :, k.shape[2] - q.shape[2] :]
        return self._attend(q, k, v, self.position.clock.positions(layout), mask=allowed)

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        positions: Tensor | None,
        *,
        mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        rotary, bias = self.position.rotary, self.position.bias
        placed = positions if rotary is not None or bias is not None else None
        return attention(
            q,
            k,
            v,
            rotary=rotary,
            bias=bias,
            positions=placed,
            mask=mask,
            cu_seqlens=cu_seqlens,
            causal=self.causal,
        )

    def _timed(self, times: Tensor) -> Tensor | None:
        """Positions of the keys; ``None`` where rows are counted."""
        return times if self.position.clock.timed else None

    def _strict_packed(
        self, q: Tensor, k: Tensor, v: Tensor, times: Tensor | None, real: Tensor | None
    ) -> Tensor:
        """Sequences of similar length, a line each."""
        if times is None or real is None or not q.numel():
            return v
        mask = self._apart(times, real)
        return self._attend(q, k, v, self._timed(times), mask=mask)

    def _apart(self, times: Tensor, real: Tensor) -> Tensor:
        """Which key a query may attend to: itself, and rows of other instants; earlier ones, if causal."""
        own, other = times[:, None, :, None], times[:, None, None, :]
        steps = torch.arange(times.shape[1], device=times.device)
        self_ = steps.unsqueeze(-1) == steps
        apart = (other < own) if self.causal else (other != own)
        return (apart | self_) & real[:, None, None, :]
