"""examples/benchmarks/california.py builds what was published; its quick form runs with ``make check``."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "examples" / "benchmarks"


@pytest.fixture
def script(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setenv("TABEMBED_DATA", os.environ.get("TABEMBED_DATA", str(ROOT / ".data")))
    monkeypatch.chdir(tmp_path)
    import california

    try:
        california.HOUSES.find()
    except FileNotFoundError:
        pytest.skip("needs `make data`")
    return california


# The number of learned parameters that the publications report beside each of their results.
@pytest.mark.parametrize(
    ("name", "n_parameters"), [("MLP", 43_495), ("PLR", 563_041), ("PLE-B", 578_721), ("T-LR", 295_759)]
)
def test_networks_are_as_large_as_the_published_ones(script, name, n_parameters):
    model = script.MODELS[name]
    fit, stop, test = script.parts(model.blur)
    assert (len(fit.x), len(stop.x), len(test.x)) == (13_209, 3_303, 4_128)
    net = script.network(model, fit, (fit.y - fit.y.mean()) / fit.y.std(correction=0))
    learned = {k: p.numel() for k, p in net.named_parameters() if not k.endswith("missing")}
    assert sum(learned.values()) == n_parameters


@pytest.mark.parametrize("blur", ["blur_2022", "blur_2025"])
def test_numbers_are_normal_by_the_rows_to_fit(script, blur):
    fit, stop, _ = script.parts(getattr(script, blur))
    levels = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9])
    normal = math.sqrt(2) * torch.erfinv(2 * levels - 1)
    for rows, tolerance in ((fit, 0.06), (stop, 0.12)):  # years and degrees are rounded
        found = rows.x.quantile(levels, dim=0)
        torch.testing.assert_close(found, normal[:, None].expand(-1, 8), rtol=0, atol=tolerance)


def test_a_finished_training_is_not_repeated_but_another_is(script, monkeypatch):
    monkeypatch.setattr(script, "PATIENCE", 1)
    small = replace(script.MODELS["MLP"], hidden=(4,))
    monkeypatch.setitem(script.MODELS, "MLP", small)
    found = script.run("MLP", 0)
    assert found["validation"] < 1.16  # the standard deviation of the target
    assert abs(found["test"] - found["validation"]) < 0.1
    file = Path("build/bench/california/MLP-0.json")
    file.write_text(json.dumps({**found, "test": 7.0}))
    assert script.run("MLP", 0)["test"] == 7.0
    monkeypatch.setitem(script.MODELS, "MLP", replace(small, dropout=0.0))
    assert script.run("MLP", 0)["test"] not in (7.0, found["test"])


@pytest.mark.parametrize(
    ("errors", "reached"), [([0.47, 0.48], True), ([0.48, 0.482], False), ([0.45], False)]
)
def test_reached_is_within_two_published_deviations(script, monkeypatch, errors, reached):
    monkeypatch.setattr(script, "run", lambda name, seed: {"test": errors[seed]})
    row = script.compared("PLR", range(len(errors)))
    assert (row["reached"], row["seeds"]) == (reached, len(errors))


@pytest.mark.slow
def test_quick(script, tmp_path):
    command = [sys.executable, SCRIPTS / "california.py", "--quick"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = json.loads((tmp_path / "build/bench/california_quick.json").read_text())["rows"]
    assert [row["seeds"] for row in rows] == [1]
    assert all(abs(row["away, sd"]) < 4 for row in rows)  # one seed is not a mean
