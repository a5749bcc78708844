"""Every example runs: in its quick form on the data that ships, in full with ``make check``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REBUILDS_SHIPPED_FILES = {"make_flights_sample.py"}  # tests/test_datasets.py runs it
EXAMPLES = [f for f in sorted((ROOT / "examples").glob("*.py")) if f.name not in REBUILDS_SHIPPED_FILES]


def run(example: Path, folder: Path, *arguments: str) -> None:
    environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    environment.setdefault("TABEMBED_DATA", str(ROOT / ".data"))
    environment.setdefault("OMP_NUM_THREADS", "1")
    done = subprocess.run(
        [sys.executable, example, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        pytest.fail(
            f"{example.name} {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-3000:]}"
        )
    assert done.stdout.strip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_quick(example, tmp_path):
    run(example, tmp_path, "--quick")


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_full(example, tmp_path):
    run(example, tmp_path)


def test_a_failing_example_is_reported(tmp_path):
    (tmp_path / "bad.py").write_text("raise ValueError('the reason')")
    with pytest.raises(pytest.fail.Exception, match=r"bad\.py --quick ended with 1(.|\n)*the reason"):
        run(tmp_path / "bad.py", tmp_path, "--quick")
