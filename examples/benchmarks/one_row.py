"""One row at a time: 20 columns, one of them with a million known values.

python examples/benchmarks/one_row.py
"""

from __future__ import annotations

import numpy as np
import pandas
import pyarrow
from measure import alternate, below, report

from tabembed import TableEncoder

N_ROWS = 1_000_000


def table() -> pandas.DataFrame:
    generator = np.random.default_rng(0)
    values = [f"value {i}" for i in range(50)]
    columns: dict[str, object] = {"user": pandas.Series([f"user {i}" for i in range(N_ROWS)])}
    for i in range(9):
        codes = generator.integers(50, size=N_ROWS)
        columns[f"category {i}"] = pandas.Categorical.from_codes(codes, values).astype(str)
    for i in range(10):
        columns[f"number {i}"] = generator.normal(size=N_ROWS)
    return pandas.DataFrame(columns)


def main() -> None:
    frame = table()
    encoder = TableEncoder().fit(frame)
    row = frame[N_ROWS // 2 : N_ROWS // 2 + 1]
    arrow = pyarrow.Table.from_pandas(row, preserve_index=False)
    seconds = alternate(
        {"pandas": lambda: encoder.transform(row), "arrow": lambda: encoder.transform(arrow)}, repeats=300
    )
    report(
        "one_row",
        [
            below("one row, 20 columns, pandas in", 1000 * seconds["pandas"], 1.5, "ms"),
            below("one row, 20 columns, Arrow in", 1000 * seconds["arrow"], 0.5, "ms"),
        ],
    )


if __name__ == "__main__":
    main()
