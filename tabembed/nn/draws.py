"""First weights: from torch's global generator like any layer, or from a private seed.

A weight without memory is not drawn at all, so that a shape alone, however large, costs none.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabembed._checks import check_seed


def generator_of(seed: int | None) -> torch.Generator | None:
    """A private CPU generator, or ``None``, which means torch's global one."""
    return None if seed is None else torch.Generator("cpu").manual_seed(int(seed))  # numpy's, too


def normal_(weight: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Fill in place with N(0, std²)."""
    if generator is None or weight.is_meta:
        torch.nn.init.normal_(weight, std=std)
    else:  # drawn on the CPU in float32, so that a seed means the same on every device
        with torch.no_grad():
            weight.copy_(
                torch.randn(weight.shape, generator=generator, dtype=torch.float32, device="cpu") * std
            )


def truncated_normal_(weight: Tensor, std: float, limit: float, generator: torch.Generator | None) -> None:
    """Fill in place with N(0, std²), nothing beyond ``limit`` standard deviations."""
    if generator is None or weight.is_meta:
        torch.nn.init.trunc_normal_(weight, std=std, a=-limit * std, b=limit * std)
    else:
        unit = torch.empty(weight.shape, dtype=torch.float32, device="cpu")
        torch.nn.init.trunc_normal_(unit, a=-limit, b=limit, generator=generator)
        with torch.no_grad():
            weight.copy_(unit * std)


def uniform_(weight: Tensor, bound: float, generator: torch.Generator | None) -> None:
    """Fill in place with U(-bound, bound)."""
    if generator is None or weight.is_meta:
        torch.nn.init.uniform_(weight, -bound, bound)
    else:
        with torch.no_grad():
            unit = torch.rand(weight.shape, generator=generator, dtype=torch.float32, device="cpu")
            weight.copy_((2 * unit - 1) * bound)


def orthogonal_(weight: Tensor, generator: torch.Generator | None) -> None:
    """Fill in place with an orthogonal matrix, of rows or of columns, whichever are fewer."""
    if generator is None or weight.is_meta:
        torch.nn.init.orthogonal_(weight)
    else:
        unit = torch.empty(weight.shape, dtype=torch.float32, device="cpu")
        torch.nn.init.orthogonal_(unit, generator=generator)
        with torch.no_grad():
            weight.copy_(unit)


def undrawn_linear(in_features: int, out_features: int) -> nn.Linear:
    """A linear layer whose weights are not drawn yet, on the default device; touches no generator."""
    layer = nn.Linear(in_features, out_features, device="meta")
    return layer.to_empty(device=torch.empty(0).device)


def split_seed(seed: int | None, n_parts: int) -> list[int] | list[None]:
    """Seeds of the parts of a module, independent of each other; all ``None`` from ``None``.

    Raises: as ``check_seed``.
    """
    check_seed(seed)
    if seed is None:
        return [None] * n_parts
    return torch.randint(2**62, (n_parts,), generator=generator_of(seed), device="cpu").tolist()
