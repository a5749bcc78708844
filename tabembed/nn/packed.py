"""Attention of sequences that stand one after the other in one row of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


def attend_packed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor | None,
    ends: list[int],
    attend: Attend,
    with_mask: bool,
) -> Tensor:
    """Attention of every sequence by itself, in few batches of sequences of similar length.

    What fills a batch up are copies of the last row of each sequence.

    Args:
        q: queries, ``(1, n_heads, n_rows, dim)``.
        k: keys, ``(1, n_k_heads, n_rows, dim)``.
        v: values, as the keys.
        positions: ``(1, n_rows)``, or ``None``.
        ends: where sequences begin and end, from 0 to n_rows.
        attend: attention of a batch, from q, k, v, positions and a mask of real rows.
        with_mask: give it the mask; without, no query may see rows after its own.

    Shape:
        - output: ``(1, n_heads, n_rows, dim)``
    """
    parts, places = [], torch.empty(q.shape[2], dtype=torch.int64, device="cpu")
    n_done = 0
    for index, real in _groups(ends):
        rows = index.to(q.device)
        own = None if positions is None else positions[0][rows]
        mask = real.to(q.device) if with_mask else None
        out = attend(_taken(q, rows), _taken(k, rows), _taken(v, rows), own, mask)
        parts.append(out.transpose(1, 2).flatten(0, 1))
        places[index[real]] = n_done + real.flatten().nonzero().squeeze(-1)
        n_done += index.numel()
    if not parts:
        return attend(q, k, v, positions, None)
    return torch.cat(parts).index_select(0, places.to(q.device)).transpose(0, 1).unsqueeze(0)


def _groups(ends: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of sequences of similar length, ``(n_sequences, longest)``, and which of them are real."""
    edges = torch.tensor(ends, device="cpu")
    first, length = edges[:-1], edges.diff()
    # A ratio of √2 between the longest and the shortest: few batches, and less than half of one is copies.
    size = (2 * length.clamp(min=1).double().log2()).ceil().long().masked_fill(length == 0, -1)
    for one in size.unique().tolist():
        if one >= 0:
            members = size == one
            steps = torch.arange(int(length[members].amax()), device="cpu")
            real = steps < length[members].unsqueeze(-1)
            yield first[members].unsqueeze(-1) + steps.minimum(length[members].unsqueeze(-1) - 1), real


def _taken(x: Tensor, rows: Tensor) -> Tensor:
    """Rows of packed queries, keys or values, as a batch: ``(n_sequences, n_heads, longest, dim)``."""
    taken = x[0].transpose(0, 1).index_select(0, rows.flatten())
    return taken.unflatten(0, rows.shape).transpose(1, 2)
