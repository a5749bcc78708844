"""The script that times the kernels on a GPU runs without one, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: run the script itself, which times it")
def test_without_a_gpu_it_checks_and_times_nothing(tmp_path):
    script = ROOT / "examples" / "benchmarks" / "gpu_kernels.py"
    environment = os.environ | {"COLUMNS": "200", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "no GPU: nothing was timed" in done.stdout
    assert done.stdout.count("True") == 27  # a row a check
    assert "False" not in done.stdout
