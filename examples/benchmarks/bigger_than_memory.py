"""A fit and a transform of parquet files batch by batch: memory, seconds a million rows, against in memory.

The flights of 2013 are repeated, their delays, distances and times in the air with noise, so that every
row is another. Each measurement has a process of its own, as a peak of memory is a process's.

python examples/benchmarks/bigger_than_memory.py [--quick] [--folder FOLDER]
    (20 million rows, some minutes; --quick: 1 million. Without `make data` it repeats the sample of flights.)
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

CATEGORIES = ["carrier", "origin", "dest", "tailnum", "flight", "month", "day", "hour"]
NUMBERS = ["dep_delay", "sched_dep_time", "sched_arr_time", "distance", "air_time"]
NOISY = ["dep_delay", "distance", "air_time"]
PEAK_MB, SHARE, SLOPE = 1500, 0.8, 1.25


def write_flights(path: Path, n_rows: int) -> None:
    """Flights repeated with noise, a group of rows for every year of them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tabembed.datasets import fetch_flights, load_flights

    try:
        frame = fetch_flights()[CATEGORIES + NUMBERS]
    except FileNotFoundError:
        frame = load_flights()[CATEGORIES + NUMBERS]
    table = pa.Table.from_pandas(frame.astype(dict.fromkeys(NOISY, "float64")), preserve_index=False)
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(path, table.schema) as writer:
        for begin in range(0, n_rows, len(table)):
            part = table.slice(0, n_rows - begin)
            for name in NOISY:
                noisy = frame[name].to_numpy()[: len(part)] + rng.normal(size=len(part)).round(3)
                place = part.column_names.index(name)
                part = part.set_column(place, part.field(name), pa.array(noisy, from_pandas=True))
            writer.write_table(part)


def encoder() -> Any:
    from tabembed import Categorical, TableEncoder

    return TableEncoder({name: Categorical() for name in CATEGORIES}, scaler="standard")


def streamed(path: Path) -> dict[str, float]:
    start = time.perf_counter()
    fitted = encoder().fit_parquet(path)
    fit = time.perf_counter()
    fitted.transform_parquet(path, path.with_suffix(".encoded"))
    end = time.perf_counter()
    path.with_suffix(".encoded").unlink()
    return {"fit": fit - start, "transform": end - fit, "seconds": end - start}


def in_memory(path: Path) -> dict[str, float]:
    """The same, with the whole table in memory: read, fitted, transformed, and the result written."""
    import pyarrow.parquet as pq

    from tabembed.table.encoded import encoded_table

    start = time.perf_counter()
    table = pq.read_table(path)
    fitted = encoder().fit(table)
    batch = fitted.transform(table)
    unwritten = time.perf_counter()
    pq.write_table(encoded_table(batch, fitted.schema_), path.with_suffix(".encoded"))
    end = time.perf_counter()
    path.with_suffix(".encoded").unlink()
    return {"unwritten": unwritten - start, "seconds": end - start}


def measured(way: str, path: Path) -> dict[str, float]:
    """Seconds and peak of memory of one way, in a process of its own."""
    command = [sys.executable, __file__, "--way", way, "--file", str(path)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _in_this_process(way: str, path: Path) -> None:
    import tabembed.table  # noqa: F401  # the import is no part of a throughput

    found = {"streamed": streamed, "in memory": in_memory}[way](path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**found, "peak": peak}))


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the files go; they are removed afterwards")
    parser.add_argument("--way", help="for the processes that are measured")
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    if options.way:
        _in_this_process(options.way, options.file)
        return
    from measure import report
    from results import record

    sizes = [250_000, 1_000_000] if options.quick else [1_000_000, 5_000_000, 20_000_000]
    compared, repeats = (sizes[-1], 1) if options.quick else (2_000_000, 3)
    rows, each = [], {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "flights.parquet"
        for n_rows in sizes:
            write_flights(path, n_rows)
            found = measured("streamed", path)
            each[n_rows] = found["seconds"] / n_rows * 1e6
            for step in ("fit", "transform"):
                text = f"{step} of {n_rows:,} rows, by million"
                rows.append(record(text, value=found[step] / n_rows * 1e6, unit="s"))
            text = f"peak of memory, {n_rows:,} rows"
            rows.append(record(text, value=found["peak"], unit="MB", reach=f"< {PEAK_MB}"))
        slope = each[sizes[-1]] / each[sizes[0]]
        text = f"seconds by million, of {sizes[-1]:,} rows"
        rows.append(record(text, value=slope, unit="×", against=f"of {sizes[0]:,} rows", reach=f"<= {SLOPE}"))
        write_flights(path, compared)
        runs = [(measured("streamed", path), measured("in memory", path)) for _ in range(repeats)]
    ours, theirs = (min(run[i]["seconds"] for run in runs) for i in (0, 1))
    text = f"throughput, {compared:,} rows"
    whole = "all in memory, result written, too"
    rows.append(record(text, value=theirs / ours, unit="×", against=whole, reach=f">= {SHARE}"))
    unwritten = min(run[1]["unwritten"] for run in runs) / ours
    rows.append(record(text, value=unwritten, unit="×", against="all in memory, result not written"))
    rows.append(record(f"peak all in memory, {compared:,} rows", value=runs[0][1]["peak"], unit="MB"))
    report("bigger_than_memory", rows)


if __name__ == "__main__":
    main()
