"""A table of events becomes sequences: flights against pytorch-forecasting; memory at 20 million rows.

python examples/benchmarks/sequences.py [--quick]
(needs `make data`, and makes an environment for pytorch-forecasting, once; --quick takes two million rows and
one process of the peer; memory is read from /proc, so on Linux)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from measure import report
from peer_environment import pytorch_forecasting

from tabembed import Categorical, SequenceBatch, SequenceEncoder
from tabembed.datasets import fetch_flights

CATEGORIES = ["carrier", "origin", "dest"]
NUMBERS = ["distance", "dep_delay", "arr_delay"]
OBSERVED = ["dep_delay", "arr_delay"]
REPEATS = 5
PROCESSES = 2

# Runs in the peer's environment: for every line that it reads it makes its data set once and says the
# seconds. What it needs beside the columns, a running number a flight, is there already.
PEER = """
import json, logging, sys, time, warnings
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
import numpy as np, pandas as pd
from pytorch_forecasting import TimeSeriesDataSet
parts = np.load(sys.argv[1])
frame = pd.DataFrame({name: parts[name] for name in parts.files})
categories, numbers = sys.argv[2].split(","), sys.argv[3].split(",")
frame[categories + ["tailnum"]] = frame[categories + ["tailnum"]].astype(str)

def make():
    return TimeSeriesDataSet(
        frame, time_idx="step", target="arr_delay", group_ids=["tailnum"], max_encoder_length=31,
        min_encoder_length=1, max_prediction_length=1, min_prediction_length=1,
        time_varying_known_categoricals=categories, time_varying_unknown_reals=numbers,
    )

make()
print(json.dumps("ready"), flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    made = make()
    print(json.dumps(time.perf_counter() - start), flush=True)
"""


def flights() -> pd.DataFrame:
    table = fetch_flights().dropna(subset=["tailnum", "arr_delay"])
    return table[["tailnum", "time_hour", *CATEGORIES, *NUMBERS]].reset_index(drop=True)


def ours(frame: pd.DataFrame) -> SequenceBatch:
    encoder = SequenceEncoder("tailnum", "time_hour", observed=OBSERVED)
    return encoder.fit(frame).transform(frame)


def side_by_side(frame: pd.DataFrame, n_processes: int) -> tuple[float, float]:
    """Median seconds of both, which take turns; the peer in fresh processes of its own."""
    order = frame.sort_values(["tailnum", "time_hour"], kind="stable")
    step = order.groupby("tailnum").cumcount().sort_index()
    columns = {name: frame[name].astype(str).to_numpy(str) for name in ["tailnum", *CATEGORIES]}
    columns |= {name: frame[name].to_numpy() for name in NUMBERS} | {"step": step.to_numpy()}
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    with TemporaryDirectory() as folder:
        file = str(Path(folder) / "flights.npz")
        np.savez(file, **columns)
        command = [pytorch_forecasting(), "-c", PEER, file, ",".join(CATEGORIES), ",".join(NUMBERS)]
        for _ in range(n_processes):
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
                ask = asker(peer)
                ask("")
                ours(frame)
                for _ in range(REPEATS):
                    seconds["peer"].append(ask("\n"))
                    start = time.perf_counter()
                    ours(frame)
                    seconds["ours"].append(time.perf_counter() - start)
    return median(seconds["ours"]), median(seconds["peer"])


def asker(peer: subprocess.Popen[str]) -> Callable[[str], Any]:
    def ask(text: str) -> Any:
        if peer.stdin is None or peer.stdout is None:
            raise ValueError("peer must have pipes")
        peer.stdin.write(text)
        peer.stdin.flush()
        return json.loads(peer.stdout.readline())

    return ask


def resident(field: str) -> int:
    """Bytes of this process in memory: now (VmRSS) or at most so far (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def size_of(batch: SequenceBatch) -> int:
    parts = [batch.cu_seqlens, batch.times, batch.elapsed, batch.gap, batch.row]
    parts += [batch.rows.ids, batch.rows.values, batch.rows.missing, batch.rows.times]
    return sum(part.numel() * part.element_size() for part in parts) + batch.entities.nbytes


def memory(n_rows: int) -> dict[str, float]:
    """Most memory beyond the table's own while it becomes sequences, over the size of these."""
    rng = np.random.default_rng(0)
    table = {
        "who": rng.integers(0, n_rows // 100, n_rows),
        "when": rng.integers(0, 10**9, n_rows).astype("datetime64[s]"),
    }
    table |= {f"category {i}": rng.integers(0, 1000, n_rows) for i in range(3)}
    table |= {f"number {i}": rng.normal(size=n_rows) for i in range(3)}
    frame = pd.DataFrame(table)
    del table
    columns = {f"category {i}": Categorical() for i in range(3)}
    encoder = SequenceEncoder("who", "when", columns, observed=["number 2"])
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is what there is now
    before = resident("VmRSS")
    start = time.perf_counter()
    encoder.fit(frame)
    fitted = time.perf_counter()
    of_fit = resident("VmHWM") - before
    Path("/proc/self/clear_refs").write_text("5")
    batch = encoder.transform(frame)
    done = time.perf_counter()
    size = size_of(batch)
    return {
        "rows": n_rows,
        "size": size,
        "fit": of_fit / size,
        "transform": (resident("VmHWM") - before) / size,
        "fit, s": fitted - start,
        "transform, s": done - fitted,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--memory", type=int, help="measure this many rows, and nothing else")
    given = parser.parse_args()
    if given.memory:
        print(json.dumps(memory(given.memory)))
        return
    own, peer = side_by_side(flights(), 1 if given.quick else PROCESSES)
    command = [sys.executable, __file__, "--memory", str(2 * 10**6 if given.quick else 20 * 10**6)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    rows = [("flights, fit included: times faster", peer / own, ">= 5", peer / own >= 5)]
    for part in ("fit", "transform"):
        what = f"{part} of {found['rows']:,} rows ({found[part + ', s']:.1f} s): memory over output"
        rows.append((what, found[part], "<= 3", found[part] <= 3))
    names = ("what", "value", "promised", "reached")
    report("sequences", [dict(zip(names, row, strict=True)) for row in rows], value="value", unit="×")
    print(f"flights: tabembed {own:.3f} s, pytorch-forecasting {peer:.3f} s")
    print(f"output of the large table: {found['size'] / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
