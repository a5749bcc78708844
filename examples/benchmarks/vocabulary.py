"""A column of distinct strings: seconds of a fit, memory at its peak, and what a fitted encoder keeps.

The size of the strings is that of the Arrow array they come in: their bytes, and 4 more each. Memory is
what the process has beyond its imports and that array.

python examples/benchmarks/vocabulary.py [--quick]   (10 million strings of 20 characters; --quick: 1 million)
"""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from measure import report
from results import record

from tabembed import TableEncoder

MB = 2**20


def strings(n: int) -> pa.Array:
    """Names of 20 characters, in no order: ``user-`` and fifteen digits."""
    odd = np.uint64(0x9E3779B97F4A7C15)
    digits = (np.arange(n, dtype=np.uint64) * odd) % np.uint64(10**15)
    parts = [np.char.add("user-", np.char.zfill(d.astype("U15"), 15)) for d in np.array_split(digits, 50)]
    return pa.concat_arrays([pa.array(part.tolist(), pa.string()) for part in parts])


def resident() -> int:
    """Bytes that the process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def settled() -> int:
    """Bytes in memory when everything that is free has gone back to the system."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return resident()


class Watched:
    """Seconds, and bytes at the peak, of what runs in the block."""

    def __enter__(self) -> Watched:
        self.base = self.peak = settled()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_: Any) -> None:
        self.seconds = time.perf_counter() - self.start
        self._stop.set()
        self._thread.join()
        self.kept = settled() - self.base

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, resident())


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    n = 1_000_000 if parser.parse_args().quick else 10_000_000
    TableEncoder().fit({"name": ["a", "b"] * 50_000})  # what is loaded with a first fit is no part of it
    array = strings(n)
    size = array.nbytes
    table = pa.table({"name": array})
    with Watched() as fit:
        encoder = TableEncoder().fit(table)
    some = table.slice(n // 2, 1000)
    with Watched() as lookup:
        encoder.transform(some)
    start = time.perf_counter()
    for _ in range(10):
        encoder.transform(some)
    later = (time.perf_counter() - start) / 10
    rows = [
        record(f"size of {n:,} strings", value=size / MB, unit="MB"),
        record(f"fit of {n:,} strings", value=fit.seconds, unit="s", reach="< 60"),
        record(
            "peak of the fit", value=(fit.peak - fit.base) / size, unit="×", against="strings", reach="<= 7"
        ),
        record("kept by the encoder", value=fit.kept / size, unit="×", against="strings", reach="<= 3"),
        record(
            "kept, with what a first transform adds",
            value=(fit.kept + lookup.kept) / size,
            unit="×",
            against="strings",
            reach="<= 3",
        ),
        record("first transform of 1,000 rows", value=lookup.seconds, unit="s"),
        record("a later one", value=later * 1e3, unit="ms"),
    ]
    report("vocabulary", rows)


if __name__ == "__main__":
    main()
