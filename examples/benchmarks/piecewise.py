"""Piecewise-linear embedding by look-up against rtdl_num_embeddings' dense product, one thread.

python examples/benchmarks/piecewise.py
"""

from __future__ import annotations

from collections.abc import Callable

import rtdl_num_embeddings
import torch
from measure import against, alternate, below, report
from torch import Tensor, nn

from tabembed import PiecewiseLinearEmbedding

N_ROWS, N_FEATURES, D_EMBEDDING = 4096, 10, 16


def pair(n_bins: int, version: str) -> tuple[nn.Module, nn.Module]:
    edges = rtdl_num_embeddings.compute_bins(torch.randn(20_000, N_FEATURES), n_bins)
    theirs = rtdl_num_embeddings.PiecewiseLinearEmbeddings(
        edges, D_EMBEDDING, version=version, activation=False
    )
    return PiecewiseLinearEmbedding(edges, D_EMBEDDING, version=version), theirs


def inference(module: nn.Module, x: Tensor) -> Callable[[], None]:
    @torch.no_grad()
    def run() -> None:
        module(x)

    return run


def training(module: nn.Module, x: Tensor) -> Callable[[], None]:
    gradient = torch.randn(N_ROWS, N_FEATURES, D_EMBEDDING)

    def run() -> None:
        module.zero_grad()
        module(x).backward(gradient)

    return run


def main() -> None:
    torch.set_num_threads(1)
    x = torch.randn(N_ROWS, N_FEATURES)
    rows, by_bins = [], {}
    for version in ("A", "B"):
        ours, theirs = pair(128, version)
        for what, run, reach in (("inference", inference, 3), ("training", training, 1.3)):
            seconds = alternate({"ours": run(ours, x), "theirs": run(theirs, x)}, repeats=31)
            title = f"{what}, 128 bins, version {version}"
            rows.append(against(title, seconds["ours"], seconds["theirs"], reach))
    for n_bins in (16, 1024):
        by_bins[str(n_bins)] = inference(pair(n_bins, "B")[0], x)
    seconds = alternate(by_bins, repeats=31)
    report("piecewise", rows, against="rtdl_num_embeddings")
    growth = seconds["1024"] / seconds["16"]
    report("piecewise_growth", [below("inference, 1024 bins instead of 16", growth, 2, "times the time")])


if __name__ == "__main__":
    main()
