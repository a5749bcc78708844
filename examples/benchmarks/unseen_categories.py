"""A category that the training never had: the unknown vector against zeros and a random known one.

python examples/benchmarks/unseen_categories.py            (needs `make data`; five minutes on one core)
python examples/benchmarks/unseen_categories.py --quick    (one table, one seed)

A fifth of a column's categories is held out: none of their rows is trained on. A network is fitted on the
other rows, and its own error is measured on held-out rows, whose category it reads as unknown; then the
unknown vector is replaced. No row that the benchmark of encodings tests on is here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from measure import report
from results import record
from sklearn.metrics import log_loss

from tabembed import TableEmbedder
from tabembed.schema import FIRST_KNOWN, UNKNOWN

sys.path.insert(0, str(Path(__file__).parent / "quality"))
from tables import TABLES, Table, dev_split  # noqa: E402

COLUMNS = {"loans": "emp_title", "adult": "occupation", "pets": "animal_name", "flights": "tailnum"}
MOST_ROWS, HELD_OUT, RANDOM = 4_000, 0.2, 10
SEEDS = 3


def parted(table: Table, column: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, and rows of the held-out categories; all from the pool."""
    rows, rng = np.concatenate(dev_split(table, seed)), np.random.default_rng(seed)
    categories = np.sort(table.X[column].dropna().unique())
    held = rng.permutation(categories)[: round(HELD_OUT * len(categories))]
    unseen = table.X[column].iloc[rows].isin(held).to_numpy()
    return rng.permutation(rows[~unseen])[:MOST_ROWS], rows[unseen][:MOST_ROWS]


def scores(table: Table, column: str, seed: int, shrinkage: float) -> dict[str, float]:
    """The network's own error with each vector for the unknown category: log loss, or mean squared error.

    Not AUC: one vector for all of these rows moves their predictions together, and hardly their order.
    """
    train, unseen = parted(table, column, seed)
    embedder = TableEmbedder(shrinkage=shrinkage, random_state=seed).fit(table.X.iloc[train], table.y[train])
    network, batch = embedder.network_, embedder.encoder_.transform(table.X.iloc[unseen])
    weight, rng = network.embedding.weight(column), np.random.default_rng(seed)
    y = table.y[unseen]

    def score(vector: torch.Tensor) -> float:
        weight[UNKNOWN] = vector
        with torch.no_grad():
            output = network(**batch.tensors())[:, 0].double().numpy()
        if table.task == "binary":
            return float(log_loss(y == embedder.classes_[1], 1 / (1 + np.exp(-output))))
        mean, spread = table.y[train].mean(), table.y[train].std()
        return float(((output - (y - mean) / spread) ** 2).mean())

    own, known = weight[UNKNOWN].clone(), weight[FIRST_KNOWN:].clone()
    drawn = rng.integers(len(known), size=RANDOM)
    found = {"unknown": score(own), "zeros": score(torch.zeros_like(own))}
    return found | {"random": float(np.mean([score(known[i]) for i in drawn]))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="unseen_categories", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rows = []
    print(f"{'table':8} {'column':12} {'shrinkage':>9}  unknown   zeros  random   unknown is best")
    for name, column in list(COLUMNS.items())[: 1 if quick else None]:
        table = TABLES[name]()
        for shrinkage in (10.0, 0.0):
            found = [scores(table, column, seed, shrinkage) for seed in range(1 if quick else SEEDS)]
            means = [np.mean([one[key] for one in found]) for key in ("unknown", "zeros", "random")]
            best = sum(one["unknown"] <= min(one.values()) for one in found)
            numbers = "  ".join(f"{mean:6.4f}" for mean in means)
            print(f"{name:8} {column:12} {shrinkage:9g}  {numbers}   {best} of {len(found)}", flush=True)
            what = f"unknown {column} of {name}, shrinkage {shrinkage:g}: loss"
            rows.append(
                record(
                    what,
                    value=means[0] / min(means[1:]),
                    unit="×",
                    against="the better of zeros and a random one",
                )
            )
    report("unseen_categories" + ("_quick" if quick else ""), rows)


if __name__ == "__main__":
    main()
