"""Which features make the pairs that turn, and weights trained with another layout of them."""

from __future__ import annotations

import torch
from torch import Tensor

from tabembed._checks import check_choice, check_integer, check_tensor
from tabembed.functional.rotary import LAYOUTS


def rotary_width(dim: int, rotary_dim: int | None) -> int:
    """The number of features that turn.

    Raises: ValueError when it is odd or there are not as many.
    """
    name, width = ("dim", dim) if rotary_dim is None else ("rotary_dim", rotary_dim)
    check_integer(2, **{name: width})
    if width % 2:
        raise ValueError(f"{name} must be even, got {width}")
    if width > dim:
        raise ValueError(f"rotary_dim must be at most dim, {dim}, got {width}")
    return int(width)


def convert_layout(weight: Tensor, n_heads: int, *, to: str, rotary_dim: int | None = None) -> Tensor:
    """The weight or bias that makes queries, or keys, whose rotary pairs stand in the other layout.

    Apply it to what makes the queries and to what makes the keys: the scores stay what they were.

    Args:
        weight: of the projection, heads one after the other; grouped keys have fewer of them.
        n_heads: number of heads in this weight.
        to: layout that the network shall run with, ``"half"`` or ``"interleaved"``; the weight is taken to
            have the other.
        rotary_dim: how many features of a head turn; ``None`` is all.

    Shape:
        - weight: ``(n_heads · dim, in_features)``, or ``(n_heads · dim,)`` for a bias
        - output: the same, rows in another order

    Raises: TypeError for what is no tensor. ValueError for an unknown layout, a width that is odd or above
        ``dim``, and rows that are not the same number for every head.

    >>> convert_layout(torch.arange(6), 1, to="interleaved", rotary_dim=4).tolist()
    [0, 2, 1, 3, 4, 5]
    """
    check_tensor(weight, "weight")
    check_choice(LAYOUTS, to=to)
    check_integer(n_heads=n_heads)
    n_heads = int(n_heads)
    if weight.ndim == 0 or weight.shape[0] % n_heads:
        raise ValueError(f"weight must have rows for {n_heads} heads, got shape {tuple(weight.shape)}")
    dim = weight.shape[0] // n_heads
    width = rotary_width(dim, rotary_dim)
    order = torch.arange(dim, device=weight.device)
    pairs = order[:width].view((2, -1) if to == "interleaved" else (-1, 2))
    order = torch.cat((pairs.T.flatten(), order[width:]))
    return weight.unflatten(0, (n_heads, dim))[:, order].flatten(0, 1)
