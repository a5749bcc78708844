"""The rules of CONTRIBUTING.md, "The house", that a program can check. Every one is shown to fail, too."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tabembed

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tabembed"

GROUND = "ground"
FLOORS = {
    GROUND: 0,
    "functional": 1,
    "kernels": 2,
    "nn": 3,
    "table": 3,
    "sequence": 4,
    "training": 5,
    "estimators": 6,
    "cli": 7,
    "plot": 7,
    "distributed": 7,
}
GROUND_FILES = {"schema", "batch", "artifact", "datasets", "_checks", "_progress"}
FRONT_DOOR = "tabembed"
CODE_LINES, ARGUMENTS = 200, 8
# The exceptions stand in CONTRIBUTING.md, "Words", too, with the same reasons.
WIDE = {"SequenceEmbedding": 10}
"""Arguments of a constructor that takes more than eight.

It is a whole network: one class for every position scheme and the recurrence, so that a user compares them by
a word, and ``embedding``, ``pooling`` and ``causal`` mean the same in each of them.
"""
BY_POSITION = {"SequenceEncoder": 3}
"""Arguments by position of a constructor that takes more than two.

Here entity, time and columns: no table is read without the first two, and columns is what ``TableEncoder``
takes first.
"""
FORWARD = 8
"""Statements of ``forward``, those inside of others counted: what a module does is seen at one glance."""
BAD_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "tmp", "data", "info", "misc"}
GLOBAL_STATE = {
    "torch.manual_seed",
    "torch.seed",
    "torch.set_default_dtype",
    "torch.set_default_device",
    "torch.set_num_threads",
    "random.seed",
    "np.random.seed",
    "numpy.random.seed",
    "pd.set_option",
    "pandas.set_option",
    "warnings.filterwarnings",
    "warnings.simplefilter",
}

RESTORED = {("training/modes.py", "torch.set_num_threads")}
"""Global state that one file changes and puts back: one thread gives the same numbers anywhere."""


def sources(package: Path) -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(package.rglob("*.py")):
        yield file.relative_to(package), ast.parse(file.read_text(), str(file))


def room(parts: tuple[str, ...]) -> str:
    """The room of a module, given its dotted name without the package's own."""
    if not parts:
        return FRONT_DOOR
    return GROUND if parts[0] in GROUND_FILES else parts[0]


