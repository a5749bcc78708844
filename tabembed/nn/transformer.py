"""A stack of pre-norm transformer blocks over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed.nn.draws import generator_of, split_seed, undrawn_linear, uniform_
from tabembed.nn.dropout import Dropout

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Keys = tuple[Tensor, Tensor]
"""Keys and values of rows, as they are before they are turned."""

_WIDER = 4


class TransformerBlock(nn.Module):
    """Add attention of normalised rows to them, then a network of two layers a row.

    Args:
        d_model: width of a row.
        n_heads: number of heads, which divides it.
        depth: number of blocks of the stack: what is added starts smaller, so that their sum does not.
        dropout: share of elements of what is added that is dropped while training.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - x, output: ``(n_lines, n_rows, d_model)``

    Source: Xiong et al. 2020, arXiv:2002.04745 (normalise first); Radford et al. 2019 (scale by depth).
    """

    def __init__(
        self, d_model: int, *, n_heads: int, depth: int, dropout: float = 0.0, seed: int | None = None
    ) -> None:
        super().__init__()
        self.n_heads, self.depth, self.seed = n_heads, depth, seed
        self.before_attention = nn.LayerNorm(d_model)
        self.qkv = undrawn_linear(d_model, 3 * d_model)
        self.out = undrawn_linear(d_model, d_model)
        self.before_hidden = nn.LayerNorm(d_model)
        self.hidden = undrawn_linear(d_model, _WIDER * d_model)
        self.back = undrawn_linear(_WIDER * d_model, d_model)
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, biases 0."""
        generator, smaller = generator_of(self.seed), (2 * self.depth) ** -0.5
        self.before_attention.reset_parameters()
        self.before_hidden.reset_parameters()
        layers = ((self.qkv, 1.0), (self.out, smaller), (self.hidden, 1.0), (self.back, smaller))
        for layer, scale in layers:
            uniform_(layer.weight, scale * (3 / layer.in_features) ** 0.5, generator)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, attend: Attend, earlier: Keys | None = None) -> tuple[Tensor, Keys]:
        """Rows of the next block, and the keys and values of all rows so far.

        Args:
            x: rows.
            attend: attention of queries, keys and values.
            earlier: keys and values of rows before these.
        """
        q, k, v = self.qkv(self.before_attention(x)).unflatten(-1, (3, self.n_heads, -1)).unbind(-3)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        if earlier is not None:
            # Autocast may be on now and have been off before.
            k, v = (torch.cat((old.to(new.dtype), new), 2) for old, new in zip(earlier, (k, v), strict=True))
        x = x + self.dropout(self.out(attend(q, k, v).transpose(1, 2).flatten(2)))
        hidden = F.gelu(self.hidden(self.before_hidden(x)))
        return x + self.dropout(self.back(hidden)), (k, v)


class Transformer(nn.Module):
    """Blocks one after the other, and a last normalisation.

    Args:
        d_model: width of a row.
        n_layers: number of blocks.
        n_heads: number of heads.
        dropout: as in ``TransformerBlock``.
        seed: seed of the first weights.

    Shape:
        - x, output: ``(n_lines, n_rows, d_model)``

    >>> stack = Transformer(8, n_layers=2, n_heads=2)
    >>> stack(torch.randn(1, 3, 8), F.scaled_dot_product_attention)[0].shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self, d_model: int, *, n_layers: int, n_heads: int, dropout: float = 0.0, seed: int | None = None
    ) -> None:
        super().__init__()
        self.n_heads, self.width = n_heads, d_model // n_heads
        seeds = split_seed(seed, n_layers)
        self.blocks: Any = nn.ModuleList(
            TransformerBlock(d_model, n_heads=n_heads, depth=n_layers, dropout=dropout, seed=one)
            for one in seeds
        )
        self.norm = nn.LayerNorm(d_model)

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        for block in self.blocks:
            block.reset_parameters()
        self.norm.reset_parameters()

    def forward(
        self, x: Tensor, attend: Attend, earlier: tuple[Keys, ...] | None = None
    ) -> tuple[Tensor, tuple[Keys, ...]]:
        """Vectors of the rows, and the keys and values of every block where earlier ones were given."""
        kept: list[Keys] = []
        for i, block in enumerate(self.blocks):
            x, keys = block(x, attend, None if earlier is None else earlier[i])
            kept += [] if earlier is None else [keys]
        return self.norm(x), tuple(kept)

    def initial_state(self, n_lines: int) -> tuple[Keys, ...]:
        """Keys and values before any row."""
        empty = self.norm.weight.new_zeros(n_lines, self.n_heads, 0, self.width)
        return ((empty, empty),) * len(self.blocks)
