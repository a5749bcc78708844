"""Run as a script: the polars and pyarrow rows of the dtype matrix, where pandas cannot be imported.

The argument is an encoder saved by another process after a fit on the polars categories a, b, c.
Prints one JSON object: library, family and dtype give the ids of ``transform`` after a fit on that
very column and after a fit on the first column of the family, or the text of the error.
"""

from __future__ import annotations

import json
import sys


class NoPandas:
    """Lets every import pass but that of pandas."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, NoPandas())
    from dtype_columns import COLUMNS, VALUES, frame

    from tabembed import Categorical, TableEncoder

    def encode(fitted, given):
        try:
            encoder = TableEncoder(columns={"x": Categorical()}).fit(fitted)
            return encoder.transform(given).ids[:, 0].tolist()
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    import polars as pl

    # first of all, so that no text of this process has a physical code yet
    codes = pl.DataFrame({"x": pl.Series(["c", "d", "b"], dtype=pl.Categorical)})
    fresh = TableEncoder.load(sys.argv[1]).transform(codes).ids[:, 0].tolist()
    answers: dict[str, list] = {}
    for library in ("polars", "pyarrow"):
        for family in VALUES:
            tables = {dtype: frame(library, c) for dtype, c in COLUMNS[library](family).items()}
            first = next(iter(tables.values()))
            for dtype, given in tables.items():
                answers[f"{library}/{family}/{dtype}"] = [encode(given, given), encode(first, given)]
    loaded = "pandas" in sys.modules
    print(json.dumps({"pandas": loaded, "fresh polars categories": fresh, "answers": answers}))
