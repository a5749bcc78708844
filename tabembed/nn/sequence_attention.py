"""Attention of the rows of sequences, whichever way they are batched, with rows of one instant kept apart."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tabembed.nn.attention import attention
from tabembed.nn.draws import split_seed
from tabembed.nn.packed import attend_packed
from tabembed.nn.sequence_layout import Layout
from tabembed.nn.sequence_position import SequencePosition
from tabembed.nn.time_scale import TimeScale
from tabembed.nn.transformer import Attend, Transformer

HEAD = 16
"""Width of a head."""


class SequenceTransformer(nn.Module):
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
        clock: TimeScale,
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

    def initial_state(self, n_lines: int) -> tuple[Any, ...]:
        """Keys and values before any row."""
        return self.transformer.initial_state(n_lines)

    def forward(
        self, tokens: Tensor, layout: Layout, layers: tuple[Any, ...] | None = None
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """Vectors of the rows, and, where earlier ones are given, keys and values of all rows.

        Args:
            tokens: placed ones.
            layout: where all rows stand, the earlier ones, too.
            layers: keys and values of earlier rows.
        """
        attend = attention_of(layout, self.position, causal=self.causal, n_new=tokens.shape[1])
        return self.transformer(tokens, attend, layers)


def _heads(d_model: int) -> int:
    """How many heads there are."""
    if d_model % HEAD and (d_model > 2 * HEAD or d_model % 2):
        raise ValueError(f"d_model must be a multiple of 16, or even and below 32, got {d_model}")
    return max(d_model // HEAD, 1)


def attention_of(layout: Layout, position: SequencePosition, *, causal: bool, n_new: int) -> Attend:
    """Who sees whom among the rows of some sequences, as attention of queries, keys and values.

    Args:
        layout: where the keys stand.
        position: the scheme.
        causal: rows see those up to their own.
        n_new: number of queries, which are the last places.

    Shape:
        - q: ``(n_lines, n_heads, n_new, width)``; k, v: ``(n_lines, n_heads, n_places, width)``
        - output: as q
    """
    placed = PlacedAttention(position, causal)
    places = position.clock.positions(layout)
    if layout.instant is not None and layout.ends is not None:
        return PackedInstants(placed, places, layout.ends)
    if layout.instant is not None:
        allowed = apart(places, layout.real, causal)[:, :, layout.n_places - n_new :]
        return functools.partial(placed, places, mask=allowed)
    if n_new < layout.n_places:
        return functools.partial(placed, places, mask=layout.real[:, None, None, :])
    # Row numbers are the same in every line: attention counts them once.
    whole = functools.partial(placed, places if position.clock.timed else None)
    if layout.ends is not None:
        return functools.partial(whole, cu_seqlens=torch.tensor(layout.ends, device="cpu"))
    return functools.partial(whole, mask=layout.real if layout.padded else None)


@dataclass(frozen=True, eq=False)
class PlacedAttention:
    """Attention of rows that a scheme places.

    Args:
        position: the scheme.
        causal: rows see those up to their own.
    """

    position: SequencePosition
    causal: bool

    def __call__(
        self,
        places: Tensor | None,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Attention, with the words of ``attention``; ``places`` are those of the keys."""
        rotary, bias = self.position.rotary, self.position.bias
        positions = None if rotary is None and bias is None else places
        return attention(
            q,
            k,
            v,
            rotary=rotary,
            bias=bias,
            positions=positions,
            mask=mask,
            cu_seqlens=cu_seqlens,
            causal=self.causal,
        )


@dataclass(frozen=True, eq=False)
class PackedInstants:
    """Attention of packed sequences whose rows of one instant are kept apart.

    Args:
        placed: attention of sequences, a line each.
        places: where the rows stand.
        ends: where sequences begin and end.
    """

    placed: PlacedAttention
    places: Tensor
    ends: list[int]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of sequences of similar length, a line each."""
        return attend_packed(q, k, v, self.places, self.ends, self._lines, with_mask=True)

    def _lines(self, q: Tensor, k: Tensor, v: Tensor, places: Tensor | None, real: Tensor | None) -> Tensor:
        if places is None or real is None or not q.numel():
            return v
        return self.placed(places, q, k, v, mask=apart(places, real, self.placed.causal))


def apart(places: Tensor, real: Tensor, causal: bool) -> Tensor:
    """Which key a query may attend to: itself, and rows of other instants; earlier ones, if causal.

    >>> apart(torch.tensor([[0, 5, 5]]), torch.ones(1, 3, dtype=torch.bool), True)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
    """
    own, other = places[:, None, :, None], places[:, None, None, :]
    steps = torch.arange(places.shape[1], device=places.device)
    others = (other < own) if causal else (other != own)
    return (others | (steps.unsqueeze(-1) == steps)) & real[:, None, None, :]
