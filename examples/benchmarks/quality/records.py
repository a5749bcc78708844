"""What was measured, one JSON file for a table, an encoder and a seed.

So a run that was cut short goes on where it was. A record says which code made it: a fingerprint of this
benchmark's files, and for tabembed of the package, too. Formatting and docstrings do not count.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from encoders import OURS

import tabembed

FOLDER = Path("build/quality")
HERE = Path(__file__).parent
PROTOCOL = ("tables.py", "models.py", "run.py")
ROOMS = ("nn", "table", "training", "estimators", "functional")
Record = dict[str, Any]


def path(folder: Path, table: str, encoder: str, seed: int) -> Path:
    return folder / f"{table}-{encoder}-{seed}.json"


def write(folder: Path, record: Record) -> None:
    """Write a record whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    file = path(folder, record["table"], record["encoder"], record["seed"])
    unfinished = file.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(record, indent=1) + "\n")
    unfinished.replace(file)


def read(folder: Path) -> list[Record]:
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*-*-*.json"))]


def is_done(folder: Path, table: str, encoder: str, seed: int, *, again: Iterable[str] = ()) -> bool:
    """Whether the record is there; of the encoders named in ``again``, one of other code does not count."""
    file = path(folder, table, encoder, seed)
    if not file.exists():
        return False
    return encoder not in again or json.loads(file.read_text())["code"] == code(encoder)


@cache
def code(encoder: str) -> str:
    """Fingerprint of the code behind a record of this encoder."""
    own = {OURS: ["encoders.py"], "entity": ["entity.py"]}.get(encoder, ["peers.py"])
    files = [HERE / name for name in (*PROTOCOL, *own)]
    if encoder == OURS:
        package = Path(tabembed.__file__).parent
        files += sorted(file for room in ROOMS for file in (package / room).glob("*.py"))
    return fingerprint(files)


def fingerprint(files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [part for part in body if not _is_prose(part)]  # type: ignore[attr-defined]
        found.update(ast.dump(tree).encode())
    return found.hexdigest()[:16]


def _is_prose(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
