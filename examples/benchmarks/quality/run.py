"""One measurement: a table, an encoder and a seed, with every view and every model."""

from __future__ import annotations

import time

import numpy as np
from encoders import ENCODERS
from models import MODELS, Matrix, score
from records import Record, code
from tables import LARGEST, Table, split

SEEDS, SEEDS_OF_LARGEST = 5, 3


def seeds(table: str, most: int = SEEDS) -> range:
    return range(min(most, SEEDS_OF_LARGEST if table in LARGEST else SEEDS))


def coded(table: Table) -> np.ndarray:
    """The target as numbers: 1 is the second of two classes, by name."""
    return (table.y == np.unique(table.y)[1]).astype(int) if table.task == "binary" else table.y


def measure(table: Table, encoder: str, seed: int, most_rows: int | None = None) -> Record:
    """Scores on the test rows, which are the same for every encoder and seed.

    Args:
        table: from ``TABLES``.
        encoder: a name in ``ENCODERS``.
        seed: draws the training rows, and is the encoder's and the models' seed.
        most_rows: to train on and to test on, for a quick look.
    """
    train, test = (rows[:most_rows] for rows in split(table, seed))
    y = coded(table)
    clock = Clock()
    views = ENCODERS[encoder](table.X.iloc[train], y[train], table.X.iloc[test], table.task, seed)
    took = clock.read()
    results = {
        view: {"width": ours.shape[1]}
        | {name: _scored(name, table, ours, y[train], theirs, y[test], seed) for name in MODELS}
        for view, (ours, theirs) in views.items()
    }
    return {
        "table": table.name,
        "task": table.task,
        "encoder": encoder,
        "seed": seed,
        "code": code(encoder),
        "n_train": len(train),
        "n_test": len(test),
        **took,
        "views": results,
    }


def _scored(
    name: str, table: Table, train: Matrix, y: np.ndarray, test: Matrix, y_test: np.ndarray, seed: int
) -> dict[str, float]:
    clock = Clock()
    predicted = MODELS[name](table.task, train, y, test, seed)
    return {"score": score(table.task, y_test, predicted), **clock.read()}


class Clock:
    """Wall time, and the time on the processor, which other work on the machine does not stretch as much."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        taken = time.perf_counter() - self.start[0], time.process_time() - self.start[1]
        return {"seconds": round(taken[0], 3), "processor_seconds": round(taken[1], 3)}
