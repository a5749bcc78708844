"""Is a learned encoding better than the ones people use? Nine tables, nine encoders, three models.

python examples/benchmarks/quality                       (needs `make data`; about an hour on two cores)
python examples/benchmarks/quality --quick               (three tables, one seed, 2,000 rows: three minutes)
python examples/benchmarks/quality --tables adult,ames --encoders tabembed,onehot --seeds 2
python examples/benchmarks/quality --again tabembed      (those of its records that other code made)

Every measurement is a file of its own in build/quality, and only those that are not there are made: a run
that was cut short goes on where it was, and two processes can share the work (`--tables`). At the end stands
the report; `report.py` prints it alone.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from encoders import ENCODERS
from hand_on import hand_on
from records import FOLDER, is_done, write
from report import report
from run import SEEDS, measure, seeds
from tables import TABLES

QUICK_TABLES, QUICK_ROWS = ("adult", "ames", "credit"), 2_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="quality", description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=_names, default=list(TABLES), help=", ".join(TABLES))
    parser.add_argument("--encoders", type=_names, default=list(ENCODERS), help=", ".join(ENCODERS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--again", type=_names, default=[], help="encoders whose old records do not count")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    for name, known in (("tables", TABLES), ("encoders", ENCODERS), ("again", ENCODERS)):
        unknown = [value for value in getattr(asked, name) if value not in known]
        if unknown:
            parser.error(f"--{name} must be of {', '.join(known)}, got {', '.join(unknown)}")
    return asked


def _names(text: str) -> list[str]:
    return text.split(",")


def main() -> None:
    asked = arguments()
    folder, rows = FOLDER, None
    if asked.quick:
        folder, rows, asked.seeds = FOLDER / "quick", QUICK_ROWS, 1
        asked.tables = [name for name in asked.tables if name in QUICK_TABLES] or asked.tables
    # The peers warn of what is deprecated and of categories that are new: neither is a finding here.
    warnings.simplefilter("ignore")
    for name in asked.tables:
        todo = [
            (encoder, seed)
            for seed in seeds(name, asked.seeds)
            for encoder in asked.encoders
            if not is_done(folder, name, encoder, seed, again=asked.again)
        ]
        if not todo:
            continue
        table = TABLES[name]()
        for encoder, seed in todo:
            if is_done(folder, name, encoder, seed, again=asked.again):
                continue  # by another process, meanwhile
            start = time.perf_counter()
            record = measure(table, encoder, seed, rows)
            write(folder, record)
            scores = [
                f"{model} {np.round(result['score'], 4)}"
                for view in list(record["views"].values())[-1:]
                for model, result in view.items()
                if model != "width"
            ]
            took = time.perf_counter() - start
            print(f"{name:11} {encoder:11} {seed}  {'  '.join(scores)}  {took:.0f} s", flush=True)
    report(folder)
    hand_on(folder, full=not asked.quick and asked.tables == list(TABLES))


if __name__ == "__main__":
    main()
