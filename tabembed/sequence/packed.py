"""Whole sequences in batches of about equal size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tabembed.sequence.batch import SequenceBatch


def pack(
    batch: SequenceBatch, token_budget: int, generator: torch.Generator | None
) -> Iterator[SequenceBatch]:
    """Batches of whole sequences, at most so many rows each; every sequence stands in one of them.

    Args:
        batch: the sequences.
        token_budget: most rows of a batch; a longer sequence comes alone.
        generator: shuffles the batches, and sequences among those of their length.
    """
    for chosen in _groups(batch.lengths.cpu(), token_budget, generator):
        yield batch[chosen]


def _groups(length: Tensor, budget: int, generator: torch.Generator | None) -> list[Tensor]:
    """Numbers of sequences, similar lengths together, in groups of at most ``budget`` rows."""
    order = torch.arange(len(length))
    if generator is not None:
        order = torch.randperm(len(length), generator=generator, device=generator.device).cpu()
    order = order[length[order].argsort(stable=True)]
    total = torch.cat((length.new_zeros(1), length[order].cumsum(0)))
    groups, start = [], 0
    while start < len(order):
        stop = int(torch.searchsorted(total, total[start] + budget, right=True)) - 1
        stop = max(stop, start + 1)
        groups.append(order[start:stop].sort().values)
        start = stop
    if generator is not None:
        shuffled = torch.randperm(len(groups), generator=generator, device=generator.device).tolist()
        groups = [groups[i] for i in shuffled]
    return groups
