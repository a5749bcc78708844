"""The running mean of a network's weights."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)


class Averaged(Generic[AnyModule]):
    """A copy of a network that follows the running mean of its weights, one ``update`` a step.

    After ``n`` steps the newest weights count for ``1 − decay``, and for ``1 / n`` while that is more, so
    that the mean of the first steps is a plain one. PyTorch's ``AveragedModel`` gives the same numbers, but
    walks through all modules at every step, which takes long for a small network.

    Args:
        network: what is trained; its buffers do not change.
        decay: share of the mean that a step leaves, in [0, 1).

    Source: Polyak & Juditsky 1992, doi:10.1137/0330046; of the exponential form, Izmailov et al. 2018,
        arXiv:1803.05407.

    >>> layer = nn.Linear(1, 1)
    >>> mean = Averaged(layer, 0.5)
    >>> for value in (1.0, 3.0, 4.0):
    ...     _ = nn.init.constant_(layer.weight, value)
    ...     mean.update()
    >>> mean.network.weight.item()
    3.0
    """

    def __init__(self, network: AnyModule, decay: float) -> None:
        self.network = copy.deepcopy(network).requires_grad_(False)
        self.decay, self.n_steps = decay, 0
        self._pairs = list(zip(self.network.parameters(), network.parameters(), strict=True))

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of the network as they are now."""
        self.n_steps += 1
        share = max(1.0 - self.decay, 1.0 / self.n_steps)
        for mean, weight in self._pairs:
            mean.lerp_(weight, share)
