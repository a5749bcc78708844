"""A small diffusion model of tables on flights, next to baselines that learn no model.

Numbers get Gaussian noise, categories multinomial noise, and the label (more than 15 minutes late) is a
condition, as in TabDDPM (Kotelnikov et al. 2023, arXiv:2209.15421). One network for each way of telling
it the time, all with the same budget. Half of the flights trains, the other half judges. On two cores of
a CPU it takes minutes. The parts lie in the folder diffusion/.

Made numbers become the nearest that their column has in the rows trained on, whoever made them: else
boosting would tell SMOTENC's rows by their fractions of minutes. Rows between two neighbours score well
because they are near copies; the columns "copies" and "nearer" show it.

python examples/tabular_diffusion.py [--quick]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from diffusion import metrics
from diffusion.baselines import independent_columns, smotenc
from diffusion.model import TableDiffusion
from diffusion.network import EMBEDDINGS
from diffusion.tables import Table, halves, read
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as Grid

Way = Callable[[int], Table]  # from a seed to made rows
LEGEND = """\
Trend: likeness of the relations between two columns, 1 is alike.
C2ST: 1 when boosting cannot tell made rows from held-out ones, 0 when it always can.
AUC: boosting that learned the label from made rows, on held-out rows.
Copies: share of made rows that stand in the rows trained on.
Nearer: share nearer to a row trained on than to any held-out one, 0.5 when nothing is copied.
Behind ±: half of the range over the seeds. The best of a column need not be the diffusion model."""


def diffusion(time: str, train: Table, sizes: list[int], n_made: int, n_updates: int, bars: Progress) -> Way:
    """A way to make rows: train with a progress bar, then sample."""

    def make(seed: int) -> Table:
        bar = bars.add_task(f"time {time}, seed {seed}", total=n_updates, loss=float("nan"))
        model = TableDiffusion(sizes, time, n_updates=n_updates, seed=seed)
        return model.fit(train, lambda loss: bars.update(bar, advance=1, loss=loss)).sample(n_made)

    return make


def scores(made: Table, train: Table, held_out: Table, seed: int) -> list[float]:
    """What the columns of the printed table say about made rows."""
    return [
        metrics.trend(made, held_out),
        metrics.not_told_apart(made, held_out[: len(made)], seed),
        metrics.train_on_made_test_on_real(made, held_out, seed),
        metrics.share_copied(made, train),
        metrics.share_nearer_to_train(made, train, held_out),
    ]


def judged(make: Way, train: Table, held_out: Table, seeds: list[int]) -> np.ndarray:
    """Scores and seconds ``(n_seeds, 6)`` of one way to make rows."""
    runs = []
    for seed in seeds:
        start = time.perf_counter()
        made = make(seed)
        seconds = time.perf_counter() - start
        runs.append([*scores(made, train, held_out, seed), seconds])
    return np.array(runs)


def grid(runs_of: dict[str, np.ndarray]) -> Grid:
    """One line for each way: means over the seeds, and half of their range."""
    table = Grid("rows from", "Trend", "C2ST", "AUC", "copies", "nearer", "seconds", box=None)
    for name, runs in runs_of.items():
        mean, half = runs.mean(0), np.ptp(runs, axis=0) / 2
        cells = [f"{m:.3f} ±{h:.3f}" for m, h in zip(mean[:-1], half[:-1], strict=True)]
        table.add_row(name, *cells, f"{mean[-1]:.1f}")
    return table


def main(quick: bool) -> None:
    train, held_out, sizes = halves(read(), seed=0)
    if quick:
        train, held_out = train[:200], held_out[:200]
    n_made, n_updates, seeds = (200, 10, [0]) if quick else (4000, 2000, [0, 1])
    print(f"{len(train):,} rows to train on, {len(held_out):,} held out, {n_made:,} made in every way")

    console = Console(width=110)
    columns = "{task.description}", BarColumn(), TextColumn("loss {task.fields[loss]:.3f}")
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bars:
        ways: dict[str, Way] = {
            "the rows trained on": lambda seed: train[:n_made],
            "independent columns": lambda seed: independent_columns(train, n_made, seed),
            "SMOTENC": lambda seed: smotenc(train, n_made, seed),
        }
        for kind in EMBEDDINGS:
            ways[f"diffusion, time {kind}"] = diffusion(kind, train, sizes, n_made, n_updates, bars)
        runs_of = {name: judged(make, train, held_out, seeds) for name, make in ways.items()}
    console.print(grid(runs_of))
    print("A test that everything runs: a few rows and updates tell nothing." if quick else LEGEND)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
