"""Rebuild the sample of flights that ships with tabembed from the full table (`make data` first).

400 aircraft are drawn with a fixed seed, and all of their flights kept in the order of the table.

    python examples/make_flights_sample.py [OUTPUT.parquet]
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow
from pyarrow import compute, parquet

import tabembed
from tabembed.datasets import _read_flights

N_AIRCRAFT, SEED = 400, 2013


def sample(flights: pyarrow.Table) -> pyarrow.Table:
    aircraft = sorted(compute.unique(flights["tailnum"].drop_null()).to_pylist())
    drawn = random.Random(SEED).sample(aircraft, N_AIRCRAFT)
    return flights.filter(compute.is_in(flights["tailnum"], pyarrow.array(drawn)))


def main(output: Path) -> None:
    table = sample(_read_flights())
    parquet.write_table(table, output, compression="zstd", compression_level=19)
    print(f"{output}: {table.num_rows} flights, {output.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    shipped = Path(tabembed.__file__).with_name("_data") / "flights.parquet"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else shipped)
