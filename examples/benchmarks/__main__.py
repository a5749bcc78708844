"""Every benchmark in a form that takes minutes, and one table of what they reported.

python examples/benchmarks                    (needs `make data`; less than 20 minutes on two cores)
python examples/benchmarks --only table,gather
python examples/benchmarks --full             (as the scripts stand: hours)
python examples/benchmarks --readme           (runs nothing: writes the table of the last run into README.md)

A script runs in a process of its own, with ``--quick`` where it has that, and for 300 seconds at most, all of
them together for less than 20 minutes; one that fails does not stop the others. build/bench/all.json has what
all of them handed on (``results.py``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from measure import FOLDER
from readme_block import number, with_block
from rich.console import Console
from rich.markup import escape
from rich.table import Table

HERE = Path(__file__).parent
ALL, README = FOLDER / "all.json", Path("README.md")
LIMIT, ALTOGETHER = 300, 1_170  # seconds
PACKAGES = (
    *("tabembed", "torch", "numpy", "pandas", "pyarrow", "scikit-learn", "torchembed", "rtdl_num_embeddings"),
    *("diffusers", "skrub", "category_encoders", "catboost", "dask"),
)


def scripts() -> dict[str, Path]:
    """What can be run, by name: files with a ``main``, and the folder of the benchmark of encodings."""
    found = {file.stem: file for file in sorted(HERE.glob("*.py")) if file.name != "__main__.py"}
    found = {name: file for name, file in found.items() if 'if __name__ == "__main__":' in file.read_text()}
    return found | {"quality": HERE / "quality"}


def has_quick(script: Path) -> bool:
    file = script / "__main__.py" if script.is_dir() else script
    return '"--quick"' in file.read_text()


def run(script: Path, quick: bool, limit: float | None) -> dict[str, Any]:
    """Run one script; what it handed on, how long it took, and the end of what it printed if it failed."""
    command = [sys.executable, str(script), *(["--quick"] if quick and has_quick(script) else [])]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        collected, printed = Path(folder) / "results", Path(folder) / "printed"
        environment = os.environ | {"BENCH_RESULTS": str(collected)}
        with printed.open("w") as file:
            process = subprocess.Popen(
                command, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                code: int | None = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:  # with whatever it has started
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        lines = collected.read_text().splitlines() if collected.exists() else []
        end = printed.read_text(errors="replace")[-2000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    results = [{"table": part["name"], **one} for part in map(json.loads, lines) for one in part["results"]]
    failed = code != 0 and not (code == 1 and results)  # some end with 1 where a number is not reached
    outcome = f"over {limit:.3g} s" if code is None else f"failed ({code})" if failed else "done"
    return {
        "outcome": outcome,
        "form": " ".join(command[2:]) or "full",
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(sum(after[:2]) - sum(before[:2]), 1),
        "date": datetime.now(UTC).date().isoformat(),
        "results": results,
        **({} if outcome == "done" else {"printed": end}),
    }


def surroundings() -> dict[str, Any]:
    """What the numbers were measured with."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    date = datetime.now(UTC).date().isoformat()
    return {"date": date, "cores": cores, "machine": platform.machine(), "versions": versions}


def show(found: dict[str, Any]) -> None:
    """Print one table of everything, and what failed."""
    table = Table("script", "what", "against", "number", "reach", "met", title="benchmarks")
    for name, script in found["scripts"].items():
        for one in script["results"]:
            met = {True: "yes", False: "[bold]no[/]", None: "-"}[one["met"]]
            words = (name, one["what"], one["against"], number(one), one["reach"])
            table.add_row(*map(escape, words), met)
        if script["outcome"] != "done":
            table.add_row(name, f"[bold]{script['outcome']}[/]", end_section=True)
    console = Console()
    console.print(table)
    for name, script in found["scripts"].items():
        if script["outcome"] != "done":
            console.print(f"{name}: {script['outcome']}\n{script.get('printed', '')}", markup=False)
    promised = [one["met"] for script in found["scripts"].values() for one in script["results"]]
    seconds = sum(script["seconds"] for script in found["scripts"].values())
    met, kept = promised.count(True), promised.count(True) + promised.count(False)
    console.print(f"{met} of {kept} reached; {seconds / 60:.1f} minutes; {ALL}")


def arguments() -> argparse.Namespace:
    known = scripts()
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", help=f"some of {', '.join(known)}; the others keep their last numbers")
    parser.add_argument("--full", action="store_true", help="as the scripts stand, without a limit of time")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds for a script ({LIMIT})")
    parser.add_argument("--readme", action="store_true", help="only write the last table into README.md")
    asked = parser.parse_args()
    asked.only = known if asked.only is None else asked.only.split(",")
    if unknown := [name for name in asked.only if name not in known]:
        parser.error(f"--only must be of {', '.join(known)}, got {', '.join(unknown)}")
    return asked


def main() -> None:
    asked = arguments()
    old = json.loads(ALL.read_text()) if ALL.exists() else {"scripts": {}}
    if asked.readme:
        README.write_text(with_block(README.read_text(), old))
        return
    known = scripts()
    kept = [name for name in known if name in old["scripts"] and name not in asked.only]
    found = surroundings() | {"scripts": {name: old["scripts"][name] for name in kept}}
    FOLDER.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + ALTOGETHER
    for i, name in enumerate(asked.only, 1):
        print(f"[{i}/{len(asked.only)}] {name} ", end="", flush=True)
        left = min(asked.limit, max(end - time.monotonic(), 1.0))
        one = run(known[name], not asked.full, None if asked.full else left)
        print(f"{one['outcome']}, {one['form']}: {one['seconds']:.0f} s", flush=True)
        found["scripts"][name] = one
        ALL.write_text(json.dumps(found, indent=2) + "\n")  # what is there, should the run be cut short
    show(found)
    sys.exit(any(found["scripts"][name]["outcome"] != "done" for name in asked.only))


if __name__ == "__main__":
    main()
