"""Out-of-fold vectors of the Adult table (48,842 rows) with every default.

python examples/benchmarks/adult.py      (needs `make data`)
"""

from __future__ import annotations

import time

from measure import below, report

from tabembed import TableEmbedder
from tabembed.datasets import fetch_adult

TARGET = "income"


def main() -> None:
    adult = fetch_adult()
    X, y = adult.drop(columns=TARGET), adult[TARGET]
    start = time.perf_counter()
    TableEmbedder(random_state=0).fit_transform(X, y)
    taken = time.perf_counter() - start
    report("adult", [below(f"TableEmbedder().fit_transform, {len(X):,} rows", taken, 90, "s")])


if __name__ == "__main__":
    main()
