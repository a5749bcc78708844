"""Flights to tensors: tabembed against scikit-learn's encoders, side by side.

python examples/benchmarks/table.py      (needs `make data`)
"""

from __future__ import annotations

import numpy as np
import pyarrow
import torch
from measure import against, alternate, report
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from tabembed import Categorical, TableEncoder
from tabembed.datasets import fetch_flights

CATEGORIES = ["carrier", "origin", "dest", "tailnum", "flight", "month", "day", "hour"]
NUMBERS = ["dep_delay", "sched_dep_time", "sched_arr_time", "distance", "air_time"]


def ours() -> TableEncoder:
    return TableEncoder({name: Categorical() for name in CATEGORIES}, scaler="standard")


def peer() -> ColumnTransformer:
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    return ColumnTransformer(
        [
            ("categories", ordinal, CATEGORIES),
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
        ]
    )


def tensors(array: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """What a network needs of the peer's float64 array: int64 ids and float32 values."""
    split = len(CATEGORIES)
    ids = torch.from_numpy(array[:, :split].astype(np.int64))
    return ids, torch.from_numpy(array[:, split:].astype(np.float32))


def main() -> None:
    frame = fetch_flights()[CATEGORIES + NUMBERS]
    arrow = pyarrow.Table.from_pandas(frame, preserve_index=False)
    encoder, other = ours().fit(frame), peer().fit(frame)
    transform = alternate(
        {
            "peer": lambda: tensors(other.transform(frame)),
            "pandas": lambda: encoder.transform(frame),
            "arrow": lambda: encoder.transform(arrow),
        },
        repeats=7,
    )
    fit = alternate(
        {
            "peer": lambda: tensors(peer().fit_transform(frame)),
            "pandas": lambda: ours().fit(frame).transform(frame),
        },
        repeats=5,
    )
    report(
        "table",
        [
            against("transform, pandas in", transform["pandas"], transform["peer"], 8),
            against("transform, Arrow in", transform["arrow"], transform["peer"], 12),
            against("fit + transform, pandas in", fit["pandas"], fit["peer"], 4),
        ],
        against="scikit-learn's encoders",
    )


if __name__ == "__main__":
    main()
