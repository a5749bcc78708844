"""Windows of 32 rows for training: tabembed, one index a cell, and pytorch-forecasting's data loader.

python examples/benchmarks/windows.py      (makes an environment for pytorch-forecasting, once)
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from measure import alternate, report
from peer_environment import pytorch_forecasting

from tabembed import Categorical, Continuous, SequenceEncoder

LENGTH, BATCH = 32, 4096
CATEGORIES = [f"category {i}" for i in range(8)]
NUMBERS = [f"number {i}" for i in range(5)]

# Runs in the peer's environment: seconds for so many collated windows, after a first batch.
PEER = """
import json, logging, sys, time, warnings
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
import numpy as np, pandas as pd
from pytorch_forecasting import TimeSeriesDataSet
folder, length, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
parts = np.load(f"{folder}/rows.npz")
frame = pd.DataFrame({name: parts[name] for name in parts.files})
categories = [name for name in frame if name.startswith("category")]
frame[categories + ["who"]] = frame[categories + ["who"]].astype(str)
numbers = [name for name in frame if name.startswith("number")]
data = TimeSeriesDataSet(
    frame, time_idx="step", target=numbers[0], group_ids=["who"], max_encoder_length=length - 1,
    min_encoder_length=length - 1, max_prediction_length=1, min_prediction_length=1,
    time_varying_known_categoricals=categories, time_varying_unknown_reals=numbers,
    target_normalizer=None,
)
batches = iter(data.to_dataloader(train=True, batch_size=batch, num_workers=0))
x, y = next(batches)
assert x["encoder_cat"].shape == (batch, length - 1, len(categories)), x["encoder_cat"].shape
start = time.perf_counter()
for _ in range(2):
    next(batches)
print(json.dumps({"seconds": (time.perf_counter() - start) / (2 * batch)}))
"""


def events(n_entities: int) -> pd.DataFrame:
    """Lengths like those of flights per aircraft: a few rows to a few hundred."""
    rng = np.random.default_rng(0)
    length = np.clip(rng.lognormal(4.0, 1.0, n_entities).astype(int), 1, 600)
    who = np.repeat(np.arange(n_entities), length)
    step = np.arange(len(who)) - np.repeat(np.cumsum(length) - length, length)
    table = {"who": who, "step": step}
    table |= {name: rng.integers(0, 40, len(who)) for name in CATEGORIES}
    table |= {name: rng.normal(size=len(who)) for name in NUMBERS}
    return pd.DataFrame(table)


def peer_seconds(frame: pd.DataFrame) -> float:
    """Seconds a window; one run, because its data set takes longer to make than to read."""
    with TemporaryDirectory() as folder:
        np.savez(Path(folder) / "rows.npz", **{name: frame[name].to_numpy() for name in frame})
        command = [pytorch_forecasting(), "-c", PEER, folder, str(LENGTH), str(BATCH)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def main() -> None:
    frame = events(4000)
    kinds = {name: Categorical() for name in CATEGORIES} | {name: Continuous() for name in NUMBERS}
    encoder = SequenceEncoder("who", "step", kinds)
    batch = encoder.fit(frame).transform(frame)
    every = batch.windows(LENGTH)
    full = batch[batch.lengths >= LENGTH].windows(LENGTH)
    within = torch.arange(LENGTH)
    bounds = full[:].row[:, 0]  # where a window begins in the table, which is sorted as the batch is
    rng = torch.Generator().manual_seed(0)

    def numbers(of: int, n: int = BATCH) -> torch.Tensor:
        return torch.randint(of, (n,), generator=rng)

    def plain() -> list[torch.Tensor]:
        places = bounds[numbers(len(full))][:, None] + within
        return [part[places] for part in (*batch.rows.tensors().values(), batch.times)]

    seconds = alternate(
        {
            "full": lambda: full[numbers(len(full))],
            "every": lambda: every[numbers(len(every))],
            "small": lambda: every[numbers(len(every), 256)],
            "plain": plain,
        },
        repeats=31,
    )
    peer = peer_seconds(frame)
    rows = []
    for what, name, n in [
        ("whole, 4,096 at a time", "full", BATCH),
        ("all, short ones padded", "every", BATCH),
        ("all, 256 at a time", "small", 256),
        ("plain gather of columns and times", "plain", BATCH),
    ]:
        rate = n / seconds[name]
        promised = "" if name in ("small", "plain") else ">= 800,000 or 200x"
        rows.append(
            {
                "what": what,
                "a second": round(rate),
                "peer, a second": round(1 / peer),
                "times faster": rate * peer,
                "promised": promised,
                "reached": not promised or rate >= 800_000 or rate * peer >= 200,
            }
        )
    report("windows", rows, against="pytorch-forecasting")


if __name__ == "__main__":
    main()
