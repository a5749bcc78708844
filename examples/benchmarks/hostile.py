"""Hostile model folders: each one loads, or raises the one error, within a bound of time and of memory.

python examples/benchmarks/hostile.py [--quick] [--count N] [--seed N] [--one NUMBER]

A process of its own loads them, so that one that ends it is a number in the table and no end of the run.
Seconds are the process's own. Memory is the growth of its peak: pages it holds, and, where that is more, what
it has asked for.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measure import report
from mutations import CONFIG, MODEL, Model, lay_out, mutation
from results import record

SECONDS, MEMORY, FACTOR = 1.0, 64 * 2**20, 4
"""What a load may take: seconds, bytes, and times the size of the files on top."""
PATIENCE = 20
"""Seconds after which a load counts as one that never ends."""
FORBIDDEN = (
    "os.system",
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "compile",
    "exec",
    "import",
)
FORBIDDEN += (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.symlink",
    "shutil.rmtree",
    "socket.connect",
    "pickle.find_class",
)


def table() -> pd.DataFrame:
    """Forty rows of every kind of column."""
    rng = np.random.default_rng(0)
    rows = 40
    return pd.DataFrame(
        {
            "who": rng.choice(["ann", "bob", "cy"], rows),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(rows) * 3, "h"),
            "city": rng.choice(["Oslo", "Rome", None], rows),
            "size": pd.Categorical(rng.choice(["s", "m"], rows), categories=["s", "m"], ordered=True),
            "code": rng.integers(0, 4, rows),
            "paid": rng.choice([True, False], rows),
            "km": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows).round(2)),
            "age": rng.integers(18, 80, rows),
            "tags": [["a", "b"][: n % 3] for n in range(rows)],
        }
    )


def save_models(folder: Path) -> None:
    """Fit and save a small model of every class, of some in several forms."""
    import tabembed as tb

    frame = table()
    columns = frame.drop(columns="who")
    specs = {"code": tb.Categorical(), "age": tb.Continuous(scaler="quantile")}
    target = (frame["km"].fillna(0) > 0).map({True: "yes", False: "no"})
    quick = {"max_iter": 1, "hidden_layer_sizes": (6, 4)}
    periodic = partial(tb.PeriodicEmbedding.from_columns, n_frequencies=3, d_embedding=2)
    models = {
        "table": tb.TableEncoder(specs).fit(columns),
        "sequences": tb.SequenceEncoder("who", "when", specs, observed=["paid"]).fit(frame),
        "embedder": tb.TableEmbedder(tb.TableEncoder(specs), **quick).fit(columns, target),
        "periodic": tb.TableEmbedder(None, periodic, time=tb.TimeEmbedding, **quick).fit(
            columns, frame["age"]
        ),
        "alone": tb.TableEmbedder(**quick).fit(columns),
    }
    for name in ("rotary", "gru", "learned"):
        encoder = tb.SequenceEncoder("who", "when", specs, observed=["paid"])
        clock = "index" if name == "learned" else "time"
        short = {"max_iter": 1, "num_layers": 1, "d_model": 16, "clock": clock, "position": name}
        models[name] = tb.SequenceEmbedder(encoder, **short).fit(frame, target)
    for name, model in models.items():
        model.save(folder / name)


def read_models(folder: Path) -> list[Model]:
    """What ``save_models`` wrote."""
    return [Model.of(path.name, path) for path in sorted(folder.iterdir())]


def load(folder: Path) -> tuple[str, Any]:
    """Load a folder: what became of it, and the model or the words."""
    import tabembed

    try:
        return "loaded", tabembed.load(folder)
    except tabembed.ArtifactError as error:
        return ("over memory" if _wanted_memory(error) else "refused"), str(error)
    except BaseException as error:  # what it should never be
        return "crashed", repr(error)


def use(model: Any, frame: pd.DataFrame) -> str:
    """Transform a table by a loaded model: empty words, or an error that is no user's."""
    try:
        model.transform(columns_of(model, frame))
        repr(model)
    except (ValueError, TypeError) as error:
        return "over memory" if _wanted_memory(error) else ""
    except BaseException as error:
        return f"transform: {error!r:.300}"
    return ""


