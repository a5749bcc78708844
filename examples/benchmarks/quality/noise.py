"""Does an encoding find something where nothing is? Columns of noise, and a target that was shuffled.

python examples/benchmarks/quality/noise.py [--encoders tabembed,entity] [--seeds 3]     (needs `make data`)

Columns of noise must change nothing. With a shuffled target every score must be chance: on the test rows, and
between two halves of the training rows, where vectors that know their own row's target give themselves away.
Records lie in build/quality/noise, as those of the benchmark do.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from encoders import ENCODERS, OURS
from models import MODELS, Matrix, score
from records import FOLDER, Record, code, is_done, read, write
from rich.console import Console
from rich.table import Table as Printed
from run import coded
from tables import TABLES, Table, split

TRIED = ("adult", "diamonds")
ROWS = 4_000
COLUMNS, VALUES = 5, 200
"""Columns of noise of either kind, and how many values those of text have."""
MOST_MOVED = 0.01
"""How much of the area, or of the explained variance, columns of noise may cost."""
ERRORS, EXPLAINED = 3.5, 0.01
"""What still is chance: standard errors of an area around a half, and a share of the variance."""


def plain(table: Table) -> Table:
    return table


def noise(table: Table) -> Table:
    """The table with five columns of random words and five of random numbers."""
    rng = np.random.default_rng(0)
    n_rows = len(table.y)
    words = {f"word_{i}": rng.integers(VALUES, size=n_rows).astype(str) for i in range(COLUMNS)}
    numbers = {f"number_{i}": rng.standard_normal(n_rows) for i in range(COLUMNS)}
    return replace(table, X=table.X.assign(**words, **numbers))


def shuffled(table: Table) -> Table:
    """The table with a target that has nothing to do with it."""
    return replace(table, y=np.random.default_rng(0).permutation(table.y))


KINDS = {"plain": plain, "noise": noise, "shuffled": shuffled}


def value(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    """Area under the curve, or the share of the variance that is explained."""
    found = score(task, y, predicted)
    return found if task == "binary" else float(1 - found**2 / y.var())


def chance(y: np.ndarray) -> float:
    """The standard error of the area under the curve when nothing is known, for 0 and 1 in ``y``."""
    ones = y.sum()
    return float(np.sqrt((len(y) + 1) / (12 * ones * (len(y) - ones))))


def measure(table: Table, kind: str, encoder: str, seed: int) -> Record:
    """Scores on the test rows, and of one half of the training rows' vectors on the other half."""
    changed = KINDS[kind](table)
    train, test = split(changed, seed)
    train, test = train[:ROWS], test[:ROWS]
    y, half = coded(changed), len(train) // 2
    views = ENCODERS[encoder](changed.X.iloc[train], y[train], changed.X.iloc[test], table.task, seed)

    def scored(ours: Matrix, ours_y: np.ndarray, theirs: Matrix, theirs_y: np.ndarray) -> dict[str, float]:
        return {
            name: value(table.task, theirs_y, model(table.task, ours, ours_y, theirs, seed))
            for name, model in MODELS.items()
        }

    return {
        "table": f"{table.name}_{kind}",
        "encoder": encoder,
        "seed": seed,
        "code": code(encoder),
        "task": table.task,
        "kind": kind,
        "error": chance(y[train[half:]]) if table.task == "binary" else None,
        "test": {view: scored(ours, y[train], theirs, y[test]) for view, (ours, theirs) in views.items()},
        "halves": {
            view: scored(ours[:half], y[train[:half]], ours[half:], y[train[half:]])
            for view, (ours, _) in views.items()
        },
    }


def findings(records: list[Record]) -> Iterator[dict[str, Any]]:
    """A line for every table, encoder, view and model, with the mean over seeds."""
    by_name: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_name.setdefault((record["table"], record["encoder"]), []).append(record)
    for (name, encoder), group in by_name.items():
        table, kind = name.rsplit("_", 1)
        if kind == "plain":
            continue
        first, binary = group[0], group[0]["task"] == "binary"
        for view in first["test"]:
            for model in MODELS:
                test, inside = (np.mean([r[part][view][model] for r in group]) for part in ("test", "halves"))
                line = {"table": table, "encoder": f"{encoder} {view}".strip(), "model": model, "kind": kind}
                if kind == "noise":
                    without = by_name.get((f"{table}_plain", encoder), [])
                    if not without:
                        continue
                    moved = float(test - np.mean([r["test"][view][model] for r in without]))
                    yield {**line, "score": test, "other": moved, "ok": moved >= -MOST_MOVED}
                    continue
                limit = ERRORS * first["error"] if binary else EXPLAINED
                beyond = [abs(one - 0.5) if binary else one for one in (test, inside)]
                yield {**line, "score": test, "other": float(inside), "ok": bool(max(beyond) <= limit)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="noise.py", description=__doc__.splitlines()[0])
    parser.add_argument("--encoders", default=f"{OURS},onehot,entity")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--again", default="")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    folder, again = FOLDER / "noise", asked.again.split(",")
    for name in TRIED:
        table = TABLES[name]()
        for kind in KINDS:
            for encoder in asked.encoders.split(","):
                for seed in range(asked.seeds):
                    if not is_done(folder, f"{name}_{kind}", encoder, seed, again=again):
                        write(folder, measure(table, kind, encoder, seed))
    title = "AUC or R² on test rows; then what noise columns change, or what halves of training rows find"
    printed = Printed(
        "table", "encoder", "model", "kind", "test", "change or halves", "as it should be", title=title
    )
    for line in findings(read(folder)):
        *words, test, other, ok = line.values()
        printed.add_row(*words, f"{test:.4f}", f"{other:+.4f}", "yes" if ok else "NO")
    Console().print(printed)


if __name__ == "__main__":
    main()
