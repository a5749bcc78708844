"""How fit, encode and decode grow with the number of distinct strings.

python examples/benchmarks/scaling.py [--quick]    (--quick: a tenth of the strings)
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas
from measure import alternate, report

from tabembed import TableEncoder

SIZES, LIMIT = (10_000, 100_000, 1_000_000), 15


def seconds(n_values: int) -> dict[str, float]:
    """Seconds of fit, encode and decode of ``n_values`` strings, two rows each."""
    names = [f"customer {i:08d}" for i in range(n_values)] * 2
    order = np.random.default_rng(0).permutation(len(names))
    frame = pandas.DataFrame({"customer": pandas.Series(names)[order].reset_index(drop=True)})
    encoder = TableEncoder().fit(frame)
    batch = encoder.transform(frame)
    return alternate(
        {
            "fit": lambda: TableEncoder().fit(frame),
            "encode": lambda: encoder.transform(frame),
            "decode": lambda: encoder.inverse_transform(batch),
        },
        repeats=3 if n_values == SIZES[-1] else 9,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    sizes = [size // 10 for size in SIZES] if parser.parse_args().quick else SIZES
    taken = {size: seconds(size) for size in sizes}
    rows: list[dict[str, Any]] = []
    for step in ("fit", "encode", "decode"):
        small, middle, large = (taken[size][step] for size in sizes)
        growth = max(middle / small, large / middle)
        times = {f"{size:,}, s": taken[size][step] for size in sizes}
        rows.append(
            {"what": step, **times, "growth": growth, "promised": f"<= {LIMIT}", "reached": growth <= LIMIT}
        )
    report("scaling", rows, value="growth", unit="× the time")


if __name__ == "__main__":
    main()
