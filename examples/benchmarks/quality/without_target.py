"""Few labels and many rows: vectors that were learned without a target, against one-hot and truncated SVD.

python examples/benchmarks/quality/without_target.py                     (needs `make data`; 15 minutes)
python examples/benchmarks/quality/without_target.py --tables adult,ames
python examples/benchmarks/quality/without_target.py --dev               (rows that settings are chosen on)

Both encodings see all training rows and no target. Then 1 % and 10 % of the training rows, at least 20, get
their labels, and a linear model and nearest neighbours learn from these. SVD cuts one-hot to as many columns
as ours has, 64; where one-hot has fewer, all of it is taken, with nothing cut. ``first`` is ours cut to the
width of one-hot there: principal components stand in falling order. One record a table, in
build/quality/without_target; those that are there are not made again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from models import MODELS, dense, score
from peers import PEERS
from rich.console import Console
from rich.table import Table as Grid
from sklearn.decomposition import TruncatedSVD
from tables import TABLES, Table, dev_split, split

from tabembed import TableEmbedder

FOLDER = Path("build/quality/without_target")
SHARES, DRAWS, LEAST = (0.01, 0.1), 20, 20
LEAST_OF_A_CLASS = 5
"""Rows of each class among the labelled ones: folds of a model need them."""


def one_hot_svd(train: pd.DataFrame, test: pd.DataFrame, width: int) -> tuple[np.ndarray, np.ndarray]:
    """One-hot and standardised numbers, cut to a width; of them all where they are not more than that."""
    ours, theirs = PEERS["onehot"](train, None, test, "binary", 0)[""]
    if ours.shape[1] <= width:
        return dense(ours, float), dense(theirs, float)
    svd = TruncatedSVD(width, random_state=0).fit(ours)
    return svd.transform(ours), svd.transform(theirs)


def labelled(y: np.ndarray, share: float, task: str) -> Iterator[np.ndarray]:
    """Draws of the rows that get their labels; one with too few of a class is drawn again."""
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        while True:
            rows = rng.permutation(len(y))[: max(LEAST, round(share * len(y)))]
            counts = np.unique(y[rows], return_counts=True)[1]
            if task == "continuous" or (len(counts) == 2 and counts.min() >= LEAST_OF_A_CLASS):
                break
        yield rows


def measure(table: Table, dev: bool) -> dict[str, Any]:
    """Scores of both encodings: by share of labels and model, one for every draw."""
    train, test = (dev_split if dev else split)(table, 0, alone=True)
    y = table.y if table.task == "continuous" else (table.y == np.unique(table.y)[0]).astype(int)
    start = time.perf_counter()
    embedder = TableEmbedder(output="row", random_state=0)
    vectors = embedder.fit_transform(table.X.iloc[train]), embedder.transform(table.X.iloc[test])
    seconds = time.perf_counter() - start
    peer = one_hot_svd(table.X.iloc[train], table.X.iloc[test], vectors[0].shape[1])
    width = peer[0].shape[1]
    encodings = {"tabembed": vectors, "one-hot + SVD": peer}
    if width < vectors[0].shape[1]:
        encodings["first"] = (vectors[0][:, :width], vectors[1][:, :width])
    scores: dict[str, Any] = {}
    for share in SHARES:
        draws = list(labelled(y[train], share, table.task))
        for model in ("linear", "neighbours"):
            scores[f"{share:.0%} {model}"] = {
                name: [
                    score(table.task, y[test], MODELS[model](table.task, a[rows], y[train][rows], b, i))
                    for i, rows in enumerate(draws)
                ]
                for name, (a, b) in encodings.items()
            }
    return {"table": table.name, "task": table.task, "width": width, "fit_s": seconds, "scores": scores}


def report(records: list[dict[str, Any]]) -> None:
    names = [f"{name}, ours (first) : theirs" for name in records[0]["scores"]]
    grid = Grid("table", "width of theirs", "fit, s", *names, title="tabembed against one-hot + SVD")
    won = 0
    for record in records:
        better = []
        cells = []
        for found in record["scores"].values():
            ours, theirs = (np.array(found[name]) for name in ("tabembed", "one-hot + SVD"))
            better.append(
                ours.mean() > theirs.mean() if record["task"] == "binary" else ours.mean() < theirs.mean()
            )
            first = f" ({np.mean(found['first']):.4f})" if "first" in found else ""
            cells.append(f"{ours.mean():.4f}{first} : {theirs.mean():.4f} {'+' if better[-1] else '-'}")
        won += all(better)
        metric = "AUC" if record["task"] == "binary" else "RMSE"
        grid.add_row(f"{record['table']} ({metric})", str(record["width"]), f"{record['fit_s']:.0f}", *cells)
    Console(width=180).print(grid)
    print(f"better in all four columns on {won} of {len(records)} tables; mean of {DRAWS} draws of labels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--dev", action="store_true")
    asked = parser.parse_args()
    folder = FOLDER / "dev" if asked.dev else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name in asked.tables.split(","):
        file = folder / f"{name}.json"
        if not file.exists():
            record = measure(TABLES[name](), asked.dev)
            file.write_text(json.dumps(record, indent=1) + "\n")
            report([record])
    report([json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))])


if __name__ == "__main__":
    main()
