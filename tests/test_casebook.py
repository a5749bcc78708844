"""The table of cases names tests that exist, and none for what is not offered."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "tests" / "casebook.md").read_text(encoding="utf-8").splitlines()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES if line.startswith("| H")]
CASES = {row[0]: row for row in ROWS}
NAMED = [(case, path, name) for case in CASES for path, name in re.findall(r"`(\S+)::(\S+)`", CASES[case][2])]


@cache
def names_in(path):
    """Names of the tests in a file that are not skipped whatever happens."""
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    tests = [node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return {
        test.name for test in tests if not any("mark.skip(" in ast.unparse(d) for d in test.decorator_list)
    }


def test_every_case_has_one_row():
    assert [row[0] for row in ROWS] == [f"H{i:02}" for i in range(1, 41)]
    assert all(len(row) == 4 and row[1] for row in ROWS)


def test_every_test_named_exists():
    assert len(NAMED) > 80
    assert [one for one in NAMED if one[2] not in names_in(one[1])] == []


def test_what_is_tested_names_a_test_and_what_is_not_offered_none():
    for case, _, tests, status in ROWS:
        named = [one for one in NAMED if one[0] == case]
        assert len(named) == tests.count("::"), case  # nothing in the cell that is no test
        words = r"tested$|tested in part: \w|(\(i\) tested; \(ii\) )?not offered: \w"
        assert re.match(words, status), case
        assert bool(named) == (not status.startswith("not ")), case
    assert [row[0] for row in ROWS if "not offered" in row[3]] == ["H08", "H17"]
