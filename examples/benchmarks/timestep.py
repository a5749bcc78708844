"""Timestep features: equal to the peers', and no slower than diffusers' function.

python examples/benchmarks/timestep.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from diffusers.models.embeddings import GaussianFourierProjection as DiffusersProjection
from diffusers.models.embeddings import get_timestep_embedding
from measure import against, alternate, report
from torch import Tensor

from tabembed.nn import GaussianFourierProjection, TimestepFeatures

WIDTH = 256
STEPS = torch.arange(1000)
LEVELS = torch.linspace(math.log(0.002) / 4, math.log(80) / 4, 1000)  # ln(σ) / 4
SIZES = {1: 100, 64: 50, 4096: 1}  # batch: calls between two looks at the clock

Formula = Callable[[Tensor], Tensor]


def half_by_half(angles: Tensor, order: str) -> Tensor:
    parts = {"cos": angles.cos(), "sin": angles.sin()}
    return torch.cat([parts[name] for name in order.split("_")], -1)


def dit(t: Tensor) -> Tensor:
    frequencies = torch.exp(-math.log(10_000) * torch.arange(WIDTH // 2, dtype=torch.float32) / (WIDTH // 2))
    return half_by_half(t[:, None].float() * frequencies, "cos_sin")


def score_sde(t: Tensor) -> Tensor:
    step = math.log(10_000) / (WIDTH // 2 - 1)
    return half_by_half(t.float()[:, None] * torch.exp(-step * torch.arange(WIDTH // 2)), "sin_cos")


def edm(t: Tensor) -> Tensor:
    place = torch.arange(WIDTH // 2, dtype=torch.float32) / (WIDTH // 2 - 1)
    return half_by_half(t.float().outer((1 / 10_000) ** place), "sin_cos")


def equality(what: str, ours: Formula, theirs: Formula, t: Tensor, promised: float) -> dict[str, Any]:
    """One row: the largest difference, 0 promised where the numbers are the same bit by bit."""
    error = (ours(t) - theirs(t)).abs().max().item()
    equal = torch.equal(ours(t), theirs(t))
    return {
        "what": what,
        "largest difference": error,
        "promised": f"<= {promised:g}" if promised else "bit-equal",
        "reached": error <= promised if promised else equal,
    }


def equalities() -> list[dict[str, Any]]:
    sinusoid = {
        name: TimestepFeatures.from_preset(name, WIDTH) for name in ("diffusers", "ddpm", "dit", "tabddpm")
    }
    sinusoid |= {name: TimestepFeatures.from_preset(name, WIDTH) for name in ("score_sde", "edm")}
    gaussian = {
        name: GaussianFourierProjection.from_preset(name, WIDTH, seed=0)
        for name in ("score_sde", "diffusers", "k_diffusion")
    }
    peer = DiffusersProjection(WIDTH // 2)
    peer.weight.data.copy_(gaussian["diffusers"].frequencies)

    def of_score_sde(x: Tensor) -> Tensor:
        return half_by_half(x[:, None] * gaussian["score_sde"].frequencies[None] * 2 * math.pi, "sin_cos")

    def of_k_diffusion(x: Tensor) -> Tensor:
        return half_by_half(2 * math.pi * x[:, None] @ gaussian["k_diffusion"].frequencies[None], "cos_sin")

    return [
        equality(
            "diffusers' Timesteps",
            sinusoid["diffusers"],
            lambda t: get_timestep_embedding(t, WIDTH, True, 0),
            STEPS,
            0,
        ),
        equality(
            "diffusers' default, DDPM", sinusoid["ddpm"], lambda t: get_timestep_embedding(t, WIDTH), STEPS, 0
        ),
        equality("formula of DiT, ADM", sinusoid["dit"], dit, STEPS, 0),
        equality("formula of TabDDPM", sinusoid["tabddpm"], dit, STEPS, 0),
        equality("projection of score_sde", gaussian["score_sde"], of_score_sde, LEVELS, 0),
        equality("projection of diffusers", gaussian["diffusers"], peer, LEVELS.exp(), 0),
        equality("sinusoid of score_sde", sinusoid["score_sde"], score_sde, STEPS, 1e-4),
        equality("sinusoid of EDM's SongUNet", sinusoid["edm"], edm, STEPS, 1e-4),
        equality("projection of k-diffusion", gaussian["k_diffusion"], of_k_diffusion, LEVELS, 1e-4),
    ]


def speeds() -> list[dict[str, Any]]:
    features, rows = TimestepFeatures(WIDTH), []
    for size, calls in SIZES.items():
        t = torch.randint(1000, (size,), generator=torch.Generator().manual_seed(0))

        def ours(t: Tensor = t, calls: int = calls) -> None:
            for _ in range(calls):
                features(t)

        def theirs(t: Tensor = t, calls: int = calls) -> None:
            for _ in range(calls):
                get_timestep_embedding(t, WIDTH, True, 0)

        with torch.no_grad():
            seconds = alternate({"ours": ours, "theirs": theirs}, repeats=200)
        rows.append(
            against(f"B={size}, width {WIDTH}", seconds["ours"] / calls, seconds["theirs"] / calls, 1.0)
        )
    return rows


def main() -> None:
    report("timestep_equality", equalities(), value="largest difference", unit="largest difference")
    report("timestep_speed", speeds(), against="diffusers")


if __name__ == "__main__":
    main()
