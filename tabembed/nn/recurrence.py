"""Gated recurrent units over rows, whichever way they are batched."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tabembed.nn.draws import generator_of, split_seed, uniform_
from tabembed.nn.dropout import Dropout
from tabembed.nn.sequence_layout import Layout


class GRULayer(nn.Module):
    """One layer of gated recurrent units.

    Args:
        d_model: width of a row and of what is kept of the rows before.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - x, output: ``(n_sequences, n_rows, d_model)``, rows first and padding last; start:
          ``(n_sequences, d_model)``

    Source: Cho et al. 2014, arXiv:1406.1078, as ``torch.nn.GRU`` computes it.
    """

    def __init__(self, d_model: int, *, seed: int | None = None) -> None:
        super().__init__()
        self.seed = seed
        self.weight_input = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.weight_state = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.bias_input = nn.Parameter(torch.empty(3 * d_model))
        self.bias_state = nn.Parameter(torch.empty(3 * d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every weight anew from U(−d^−½, d^−½)."""
        generator = generator_of(self.seed)
        for weight in self.parameters():
            uniform_(weight, self.weight_input.shape[1] ** -0.5, generator)

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """What is known after every row.

        Args:
            x: rows.
            start: what is known before them.
        """
        # torch wants one dtype, and autocast may have narrowed the rows alone. What was made in inference
        # mode cannot be kept for a gradient, a copy of it can.
        weights: list[Tensor] = list(self.parameters())
        x, start = x.to(weights[0].dtype), start.to(weights[0].dtype, copy=True).unsqueeze(0)
        # What ``nn.GRU`` calls, undocumented: that module draws its weights from the global generator, and
        # holds several layers in one, without what they keep row by row.
        return torch.gru(x, start, weights, True, 1, 0.0, False, False, True)[0]


class Recurrence(nn.Module):
    """Layers of gated recurrent units over the rows of sequences.

    Args:
        d_model: width of a row.
        n_layers: number of layers.
        dropout: share of elements between layers that is dropped while training.
        seed: seed of the first weights.

    Shape:
        - x, output: ``(n_lines, n_places, d_model)``; anything on padding
        - layers: ``(n_lines, d_model)`` each

    >>> from tabembed.nn.sequence_layout import layout_of
    >>> layout = layout_of(torch.tensor([[0, 1, 2]]))
    >>> Recurrence(8, n_layers=2)(torch.randn(1, 3, 8), layout)[0].shape
    torch.Size([1, 3, 8])
    """

    keeps_rows = False
    """What it knows of the rows before stands in its layers."""

    def __init__(self, d_model: int, *, n_layers: int, dropout: float = 0.0, seed: int | None = None) -> None:
        super().__init__()
        self.layers: Any = nn.ModuleList(GRULayer(d_model, seed=one) for one in split_seed(seed, n_layers))
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        for layer in self.layers:
            layer.reset_parameters()

    def placed(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Tokens as they are: a recurrence knows their order."""
        return tokens

    def initial_state(self, n_lines: int) -> tuple[Any, ...]:
        """What every layer knows before any row."""
        weights = [next(layer.parameters()) for layer in self.layers]
        return tuple(weight.new_zeros(n_lines, weight.shape[1]) for weight in weights)

    def forward(
        self, tokens: Tensor, layout: Layout, layers: tuple[Any, ...] | None = None
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """Vectors of the rows, and, in lines of one sequence, what every layer knows after the last.

        Args:
            tokens: of the last places.
            layout: where all rows stand.
            layers: what every layer knew before them.
        """
        layers = self.initial_state(tokens.shape[0]) if layers is None else layers
        if not tokens.shape[0] * tokens.shape[1]:
            return tokens, layers
        if layout.ends is not None:
            return self._packed(tokens, layout.ends), layers
        return self._padded(tokens, layout.tail(tokens.shape[1]), layers)

    def _padded(
        self, x: Tensor, layout: Layout, layers: tuple[Any, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Real rows first, in their order."""
        order = (~layout.real).to(torch.int8).argsort(dim=-1, stable=True)
        back = order.argsort(dim=-1).unsqueeze(-1).expand_as(x)
        count = layout.real.sum(-1)
        last = (count - 1).clamp(min=0)[:, None, None].expand(-1, 1, x.shape[-1])
        rows, kept = self._layers(x.gather(1, order.unsqueeze(-1).expand_as(x)), layers), []
        for start, known in zip(layers, rows, strict=True):
            kept.append(torch.where(count.unsqueeze(-1) > 0, known.gather(1, last).squeeze(1), start))
        return rows[-1].gather(1, back), tuple(kept)

    def _packed(self, x: Tensor, ends: list[int]) -> Tensor:
        """Some steps of all sequences that have any left, until half of them end, and so on."""
        edges = torch.tensor(ends, device="cpu")
        lengths, order = edges.diff().sort(descending=True, stable=True)
        first, done, parts, places = edges[:-1][order], 0, [], []
        known = self.initial_state(len(order))
        while n := int((lengths > done).sum()):
            until = int(lengths[(n - 1) // 2])
            steps = torch.arange(done, until, device="cpu")
            real = steps < lengths[:n].unsqueeze(-1)
            index = (first[:n].unsqueeze(-1) + steps.minimum(lengths[:n].unsqueeze(-1) - 1)).to(x.device)
            rows = self._layers(x[0].index_select(0, index.flatten()).unflatten(0, index.shape), known, n)
            known = tuple(one[:, -1] for one in rows)
            parts.append(rows[-1][real.to(x.device)])
            places.append(index[real.to(x.device)])
            done = until
        back = torch.cat(places).argsort()
        return torch.cat(parts).index_select(0, back).unsqueeze(0)

    def _layers(self, rows: Tensor, known: tuple[Any, ...], n: int | None = None) -> list[Tensor]:
        """What every layer makes of the rows of sequences, the first ``n`` of those it knows something of."""
        made: list[Tensor] = []
        for layer, start in zip(self.layers, known, strict=True):
            rows = layer(self.dropout(rows) if made else rows, start[:n])
            made.append(rows)
        return made
