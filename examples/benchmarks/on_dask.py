"""One fit on two processes of a dask cluster, beside the same fit by one process that streams.

python examples/benchmarks/on_dask.py [--quick]     (the name "distributed" is taken by dask)

Repeated flights with noise, 13 columns, in files of a million rows. Both take turns; what the cluster needs
to start is not in the time. The states are compared, too: ids and categories bit by bit.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import alternate, report
from results import record

from tabembed import TableEncoder, distributed
from tabembed.datasets import load_flights

COLUMNS = ["month", "day", "dep_delay", "arr_delay", "carrier", "flight", "tailnum", "origin", "dest"]
COLUMNS += ["air_time", "distance", "hour", "time_hour"]
FILE_ROWS = 1_000_000


def write(folder: Path, n_files: int) -> None:
    """Files of flights drawn with replacement, with noise on what is measured."""
    flights = pa.Table.from_pandas(load_flights()[COLUMNS], preserve_index=False)
    for i in range(n_files):
        rng = np.random.default_rng(i)
        table = flights.take(rng.integers(0, len(flights), FILE_ROWS))
        for name in ("dep_delay", "arr_delay", "air_time"):
            noisy = table[name].to_numpy() + rng.normal(size=FILE_ROWS).round(2)
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, pa.array(noisy, from_pandas=True))
        pq.write_table(table, folder / f"{i:03}.parquet", row_group_size=FILE_ROWS // 4)


def same(a: TableEncoder, b: TableEncoder) -> bool:
    """Equal categories, ids and counts, and means to 1e-12."""
    for one, other in zip(a.schema_.columns, b.schema_.columns, strict=True):
        if hasattr(one, "mean"):
            if not np.allclose((one.mean, one.std), (other.mean, other.std), rtol=1e-12, atol=0):
                return False
            if one.quantiles != other.quantiles:
                return False
        elif one != other:
            return False
    return all((a.categories_[name] == values).all() for name, values in b.categories_.items())


def main() -> None:
    from distributed import Client, LocalCluster

    quick = "--quick" in sys.argv
    n_files = 2 if quick else 20
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n_files)
        settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
        with LocalCluster(**settings, host="127.0.0.1") as cluster, Client(cluster) as client:
            fits = {
                "dask": lambda: distributed.fit(TableEncoder(), folder, client=client),
                "one process": lambda: TableEncoder().fit_parquet(folder),
            }
            seconds = alternate(fits, repeats=3)
            equal = same(fits["dask"](), fits["one process"]())
        state = TableEncoder().partial(pq.read_table(folder / "000.parquet"))
    shape = f"{n_files * FILE_ROWS / 1e6:g} million rows × {len(COLUMNS)} columns"
    against, reach = "one process, seconds", "" if quick else "<= 1.3"
    ratio = seconds["dask"] / seconds["one process"]
    size = len(pickle.dumps(state, protocol=5)) / 1e6
    rows = [
        record(f"fit on dask, two processes, {shape}", value=ratio, unit="×", against=against, reach=reach),
        record(f"fit on dask, two processes, {shape}", value=seconds["dask"], unit="s"),
        record(f"fit by one process, {shape}", value=seconds["one process"], unit="s"),
        record("same state: 1 is yes", value=float(equal), reach=">= 1"),
        record("what a task sends, of a million rows", value=size, unit="MB"),
    ]
    report("distributed", rows)


if __name__ == "__main__":
    main()
