"""How benchmarks hand their numbers on, and how one run of all makes one table of them."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HERE = ROOT / "examples" / "benchmarks"
SLEEPER = (
    "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
)
RESULT = """
from measure import report
from results import record
if __name__ == "__main__":
    report("small", [record("rows", value=2, unit="×", against="a [peer]", reach=">= 1"),
                     record("more", value=3, unit="s", reach="< 1"), record("bare", value=4)])
"""


@pytest.fixture
def here(monkeypatch):
    """The modules that the scripts share, and the one that runs them."""
    monkeypatch.syspath_prepend(str(HERE))
    names = ("measure", "results", "readme_block")
    for name in names:
        sys.modules.pop(name, None)
    spec = importlib.util.spec_from_file_location("benchmarks_main", HERE / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in names:
        sys.modules.pop(name, None)


def results():
    return sys.modules["results"] if "results" in sys.modules else importlib.import_module("results")


@pytest.mark.parametrize(
    ("value", "reach", "met"),
    [
        (8, ">= 8", True),
        (7.9, ">= 8", False),
        (0.1, "< 0.1", False),
        (2e6, ">= 1,000,000", True),
        (1, "", None),
    ],
)
def test_a_number_is_held_to_what_was_promised(here, value, reach, met):
    assert results().record("x", value=value, reach=reach)["met"] is met


def test_a_promise_in_other_words_needs_its_answer(here):
    assert results().record("x", value=1.0, reach="bit-equal", met=True)["met"] is True
    with pytest.raises(ValueError, match="reach must begin with one of >=, <=, >, <"):
        results().record("x", value=1.0, reach="bit-equal")


def test_rows_of_every_kind_have_one_form(here):
    measure, common = sys.modules["measure"], results().common_form
    rows = [measure.against("fit", 1.0, 4.0, 3), measure.below("rest", 0.5, 0.1, "ms")]
    assert common(rows, against="a peer") == [
        results().record("fit", value=4, unit="×", against="a peer", reach=">= 3"),
        results().record("rest", value=0.5, unit="ms", against="a peer", reach="< 0.1"),
    ]
    row = {"step": "fit", "ratio": 2, "peer": "it", "promised": "within", "reached": True}
    found = common([row], what="{step} of all", value="ratio", unit="×", against="{peer}")
    assert found == [
        results().record("fit of all", value=2, unit="×", against="it", reach="within", met=True)
    ]
    assert (
        common([{"what": "x", "n": None, "promised": "> 1", "reached": "not timed"}], value="n")[0]["met"]
        is None
    )
    with pytest.raises(ValueError, match="value must name the column of the number"):
        common([{"what": "x", "n": 1}])


def made(here, monkeypatch, tmp_path, **scripts):
    """A folder of scripts that stands in the place of the benchmarks."""
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(here, "scripts", lambda: {name: tmp_path / f"{name}.py" for name in scripts})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def test_one_that_fails_and_one_that_hangs_do_not_stop_the_others(here, monkeypatch, tmp_path, capsys):
    made(
        here,
        monkeypatch,
        tmp_path,
        bad="raise ValueError('the reason')",
        slow=SLEEPER + "time.sleep(60)",
        good=RESULT,
    )
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--limit", "20", "--only", "bad,good"])
    with pytest.raises(SystemExit) as ended:
        here.main()
    assert ended.value.code == 1
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--limit", "0.5", "--only", "slow"])
    with pytest.raises(SystemExit):
        here.main()
    found = json.loads(Path("build/bench/all.json").read_text())
    assert {name: one["outcome"] for name, one in found["scripts"].items()} == {
        "bad": "failed (1)",
        "good": "done",
        "slow": "over 0.5 s",
    }
    assert found["scripts"]["slow"]["seconds"] < 30
    assert [one["met"] for one in found["scripts"]["good"]["results"]] == [True, False, None]
    assert {"python", "torch", "numpy", "pandas", "scikit-learn", "pyarrow"} <= set(found["versions"])
    text = capsys.readouterr().out
    assert "the reason" in text
    assert "1 of 2 reached" in text


def test_the_reduced_form_is_asked_for_where_there_is_one(here, monkeypatch, tmp_path):
    (tmp_path / "plain.py").write_text("import sys; print(sys.argv[1:])")
    (tmp_path / "both.py").write_text('import sys\nif sys.argv[1:] != ["--quick"]: sys.exit(3)')
    assert here.run(tmp_path / "plain.py", True, 60)["form"] == "full"
    assert here.run(tmp_path / "both.py", True, 60)["form"] == "--quick"
    assert here.run(tmp_path / "both.py", False, 60)["outcome"] == "failed (3)"


def test_every_script_is_found(here):
    known = here.scripts()
    assert {"table", "adult", "quality", "gather"} <= set(known)
    assert not {"measure", "results", "readme_block", "__main__"} & set(known)
    assert here.has_quick(known["quality"])
    assert not here.has_quick(known["table"])


def numbers():
    one = {
        "table": "t",
        "what": "a|b",
        "against": "p",
        "value": 9.21,
        "unit": "×",
        "reach": ">= 8",
        "met": True,
    }
    many = [{**one, "table": "many", "met": i > 1} for i in range(9)]
    script = {
        "outcome": "done",
        "form": "--quick",
        "date": "2026-01-02",
        "results": [one, {**one, "reach": ""}, *many],
    }
    failed = {**script, "outcome": "failed (1)", "form": "full", "results": [], "date": "2026-01-03"}
    versions = {"python": "3.11", "torch": "2"}
    return {"date": "2026-01-03", "cores": 2, "machine": "x", "versions": versions} | {
        "scripts": {"table": script, "bad": failed}
    }


def has_the_form(block):
    """A table of five columns, and a line that says when, on what and with which versions."""
    lines = block.strip().splitlines()
    rows = lines[2:-2]
    return (
        lines[0] == "| what | against | number | reach | met |"
        and bool(rows)
        and all(re.fullmatch(r"\|[^|]+\|[^|]*\|[^|]*\|[^|]*\| (yes|no|-|\d+ of \d+) \|", row) for row in rows)
        and re.match(r"Measured on 20\d\d-\d\d-\d\d.* on \d+ cores .*: python 3[.\d]+, .*torch \d", lines[-1])
        is not None
    )


def test_the_block_of_the_readme(here):
    block = sys.modules["readme_block"]
    text = block.with_block(f"before\n{block.BEGIN}\nold\n{block.END}\nafter\n", numbers())
    assert text.startswith(f"before\n{block.BEGIN}\n| what |")
    assert text.endswith(f"{block.END}\nafter\n")
    inside = text.split(block.BEGIN)[1].split(block.END)[0]
    assert has_the_form(inside)
    assert inside.strip().splitlines()[2:] == [
        "| t: a/b | p | 9.21 × | >= 8 | yes |",
        "| many: 9 numbers |  |  |  | 7 of 9 |",
        "| bad |  | failed (1) |  | no |",
        "",
        "Measured on 2026-01-02 to 2026-01-03 on 2 cores (x): python 3.11, torch 2;"
        " in a reduced form: table.",
    ]
    assert block.with_block(text, numbers()) == text
    with pytest.raises(ValueError, match="README must hold one block from .* got 0"):
        block.with_block("nothing", numbers())


def test_the_numbers_in_the_readme_have_the_form(here):
    block = sys.modules["readme_block"]
    text = (ROOT / "README.md").read_text()
    assert text.count(block.BEGIN) == text.count(block.END)
    for part in text.split(block.BEGIN)[1:]:
        assert has_the_form(part.split(block.END)[0])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not measured"),
        (float("nan"), "not measured"),
        (0.0, "0 s"),
        (1234.5, "1,234 s"),
        (1e-9, "1e-09 s"),
    ],
)
def test_numbers_are_told_to_three_digits(here, value, text):
    assert sys.modules["readme_block"].number({"value": value, "unit": "s"}) == text
