"""Rotary position encoding on the CPU: against torchembed, the formula of `transformers`, and that compiled.

python examples/benchmarks/rotary.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from measure import against, alternate, report
from torch import Tensor
from torchembed.positional import RotaryEmbedding as Peer

from tabembed.nn import RotaryEmbedding

SHAPE = (8, 8, 1024, 64)
EVENTS = (256, 4, 32, 16)  # many short histories: rows of a table by entity
REPEATS = 21

Rotation = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def formula(length: int, dim: int) -> Rotation:
    """What models of `transformers` do with tables that are there."""
    frequencies = 10_000.0 ** (-torch.arange(0, dim, 2) / dim)
    angle = torch.arange(length)[:, None] * torch.cat((frequencies, frequencies))
    cosine, sine = angle.cos(), angle.sin()

    def rotate_half(x: Tensor) -> Tensor:
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return torch.cat((-second, first), -1)

    def rotate(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q * cosine + rotate_half(q) * sine, k * cosine + rotate_half(k) * sine

    return rotate


def forward(rotate: Rotation, q: Tensor, k: Tensor) -> None:
    with torch.no_grad():
        rotate(q, k)


def training(rotate: Rotation, q: Tensor, k: Tensor, directions: list[Tensor]) -> None:
    torch.autograd.grad(rotate(q, k), (q, k), directions)


def rows(shape: tuple[int, ...], n_threads: int, repeats: int) -> list[dict[str, Any]]:
    torch.set_num_threads(n_threads)
    q, k, *directions = torch.randn(4, *shape).unbind()
    q, k = q.clone().requires_grad_(), k.clone().requires_grad_()
    plain = formula(shape[-2], shape[-1])
    ways: dict[str, Rotation] = {
        "half": RotaryEmbedding(shape[-1]),
        "interleaved": RotaryEmbedding(shape[-1], layout="interleaved"),
        "torchembed": Peer(shape[-1]),
        "transformers": plain,
        "compiled": torch.compile(plain, dynamic=False),
    }
    found = []
    for step, run in (("forward", forward), ("with gradients", partial(training, directions=directions))):
        seconds = alternate({name: partial(run, way, q, k) for name, way in ways.items()}, repeats)
        for ours, peer in product(("half", "interleaved"), ("torchembed", "transformers", "compiled")):
            reach = 1 / 1.3 if peer == "compiled" else 3.0 if run is forward else 1.5
            reach = 0.0 if shape == EVENTS else reach  # nothing is promised of small ones
            row = against(f"{step}, {ours}", seconds[ours], seconds[peer], reach)
            found.append({"shape": "x".join(map(str, shape)), "peer": peer, **row})
    return found


def main() -> None:
    for n_threads in (1, 2):
        found = rows(SHAPE, n_threads, REPEATS) + rows(EVENTS, n_threads, 4 * REPEATS)
        report(f"rotary_{n_threads}_threads", found, what="{what}, {shape}", against="{peer}")


if __name__ == "__main__":
    main()
