"""The running mean of a network's weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel


def averaged(network: nn.Module, decay: float) -> AveragedModel:
    """A copy of a network that follows the running mean of its weights, one ``update_parameters`` a step.

    After ``n`` steps the newest weights count for ``1 − decay``, and for ``1 / n`` while that is more, so
    that the mean of the first steps is a plain one.

    Args:
        network: what is trained.
        decay: share of the mean that a step leaves, in [0, 1).

    Source: Polyak & Juditsky 1992, doi:10.1137/0330046; of the exponential form, Izmailov et al. 2018,
        arXiv:1803.05407.

    >>> import torch
    >>> layer = torch.nn.Linear(1, 1)
    >>> mean = averaged(layer, 0.5)
    >>> for value in (1.0, 3.0, 4.0):
    ...     _ = torch.nn.init.constant_(layer.weight, value)
    ...     mean.update_parameters(layer)
    >>> mean.module.weight.item()
    3.0
    """

    def follow(means: Sequence[Tensor], weights: Sequence[Tensor], n_steps: Tensor | int) -> None:
        share = max(1.0 - decay, 1.0 / (int(n_steps) + 1))
        for mean, weight in zip(means, weights, strict=True):
            mean.lerp_(weight, share)

    return AveragedModel(network, multi_avg_fn=follow)
