"""Fit an encoder, and encode a partitioned table, on the processes of a dask cluster.

python examples/distributed_fit.py [--quick]

The quick form runs the same tasks on threads of this process, which need no start.
"""

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pyarrow.dataset as ds

from tabembed import Categorical, TableEncoder, distributed
from tabembed.datasets import load_flights

COLUMNS = ["month", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "distance", "time_hour"]


def cluster():
    """Two processes of this machine; a Client of a running cluster does as well."""
    from distributed import Client

    return Client(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")


def main(quick: bool) -> None:
    flights = load_flights()[COLUMNS]
    with tempfile.TemporaryDirectory() as folder, nullcontext() if quick else cluster() as client:
        table = Path(folder) / "flights"
        table.mkdir()
        for month, rows in flights.groupby("month"):
            rows.to_parquet(table / f"{month:02}.parquet", index=False)
        settings = {"month": Categorical(), "flight": Categorical()}
        encoder = distributed.fit(TableEncoder(settings, min_frequency=5), table, client=client)
        distributed.transform(encoder, table, Path(folder) / "encoded", client=client)
        encoded = ds.dataset(Path(folder) / "encoded")
        print(f"{encoded.count_rows():,} rows in {len(encoded.files)} parts")
        at_once = TableEncoder(settings, min_frequency=5).fit(ds.dataset(table).to_table())
        same = all((at_once.categories_[name] == v).all() for name, v in encoder.categories_.items())
        print(f"categories as in one fit of all rows: {same}")


if __name__ == "__main__":
    main("--quick" in sys.argv)
