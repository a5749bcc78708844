"""Batches of 1,024 rows from parquet for training: a loader over groups of rows against two usual ways.

The peers are a loop over pyarrow's batches of 1,024 rows, each encoded by itself, and a data set of rows
behind a ``DataLoader`` (the whole table encoded in memory; a row an item). All take turns in one run, on
flights (13 columns) repeated to a million rows, in groups of 65,536.

python examples/benchmarks/loader.py            (needs `make data`)
python examples/benchmarks/loader.py --quick    (336,776 rows)
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from measure import report
from results import record
from table import CATEGORIES, NUMBERS, ours
from torch.utils.data import DataLoader, Dataset

from tabembed import ParquetBatches, TableEncoder
from tabembed.datasets import fetch_flights

BATCH = 1024
GROUP = 65_536


class Rows(Dataset[Any]):
    """An encoded table in memory, a row an item, as most data sets for images are written."""

    def __init__(self, table: pa.Table, encoder: TableEncoder) -> None:
        batch = encoder.transform(table)
        self.ids, self.values, self.missing = batch.ids, batch.values, batch.missing

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, ...]:
        return self.ids[i], self.values[i], self.missing[i]


def pass_over(batches: Iterable[Any]) -> tuple[float, float]:
    """Seconds by the clock, and of processors (this process's alone), of one pass."""
    clock, processor = time.perf_counter(), time.process_time()
    for _ in batches:
        pass
    return time.perf_counter() - clock, time.process_time() - processor


def main(quick: bool) -> None:
    frame = fetch_flights()[CATEGORIES + NUMBERS]
    table = pa.Table.from_pandas(frame, preserve_index=False)
    n, few = (len(frame), 20_000) if quick else (1_000_000, 50_000)
    table = pa.concat_tables([table] * 3).slice(0, n)
    encoder = ours().fit(frame)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flights.parquet"
        pq.write_table(table, file, row_group_size=GROUP)
        rows = Rows(table.slice(0, few), encoder)

        def parquet(shuffle: bool, n_workers: int) -> Iterable[Any]:
            batches = ParquetBatches(file, encoder, batch_size=BATCH, shuffle=shuffle)
            return DataLoader(batches, batch_size=None, num_workers=n_workers)

        def by_batch() -> Iterable[Any]:
            read = pq.ParquetFile(file).iter_batches(BATCH, columns=CATEGORIES + NUMBERS)
            return (encoder.transform(batch) for batch in read)

        ways: dict[str, tuple[Callable[[], Iterable[Any]], int]] = {
            "in order": (lambda: parquet(False, 0), n),
            "shuffled": (lambda: parquet(True, 0), n),
            "shuffled, two workers": (lambda: parquet(True, 2), n),
            "by batch": (by_batch, n),
            "rows": (lambda: DataLoader(rows, batch_size=BATCH, shuffle=True), few),
        }
        speeds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(3 if quick else 7):
            for name, (make, count) in ways.items():
                clock, processor = pass_over(make())
                speeds[name].append((count / clock, count / processor))
    speed = {name: median(clock for clock, _ in found) for name, found in speeds.items()}
    alone = {name: median(processor for _, processor in found) for name, found in speeds.items()}
    what = f"batches of 1,024 rows of {n:,} flights"
    results = [
        record(f"{what}, {name}", value=speed[name], unit="rows/s", reach=reach)
        for name, reach in (("in order", ">= 1e6"), ("shuffled", ">= 1e6"), ("shuffled, two workers", ""))
    ]
    results.append(
        record(f"{what}, shuffled, by processor time", value=alone["shuffled"], unit="rows/s of one core")
    )
    for peer, against in (
        ("by batch", "pyarrow's batches, each encoded"),
        ("rows", "a DataLoader over rows"),
    ):
        results.append(
            record(f"{what}, shuffled", value=speed["shuffled"] / speed[peer], unit="×", against=against)
        )
    report("loader", results)


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
