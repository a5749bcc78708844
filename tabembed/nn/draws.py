"""First weights: from torch's global generator like any layer, or from a private seed."""

from __future__ import annotations

import torch
from torch import Tensor


def generator_of(seed: int | None) -> torch.Generator | None:
    """A private CPU generator, or ``None``, which means torch's global one."""
    return None if seed is None else torch.Generator("cpu").manual_seed(seed)


def normal_(weight: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Fill in place with N(0, std²)."""
    if generator is None:
        torch.nn.init.normal_(weight, std=std)
    else:  # drawn on the CPU in float32, so that a seed means the same on every device
        with torch.no_grad():
            weight.copy_(
                torch.randn(weight.shape, generator=generator, dtype=torch.float32, device="cpu") * std
            )


def uniform_(weight: Tensor, bound: float, generator: torch.Generator | None) -> None:
    """Fill in place with U(-bound, bound)."""
    if generator is None:
        torch.nn.init.uniform_(weight, -bound, bound)
    else:
        with torch.no_grad():
            unit = torch.rand(weight.shape, generator=generator, dtype=torch.float32, device="cpu")
            weight.copy_((2 * unit - 1) * bound)


def split_seed(seed: int | None, n_parts: int) -> list[int] | list[None]:
    """Seeds of the parts of a module, independent of each other; all ``None`` from ``None``."""
    if seed is None:
        return [None] * n_parts
    return torch.randint(2**62, (n_parts,), generator=generator_of(seed), device="cpu").tolist()
