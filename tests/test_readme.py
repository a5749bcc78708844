"""The README's Python blocks run, from top to bottom, as one program in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[str]:
    """Every block, moved down to its line in the file, so that an error points at it."""
    return ["\n" * text[: match.start(1)].count("\n") + match[1] for match in BLOCK.finditer(text)]


def run(text: str) -> dict:
    namespace: dict = {"__name__": "__main__"}
    for block in blocks(text):
        exec(compile(block, str(README), "exec"), namespace)
    return namespace


def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = README.read_text()
    assert blocks(text)
    run(text)


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_shows_the_two_commands(command):
    assert command in README.read_text()


def test_blocks_share_names_and_errors_name_the_line():
    text = (
        "# Title\n```python\na = 1\n```\ntext\n```console\n$ tabembed demo\n```\n```python\nb = a + 1\n```\n"
    )
    assert run(text)["b"] == 2
    with pytest.raises(ZeroDivisionError) as caught:
        run(text + "```python\n1 / 0\n```\n")
    assert caught.traceback[-1].lineno + 1 == 13
