"""What the benchmark scripts share: timing side by side, a printed table and a JSON file."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from results import common_form
from rich.console import Console
from rich.table import Table

FOLDER = Path("build/bench")


def alternate(
    functions: Mapping[str, Callable[[], Any]], repeats: int, pause: float = 0.0
) -> dict[str, float]:
    """Median seconds of every function; they take turns, so that a slow moment hits all of them.

    Args:
        functions: what to time, by name.
        repeats: how often each is timed.
        pause: seconds before each timing. Threads of one library (OpenBLAS's) spin for a while after
            their work and would take a core from the next one.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            time.sleep(pause)
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in seconds.items()}


def report(name: str, rows: list[dict[str, Any]], **columns: str) -> None:
    """Print rows as a table and write them to ``build/bench/NAME.json``, in the common form, too.

    Args:
        name: name of the file.
        rows: what was measured; equal keys in every row, one of them ``"reached"``, or rows that
            ``results.record`` made.
        **columns: ``value`` (the column of the number that counts), its ``unit``, ``what`` and ``against``,
            as ``results.common_form`` takes them.
    """
    results = common_form(rows, **columns)
    table = Table(*rows[0], title=name)
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    Console().print(table)
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = {"name": name, "python": platform.python_version(), "machine": platform.machine(), "rows": rows}
    found["results"] = results
    (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")
    if collected := os.environ.get("BENCH_RESULTS"):  # where the run of all scripts reads them
        with Path(collected).open("a") as file:
            file.write(json.dumps({"name": name, "results": results}) + "\n")


def against(what: str, ours: float, theirs: float, reach: float) -> dict[str, Any]:
    """One row: how many times faster than a peer, and whether that reaches what was promised."""
    return {
        "what": what,
        "tabembed, s": ours,
        "peer, s": theirs,
        "times faster": theirs / ours,
        "promised": f">= {reach:g}",
        "reached": theirs / ours >= reach,
    }


def below(what: str, value: float, limit: float, unit: str) -> dict[str, Any]:
    """One row: a value and its limit."""
    return {
        "what": what,
        f"value, {unit}": value,
        "promised": f"< {limit:g}",
        "reached": value < limit,
    }
