"""Loading takes memory in proportion to the files."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from tabembed import Categorical, TableEncoder
from tabembed.schema import FIRST_KNOWN, CategoricalColumn
from tabembed.table.category import CategoryEncoder
from tabembed.table.vocabulary import Vocabulary

N = 500_000
ROOM, TIMES = 64_000_000, 4
LOAD = """
import sys
import tabembed
tabembed.load(sys.argv[2])
def now(what):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins anew
before = now("VmRSS")
encoder = tabembed.load(sys.argv[1])
print(len(encoder.columns_["x"].vocabulary), now("VmHWM") - before)
"""


def saved(folder, values):
    """An encoder of one column, each of whose categories has another count."""
    counts = (0, 0, 0, *range(10**6 + len(values), 10**6, -1))
    column = CategoryEncoder(Vocabulary(values, "x"), CategoricalColumn("x", counts))
    encoder = TableEncoder({"x": Categorical()}).fit({"x": ["a", "b", "b"]})
    encoder._set_fitted({"x": column}, sum(counts[FIRST_KNOWN:]), ["x"], True)
    encoder.save(folder)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("kind", ["ints", "strings"])
def test_a_large_vocabulary_loads_within_its_bound(tmp_path, kind):
    drawn = np.random.default_rng(0).permutation(N) * 1_000_003
    values = pa.array(drawn) if kind == "ints" else pa.array([f"{i:012}" for i in drawn], pa.large_string())
    model, small = saved(tmp_path / "model", values), saved(tmp_path / "small", values[:5])
    found = subprocess.run(
        [sys.executable, "-c", LOAD, model, small], capture_output=True, text=True, check=True
    )
    n, peak = map(int, found.stdout.split())
    size = sum(path.stat().st_size for path in model.iterdir())
    assert n == N
    assert peak <= ROOM + TIMES * size, f"{peak:,} bytes for files of {size:,}"
