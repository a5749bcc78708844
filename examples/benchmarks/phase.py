"""Phases of large times and of half precision, and how much a calibrated embedding moves.

python examples/benchmarks/phase.py
"""

from __future__ import annotations

import math
from typing import Any

import torch
from diffusers.models.embeddings import get_timestep_embedding
from measure import report
from torch import Tensor

from tabembed.functional.sinusoid import ladder
from tabembed.nn import GaussianFourierProjection, TimestepFeatures, calibrate, coverage

WIDTH = 256
FAR = 2 * 10**9
RANGES = {
    "t in [0, 1]": (0.0, 1.0),
    "steps 0 to 999": (0, 999),
    "ln(σ) / 4": (math.log(0.002) / 4, math.log(80) / 4),
    "a month of Unix seconds": (1_700_000_000, 1_702_592_000),
}


def truth(t: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine in float64, of products that are exact up to a part in 2³⁷."""
    high = (t.double() / 65536).floor() * 65536
    low, frequencies = t.double() - high, ladder(WIDTH // 2, dtype=torch.float64)
    # 15 bits of t and the 24 bits of a float32 multiply without rounding; what is left over is small.
    coarse = frequencies.float().double()
    parts = [high[:, None] * coarse, high[:, None] * (frequencies - coarse), low[:, None] * frequencies]
    angle = sum(part.remainder(2 * math.pi) for part in parts)
    return angle.cos(), angle.sin()


def phase_error(features: Tensor, t: Tensor) -> float:
    """Largest difference of phase in radians."""
    (cosine, sine), (c, s) = truth(t), features.double().chunk(2, -1)
    return torch.atan2(s * cosine - c * sine, c * cosine + s * sine).abs().max().item()


def at_most(what: str, ours: float, peer: float | str, promised: float) -> dict[str, Any]:
    return {
        "what": what,
        "tabembed": ours,
        "diffusers": peer,
        "promised": f"<= {promised:g}",
        "reached": ours <= promised,
    }


def phases() -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    whole = torch.randint(-FAR, FAR, (4096,), generator=generator)
    real = whole + torch.rand(4096, generator=generator, dtype=torch.float64)
    steps = torch.arange(1000)
    exact, plain = TimestepFeatures(WIDTH, precision="exact"), TimestepFeatures(WIDTH)
    rows = []
    for name, t in (("int64", whole), ("float64", real)):
        theirs = phase_error(get_timestep_embedding(t, WIDTH, True, 0), t)
        rows.append(
            at_most(f"phase error, exact, |t| <= 2e9, {name}", phase_error(exact(t), t), theirs, 1e-6)
        )
    theirs = phase_error(get_timestep_embedding(steps, WIDTH, True, 0), steps)
    rows.append(at_most("phase error, fp32, t <= 999", phase_error(plain(steps), steps), theirs, 1e-4))

    def lost(features: Tensor) -> float:
        return (features.double() - torch.cat(truth(steps), -1)).abs().max().item()

    rounded = lost(get_timestep_embedding(steps.bfloat16(), WIDTH, True, 0).bfloat16())
    ours = TimestepFeatures(WIDTH).bfloat16()(steps)
    rows.append(at_most("error of a bfloat16 module (diffusers: of a bfloat16 t)", lost(ours), rounded, 4e-3))
    for kind, module in (
        ("sinusoid", TimestepFeatures(WIDTH)),
        ("exact sinusoid", TimestepFeatures(WIDTH, precision="exact")),
        ("Gaussian projection", GaussianFourierProjection(WIDTH, seed=0)),
    ):
        with torch.autocast("cpu", torch.bfloat16):
            inside = module(steps / 999)
        rows.append(
            at_most(f"autocast changes, {kind}", (inside - module(steps / 999)).abs().max().item(), "-", 0)
        )
    return rows


def activity() -> list[dict[str, Any]]:
    """Active dims, components that hold 99 % of the variance, and how alike neighbours are."""
    rows = []
    for name, t_range in RANGES.items():
        kinds = {
            "sinusoid": TimestepFeatures(WIDTH, precision="exact"),
            "Gaussian": GaussianFourierProjection(WIDTH, scale=1.0, seed=0),
        }
        for kind, features in kinds.items():
            before, after = coverage(features, t_range), coverage(calibrate(features, t_range), t_range)
            rows.append(
                {
                    "what": f"{kind}, {name}",
                    "active before": before.active_share,
                    "active": after.active_share,
                    "99 % before": before.n_components,
                    "99 %": after.n_components,
                    "neighbours": after.neighbour_similarity,
                    "promised": ">= 0.9",
                    "reached": after.active_share >= 0.9,
                }
            )
    return rows


def main() -> None:
    report("phase", phases(), value="tabembed", unit="largest difference")
    report("timestep_activity", activity(), value="active", unit="of dims")


if __name__ == "__main__":
    main()