def columns_of(model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that a model has been fitted on, where there are such."""
    names = set(map(str, getattr(model, "feature_names_in_", [])))
    return frame[[name for name in frame if name in names]]


def _wanted_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError) or "allocate" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


class Watch:
    """Seconds and bytes of what runs inside, and what it did that no load may do."""

    def __init__(self) -> None:
        self.on, self.seen = False, []
        sys.addaudithook(self._hear)

    def __enter__(self) -> Watch:
        self.seen = []
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
        self._held, self._asked = _memory("VmRSS"), _memory("VmPeak")
        self._start, self.on = time.process_time(), True
        signal.alarm(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self.on = False
        signal.alarm(0)
        self.seconds = time.process_time() - self._start
        self.memory = max(_memory("VmHWM") - self._held, _memory("VmPeak") - self._asked)

    def _hear(self, event: str, args: tuple) -> None:
        if self.on and (event in FORBIDDEN or (event == "open" and not _is_read(args))):
            self.seen.append(f"{event} {args!r:.100}")


def _is_read(args: tuple) -> bool:
    path, _, flags = args
    if isinstance(path, int):  # a file that is open already
        return True
    return not (flags or 0) & 0o3 and Path(str(path)).name in (CONFIG, MODEL, "model")


def _memory(key: str) -> int:
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(key))
    return int(line.split()[1]) * 1024


def work(models: list[Model], seed: int, numbers: range) -> Iterator[dict[str, Any]]:
    """Load and use every mutation of these numbers."""
    frame, watch = table(), Watch()
    with tempfile.TemporaryDirectory() as place:
        for model in models:  # nothing is imported or built for the first time later on
            lay_out(dict(model.raw), Path(place) / "model")
            for _ in range(2):
                loaded = load(Path(place) / "model")[1]
                loaded.transform(columns_of(loaded, frame))
            shutil.rmtree(Path(place) / "model")
        limit = _memory("VmSize") + 2**32
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for number in numbers:
            model, what, files = mutation(models, seed, number)
            folder = Path(place) / "model"
            lay_out(files, folder)
            size = sum(
                one.lstat().st_size for one in folder.iterdir() if one.is_file() and not one.is_symlink()
            )
            with watch:
                outcome, found = load(folder)
            row = {
                "number": number,
                "model": model.name,
                "what": what,
                "outcome": outcome,
                "words": str(found),
            }
            row |= {"seconds": watch.seconds, "memory": watch.memory, "size": size, "seen": watch.seen}
            if outcome == "loaded":
                row["words"] = ""
                with watch:
                    words = use(found, frame)
                row |= {"outcome": "crashed" if words else outcome, "words": words}
            yield row
            del found
            shutil.rmtree(place)
            Path(place).mkdir()


def run(models: Path, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """All mutations, in a process that is started again where one has ended it."""
    done = 0
    while done < count:
        command = [
            sys.executable,
            __file__,
            "--work",
            str(models),
            "--seed",
            str(seed),
            "--count",
            str(count),
        ]
        command += ["--start", str(done)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
        ) as process:
            for line in process.stdout or ():
                yield json.loads(line)
                done += 1
        if done < count:
            yield {
                "number": done,
                "model": "",
                "what": "",
                "outcome": "crashed",
                "words": f"exit {process.returncode}",
            }
            done += 1


def over(row: dict[str, Any]) -> dict[str, bool]:
    """Which bounds a load has broken."""
    return {
        "over time": row.get("seconds", 0) > SECONDS,
        "over memory": row["outcome"] == "over memory"
        or row.get("memory", 0) > MEMORY + FACTOR * row["size"],
        "touched": bool(row.get("seen")),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    count = given.count or (500 if given.quick else 12_000)
    warnings.simplefilter("ignore")
    if given.work:
        for row in work(read_models(given.work), given.seed, range(given.start, count)):
            print(json.dumps(row), flush=True)
        return
    counts: Counter[str] = Counter()
    slowest = largest = 0.0
    with tempfile.TemporaryDirectory() as models:
        save_models(Path(models))
        for row in run(Path(models), given.seed, count):
            broken = [name for name, is_broken in over({"size": 0, **row}).items() if is_broken]
            counts.update(["mutations", row["outcome"], *(name for name in broken if name != row["outcome"])])
            slowest = max(slowest, row.get("seconds", 0))
            largest = max(largest, row.get("memory", 0) - FACTOR * row.get("size", 0))
            if broken or row["outcome"] not in ("loaded", "refused"):
                found = f"{row['outcome']} {broken} {row['words'][:300]} {row.get('seen', '')}"
                took = f"{row.get('seconds', 0):.2f} s {row.get('memory', 0) / 2**20:.0f} MB"
                print(f"{row['number']} {row['model']} {row['what'][:150]}: {found} {took}")
    report(
        "hostile",
        [
            record(
                "mutations of model folders",
                value=counts["mutations"],
                reach="" if given.quick else ">= 10000",
            ),
            record("of these loaded, and used", value=counts["loaded"]),
            record("of these refused", value=counts["refused"]),
            record("of these crashed, at the load or in use", value=counts["crashed"], reach="<= 0"),
            record("of these touched anything else", value=counts["touched"], reach="<= 0"),
            record("of these over the bound of time", value=counts["over time"], reach="<= 0"),
            record("of these over the bound of memory", value=counts["over memory"], reach="<= 0"),
            record("slowest load", value=slowest, unit="s", reach="<= 1"),
            record("most memory beyond 4 × the files", value=largest / 2**20, unit="MB", reach="<= 64"),
        ],
    )


if __name__ == "__main__":
    main()
