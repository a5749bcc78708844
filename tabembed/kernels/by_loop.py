"""How every kernel runs inside ``torch.vmap``: item by item, its results stacked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def by_loop(op: Callable[..., Any]) -> Callable[..., Any]:
    """The vmap rule of an op, for its ``register_vmap``.

    A kernel has its own batches; ``vmap`` around one is there for correctness (gradients of samples, models
    stacked into an ensemble), not for speed.

    Args:
        op: takes tensors, lists of tensors and plain values; gives a tensor or a tuple of them.
    """

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        outputs = [op(*_item(arguments, in_dims, i)) for i in range(max(1, info.batch_size))]
        if not isinstance(outputs[0], tuple):
            return torch.stack(outputs)[: info.batch_size], 0
        stacked = tuple(torch.stack(one)[: info.batch_size] for one in zip(*outputs, strict=True))
        return stacked, (0,) * len(stacked)

    return rule


def _item(argument: Any, dim: Any, i: int) -> Any:
    """What an argument, or everything in a list of them, holds for item i."""
    if isinstance(argument, (list, tuple)):
        dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(argument)
        return [_item(one, d, i) for one, d in zip(argument, dims, strict=True)]
    if dim is None:
        return argument
    if argument.shape[dim] == 0:  # an op shows its shapes on zeros, too
        return torch.zeros_like(argument.sum(dim))
    return argument.select(dim, i)
