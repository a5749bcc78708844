"""Random Fourier features: error of the kernel against scikit-learn's, and the bias of every draw.

python examples/benchmarks/random_features.py [--quick]    (a tenth of the draws, a quarter of the seeds)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from measure import report
from rich.progress import track
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from tabembed.functional.covariance import KERNELS, covariance
from tabembed.nn import RandomFourierFeatures, spectral

WIDTH, N_SEEDS, N_ROWS = 1024, 24, 150
TABLES = {"diabetes": load_diabetes, "wine": load_wine, "breast_cancer": load_breast_cancer}
STRETCHES = {0.5: 0.70, 1.0: 0.25, 2.0: 0.04}  # lengthscale in median distances: what is promised
TOGETHER = 0.15  # the geometric mean of the three tables at the median distance

N_DRAWS, N_FREQUENCIES, PART = 20_000, 16, 500
SIZES = (1, 3, 4, 10)
DISTANCES = (0.5, 1.0, 2.0)  # at least one per kernel is far from 0 and from 1
Z = 4.0


def errors(rows: Tensor, lengthscale: float, n_seeds: int) -> tuple[float, float]:
    """Mean square errors of kernel entries, ours and scikit-learn's, over the seeds."""
    exact = covariance("rbf", rows, rows, lengthscale)
    ours, theirs = [], []
    for seed in range(n_seeds):
        module = RandomFourierFeatures(rows.shape[1], WIDTH, lengthscale=lengthscale, seed=seed).double()
        ours.append((module.kernel(rows, rows) - exact).square().mean().item())
        sampler = RBFSampler(gamma=0.5 / lengthscale**2, n_components=WIDTH, random_state=seed)
        features = torch.from_numpy(sampler.fit_transform(rows.numpy()))
        theirs.append((features @ features.mT - exact).square().mean().item())
    return float(np.mean(ours)), float(np.mean(theirs))


def error_rows(n_seeds: int) -> Iterator[dict[str, Any]]:
    """One row for every table and lengthscale, and one for the tables together."""
    for stretch, promised in STRETCHES.items():
        found = []
        for name, load in TABLES.items():
            rows = torch.from_numpy(StandardScaler().fit_transform(load().data)[:N_ROWS])
            ours, theirs = errors(rows, stretch * torch.pdist(rows).median().item(), n_seeds)
            found.append((ours, theirs))
            yield error_row(f"{name}, {rows.shape[1]} features", stretch, ours, theirs, promised)
        if stretch == 1:
            yield error_row("geometric mean", stretch, *np.exp(np.log(found).mean(0)).tolist(), TOGETHER)


def error_row(what: str, stretch: float, ours: float, theirs: float, promised: float) -> dict[str, Any]:
    return {
        "what": what,
        "lengthscale / median distance": stretch,
        "MSE, tabembed": ours,
        "MSE, RBFSampler": theirs,
        "ratio": ours / theirs,
        "promised": f"<= {promised:g}",
        "reached": ours / theirs <= promised,
    }


def draws(
    kernel: str, sampler: str, size: int, sobol_points: Tensor | None, n_draws: int
) -> Iterator[Tensor]:
    """Frequencies ``(PART, N_FREQUENCIES, size)`` of modules, as ``draw_frequencies`` makes them."""
    generator = torch.Generator().manual_seed(1000 * size + KERNELS.index(kernel))
    for start in range(0, n_draws, PART):
        if sampler == "orthogonal":
            uniform = spectral.stratified(PART, N_FREQUENCIES, 2, generator)
            yield spectral.orthogonal_frequencies(kernel, size, uniform, generator)
        elif sobol_points is not None:
            # Fewer coordinates of a scrambled Sobol point are a scrambled Sobol point.
            yield spectral.frequencies_at(kernel, sobol_points[start : start + PART, :, : size + 1])
        else:
            yield spectral.frequencies_at(
                kernel, spectral.independent(PART, N_FREQUENCIES, size + 1, generator)
            )


def bias_row(
    kernel: str, sampler: str, size: int, sobol_points: Tensor | None, n_draws: int
) -> dict[str, Any]:
    """The largest mean error of a kernel entry over all draws, in standard errors."""
    directions = torch.stack([torch.ones(size), torch.arange(1, size + 1)]).double()
    steps = torch.cat([directions / directions.norm(dim=1, keepdim=True) * r for r in DISTANCES])
    exact = covariance(kernel, steps, torch.zeros(1, size).double())[:, 0]
    parts = draws(kernel, sampler, size, sobol_points, n_draws)
    found = torch.cat([(part @ steps.mT).cos().mean(1) - exact for part in parts])
    z = (found.mean(0) / found.std(0) * n_draws**0.5).abs().max().item()
    return {
        "kernel": kernel,
        "sampler": sampler,
        "features": size,
        "largest mean error": found.mean(0).abs().max().item(),
        "in standard errors": z,
        "promised": f"< {Z:g}",
        "reached": z < Z,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    n_draws, n_seeds = (N_DRAWS // 10, N_SEEDS // 4) if quick else (N_DRAWS, N_SEEDS)
    what = "{what}, lengthscale {lengthscale / median distance:g} medians"
    found = list(error_rows(n_seeds))
    report("random_features_error", found, what=what, value="ratio", unit="×", against="RBFSampler")
    points = [
        spectral.sobol(PART, N_FREQUENCIES, max(SIZES) + 1, torch.Generator().manual_seed(part))
        for part in track(range(n_draws // PART), "Sobol points", transient=True)
    ]
    sources = {"iid": None, "orthogonal": None, "sobol": torch.cat(points)}
    chosen = [
        (kernel, sampler, size)
        for kernel in KERNELS
        for sampler in sources
        for size in SIZES
        if (kernel, sampler) != ("laplacian", "orthogonal")
    ]
    rows = [bias_row(*one, sources[one[1]], n_draws) for one in track(chosen, "bias", transient=True)]
    what = "bias: {kernel}, {sampler}, {features} features"
    report("random_features_bias", rows, what=what, value="in standard errors", unit="standard errors")


if __name__ == "__main__":
    main()
