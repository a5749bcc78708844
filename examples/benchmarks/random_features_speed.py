"""Random Fourier features: seconds of a transform against scikit-learn's RBFSampler.

python examples/benchmarks/random_features_speed.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from measure import alternate, report
from sklearn.kernel_approximation import RBFSampler

from tabembed import RandomFourierTransformer

N_ROWS, N_FEATURES, WIDTH = 20_000, 30, 1024
REACH = 0.8


def row(features: str, dtype: type) -> dict[str, Any]:
    """Time of both, as a share of scikit-learn's; both may use every thread they want."""
    rows = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES)).astype(dtype)
    ours = RandomFourierTransformer(WIDTH, features=features, random_state=0).fit(rows)
    theirs = RBFSampler(gamma=0.5 / ours.lengthscale_**2, n_components=WIDTH, random_state=0).fit(rows)
    if ours.transform(rows[:1]).dtype != theirs.transform(rows[:1]).dtype:
        raise RuntimeError("the two must give the same dtype to be compared")
    seconds = alternate(
        {"ours": lambda: ours.transform(rows), "theirs": lambda: theirs.transform(rows)}, repeats=9, pause=0.1
    )
    share = seconds["ours"] / seconds["theirs"]
    return {
        "what": f"{features}, {np.dtype(dtype)}, {torch.get_num_threads()} threads",
        "tabembed, s": seconds["ours"],
        "RBFSampler, s": seconds["theirs"],
        "share of its time": share,
        "promised": f"<= {REACH:g}",
        "reached": share <= REACH,
    }


def main() -> None:
    kinds = [(features, dtype) for features in ("sincos", "cos") for dtype in (np.float32, np.float64)]
    rows = [row(*kind) for kind in kinds]
    report("random_features_speed", rows, value="share of its time", unit="×", against="RBFSampler")


if __name__ == "__main__":
    main()
