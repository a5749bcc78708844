"""The README's Python runs, top to bottom, as one program in an empty folder; pages name what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from tabembed.cli import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
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


def absent_files(text: str) -> list[str]:
    """Files that a page names and that are neither in the repository nor in the package."""
    named = re.findall(r"`([\w/*.]+\.(?:py|ipynb|md|toml|txt))`", text)
    return [name for name in named if not any(ROOT.glob(name)) and not any((ROOT / "tabembed").rglob(name))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_are_there(page):
    assert absent_files(page.read_text()) == []


def test_an_absent_file_is_found():
    text = "`examples/quickstart.py`, `nn/linear.py`, `linear.py`, `nn/linaer.py`, `gone.ipynb`"
    assert absent_files(text) == ["nn/linaer.py", "gone.ipynb"]


def unknown_options(text: str) -> list[str]:
    """Options of ``tabembed`` in a page's commands that the command does not take."""
    commands, found = get_command(app).commands, []
    for name, rest in re.findall(r"^tabembed (\w+)(.*)$", text, re.MULTILINE):
        known = {option for parameter in commands[name].params for option in parameter.opts}
        shown = re.findall(r" (--?[a-z][\w-]*)", rest)
        found += [f"{name} {option}" for option in shown if option not in known]
    return found


def test_the_readme_shows_options_that_are_there():
    assert re.search("^tabembed fit .* --observed", README.read_text(), re.MULTILINE)
    assert unknown_options(README.read_text()) == []


def test_an_unknown_option_is_found():
    assert unknown_options("tabembed fit a.csv --target b --entitty c -o d\n") == ["fit --entitty"]