def imported(file: Path, node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Modules of the package that a statement imports, as parts after ``tabembed``."""
    if isinstance(node, ast.Import):
        names = [alias.name.split(".") for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        here = [FRONT_DOOR, *file.parts[:-1]]
        base = here[: len(here) - node.level + 1] if node.level else []
        names = [[*base, *filter(None, (node.module or "").split(".")), alias.name] for alias in node.names]
    else:
        return
    for first, *rest in names:
        if first != FRONT_DOOR or not rest or rest[0].startswith("__"):
            continue
        home = tabembed._HOMES.get(rest[0])  # `from tabembed import TableEncoder` enters the table room
        yield tuple(home.split(".")[1:]) if home else tuple(rest)


def floor_breaches(package: Path) -> list[str]:
    found = []
    for file, tree in sources(package):
        here = room(file.with_suffix("").parts) if file != Path("__init__.py") else FRONT_DOOR
        if here == FRONT_DOOR:  # the front door may name every room
            continue
        if here not in FLOORS:
            found.append(f"{file}: stands on no floor")
            continue
        for node in ast.walk(tree):
            for parts in imported(file, node):
                there = room(parts)
                if there != here and FLOORS.get(there, 99) >= FLOORS[here]:
                    found.append(f"{file}:{node.lineno}: {here} must not import {there}")
    return found


def asserts(package: Path) -> list[str]:
    return [
        f"{file}:{node.lineno}"
        for file, tree in sources(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]


def long_files(package: Path) -> list[str]:
    found = []
    for file, tree in sources(package):
        prose = {
            line
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        lines = (package / file).read_text().splitlines()
        code = [n for n, line in enumerate(lines, 1) if n not in prose and line.split("#")[0].strip()]
        if len(code) > CODE_LINES:
            found.append(f"{file}: {len(code)} lines of code")
    return found


def wide_constructors(package: Path) -> list[str]:
    found = []
    for file, tree in sources(package):
        if file.parts[0] == "estimators":
            continue
        for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            for node in owner.body:
                if not isinstance(node, ast.FunctionDef) or node.name != "__init__":
                    continue
                given = node.args
                count = len(given.posonlyargs + given.args + given.kwonlyargs) - 1
                if count > WIDE.get(owner.name, ARGUMENTS) or given.kwarg:
                    found.append(f"{file}:{node.lineno}: {owner.name} takes {count} arguments")
                inner = owner.name.startswith("_") or file.parts[0] == "training"
                allowed = BY_POSITION.get(owner.name, 2)
                if not inner and len(given.posonlyargs + given.args) - 1 > allowed:
                    found.append(f"{file}:{node.lineno}: {owner.name} takes more than two by position")
    return found


def long_forwards(package: Path) -> list[str]:
    found = []
    for file, tree in sources(package):
        for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            for node in owner.body:
                if not isinstance(node, ast.FunctionDef) or node.name != "forward":
                    continue
                body = node.body[ast.get_docstring(node) is not None :]
                count = sum(isinstance(one, ast.stmt) for part in body for one in ast.walk(part))
                if count > FORWARD:
                    found.append(f"{file}:{node.lineno}: {owner.name}.forward has {count} statements")
    return found


def bad_names(package: Path) -> list[str]:
    return [str(path) for path in sorted(package.rglob("*")) if path.stem in BAD_NAMES]


def pickles_and_global_state(package: Path) -> list[str]:
    found = []
    for file, tree in sources(package):
        for node in ast.walk(tree):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module] if isinstance(node, ast.ImportFrom) else []
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if (file.as_posix(), called) in RESTORED:
                continue
            if {"pickle", "joblib", "cloudpickle"} & set(named) or called in GLOBAL_STATE | {"torch.load"}:
                found.append(f"{file}:{node.lineno}: {called or named[0]}")
    return found


RULES: list[tuple[Callable[[Path], list[str]], str, str]] = [
    (floor_breaches, "nn/planted.py", "from tabembed.table import frame"),
    (floor_breaches, "table/planted.py", "def late():\n    import tabembed.nn.entity"),
    (floor_breaches, "functional/planted.py", "from ..kernels import gather"),
    (floor_breaches, "schema.py", "from . import estimators"),
    (floor_breaches, "training/planted.py", "from tabembed import TableEmbedder"),
    (floor_breaches, "attic/planted.py", "x = 1"),
    (asserts, "nn/planted.py", "def f(x):\n    assert x"),
    (long_files, "nn/planted.py", "x = 1\n" * (CODE_LINES + 1)),
    (
        wide_constructors,
        "nn/planted.py",
        "class A:\n    def __init__(self, a, *, b, c, d, e, f, g, h, i): ...",
    ),
    (wide_constructors, "nn/planted.py", "class A:\n    def __init__(self, a, **kwargs): ..."),
    (wide_constructors, "nn/planted.py", "class A:\n    def __init__(self, a, b, c): ..."),
    (
        long_forwards,
        "nn/planted.py",
        "class A:\n    def forward(self, x):\n        'Doc.'\n        if x:\n"
        + "            x += 1\n" * FORWARD,
    ),
    (bad_names, "nn/utils.py", ""),
    (bad_names, "common/planted.py", ""),
    (pickles_and_global_state, "nn/planted.py", "import pickle"),
    (pickles_and_global_state, "nn/planted.py", "import torch\ntorch.manual_seed(0)"),
]


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, _, _ in RULES))
def test_the_package_keeps_the_rule(rule):
    assert rule(PACKAGE) == []


@pytest.mark.parametrize(("rule", "name", "text"), RULES)
def test_a_planted_breach_is_found(rule, name, text, tmp_path):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert len(rule(tmp_path)) == 1


def test_imports_down_and_within_a_room_are_allowed(tmp_path):
    (tmp_path / "training").mkdir()
    lines = [
        "from tabembed.nn import TableEmbedding",
        "from . import loop",
        "from tabembed import __version__",
    ]
    lines += ["from tabembed import TableEncoder", "import tabembed", "from tabembed.schema import PADDING"]
    (tmp_path / "training" / "fine.py").write_text("\n".join(lines))
    assert floor_breaches(tmp_path) == []


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh process has loaded after a statement."""
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split())


HEAVY = {"torch", "numpy", "pandas", "pyarrow", "sklearn", "scipy", "polars", "triton", "matplotlib"}


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import tabembed", HEAVY),
        ("import tabembed.schema", HEAVY),
        ("import tabembed.datasets", HEAVY),
        ("import tabembed.artifact", HEAVY - {"numpy"}),
        ("import tabembed.cli", HEAVY),
        ("import tabembed.batch", HEAVY - {"torch", "numpy"}),
        ("import tabembed.nn", HEAVY - {"torch", "numpy"}),
        ("import tabembed; tabembed.plot.EmbeddingDisplay", {"matplotlib"}),
        ("from tabembed import TableEmbedding", HEAVY - {"torch", "numpy"}),
    ],
)
def test_imports_are_cold(statement, banned):
    assert loaded_by(statement) & banned == set()


def test_a_warm_import_is_found():
    assert {"pandas", "torch"} <= loaded_by(
        "import tabembed, pandas\nfrom tabembed import TableBatch"
    ) & HEAVY


def test_every_public_name_is_there():
    for name in tabembed.__all__:
        assert getattr(tabembed, name).__doc__, name
        assert name in dir(tabembed)
    with pytest.raises(AttributeError, match="module 'tabembed' has no attribute 'TableEncodr'"):
        tabembed.TableEncodr  # noqa: B018


def test_text_names_no_place_outside_the_project():
    texts = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.txt"), ROOT / "Makefile"]
    for folder in (PACKAGE, ROOT / "examples", ROOT / "notebooks"):
        texts += [file for ending in ("py", "md", "ipynb") for file in folder.rglob(f"*.{ending}")]
    outside = ["/work" + "/", "/root" + "/", "../sha" + "red", "/tmp" + "/", "/opt" + "/"]
    found = [f"{file.name}: {place}" for file in texts for place in outside if place in file.read_text()]
    assert len(texts) > 10
    assert found == []
