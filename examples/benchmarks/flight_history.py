"""Will a flight be late? What an aircraft's own history adds, by position scheme and with a GRU.

All flights with a tail number and an arrival, fitted on January to September, tested on October to December.
What a row shows is known before departure; the delays of a flight are known to the later flights of its
aircraft alone. Later is what was scheduled later: some aircraft had not landed yet from the flight before.
The script prints how many.

Every scheme is a logistic regression on row vectors, which is promised to reach 0.665. Beside it are boosted
trees: without history, and with the delay of the flight before and the hours since. The latter are the
stronger baseline, and the one to compare with.

python examples/benchmarks/flight_history.py [--quick] [--position alibi] [--clock time] [--seeds 3] [--cv 3]
(needs `make data`; --quick takes the sample that ships. A scheme takes 2 to 6 minutes a seed.
With --position and --clock a process runs one scheme and writes a file of its own, so that two can run at
once; `--position trees` runs the trees alone.)
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from measure import FOLDER, report
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tabembed import PiecewiseLinearEmbedding, SequenceEmbedder, SequenceEncoder
from tabembed.datasets import fetch_flights, load_flights

COLUMNS = ["carrier", "origin", "dest", "sched_dep_time", "sched_arr_time", "distance"]
OBSERVED = ["dep_delay", "arr_delay"]
SCHEMES = [
    *((position, "time") for position in ("rotary", "alibi", "decay", "gru", "sinusoidal", "learned")),
    ("rotary", "index"),
    ("alibi", "index"),
    ("gru", "index"),
    (None, "time"),
]
TREES = "trees"
# A small network: chosen by fits on January to July and their AUC on August and September.
SETTINGS = {"num_layers": 1, "d_model": 32, "embed_dims": 4, "numeric": PiecewiseLinearEmbedding}
REACH = 0.665
MINUTE = pd.Timedelta(1, "min")
Run = Callable[..., tuple[float, float]]


def flights(quick: bool) -> pd.DataFrame:
    table = load_flights() if quick else fetch_flights()
    table = table.dropna(subset=["tailnum", "arr_delay"]).reset_index(drop=True)
    return table.assign(departure=table["time_hour"] + table["minute"] * MINUTE)


def with_previous(table: pd.DataFrame) -> pd.DataFrame:
    """The delay of the flight before and the hours since, for the trees."""
    by_tail = table.sort_values(["tailnum", "departure"], kind="stable").groupby("tailnum")
    hours = by_tail["departure"].diff().dt.total_seconds() / 3600
    return table.assign(previous=by_tail["arr_delay"].shift(), hours=hours)  # aligned by index


def in_the_air(table: pd.DataFrame) -> float:
    """Share of flights whose aircraft, by its flight before, had not landed when they were to leave."""
    rows = table.sort_values(["tailnum", "departure"], kind="stable")
    landed = rows["departure"] + (rows["dep_delay"] + rows["air_time"]) * MINUTE
    before = landed.groupby(rows["tailnum"]).shift()
    return float((before > rows["departure"]).mean())


def boosted(
    table: pd.DataFrame, columns: list[str], late: np.ndarray, past: np.ndarray, *, random_state: int
) -> tuple[float, float]:
    """AUC of boosted trees; their features take no time of their own."""
    X = table[columns].astype(dict.fromkeys(("carrier", "origin", "dest"), "category"))
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=random_state)
    model.fit(X[past], late[past])
    return float(roc_auc_score(late[~past], model.predict_proba(X[~past])[:, 1])), 0.0


def embedded(
    table: pd.DataFrame, late: np.ndarray, past: np.ndarray, scheme: tuple[str | None, str], **settings: Any
) -> tuple[float, float]:
    """AUC of a logistic regression on row vectors, and the seconds that the vectors took, without it.

    A test flight is encoded with all of its past.
    """
    position, clock = scheme
    encoder = SequenceEncoder("tailnum", "departure", COLUMNS + OBSERVED, observed=OBSERVED)
    embedder = SequenceEmbedder(encoder, position=position, clock=clock, output="row", **SETTINGS, **settings)
    start = time.perf_counter()
    train = embedder.fit_transform(table[past], late[past])
    test = embedder.transform(table)[~past]
    seconds = time.perf_counter() - start
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train, late[past])
    return float(roc_auc_score(late[~past], model.predict_proba(test)[:, 1])), seconds


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    names = sorted({str(position).lower() for position, _ in SCHEMES})
    parser.add_argument("--position", choices=(TREES, *names), help="one scheme, or the trees, alone")
    parser.add_argument("--clock", choices=("time", "index"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cv", type=int, default=3)
    parser.add_argument("--max-iter", type=int, help="instead of the estimator's own")
    return parser.parse_args()


def runs(asked: argparse.Namespace, table: pd.DataFrame) -> dict[str, Run]:
    """What is to be measured, by name: given a seed, the AUC and the seconds of the features."""
    late, past = (table["arr_delay"] > 15).to_numpy(), (table["month"] < 10).to_numpy()
    print(f"{past.sum():,} flights to fit, {(~past).sum():,} to test")
    found: dict[str, Run] = {}
    if asked.position in (None, TREES) and asked.clock is None:
        for title, more in {"static": [], "and the flight before": ["previous", "hours"]}.items():
            found[f"boosted {TREES}, {title}"] = partial(boosted, table, COLUMNS + more, late, past)
    settings = {"cv": asked.cv} if asked.max_iter is None else {"cv": asked.cv, "max_iter": asked.max_iter}
    schemes = [
        (position, clock)
        for position, clock in SCHEMES
        if asked.position in (None, str(position).lower()) and asked.clock in (None, clock)
    ]
    for scheme in schemes[:2] if asked.quick else schemes:
        found[f"vectors, {scheme[0]}, {scheme[1]}"] = partial(embedded, table, late, past, scheme, **settings)
    return found


def main() -> None:
    asked = arguments()
    if asked.quick:
        asked.seeds, asked.max_iter = 1, 2
    table = with_previous(flights(asked.quick))
    print(f"{table['tailnum'].nunique():,} aircraft")
    print(f"not landed at the next scheduled departure: {in_the_air(table):.2%} of flights")
    parts = ("flight_history", asked.position, asked.clock, "quick" if asked.quick else None)
    name = "_".join(part for part in parts if part)
    found: list[dict[str, Any]] = []
    for what, run in runs(asked, table).items():
        values, seconds = [], []
        for seed in range(asked.seeds):
            value, took = run(random_state=seed)
            print(f"  {what}, seed {seed}: AUC {value:.4f}, features in {took:.0f} s", flush=True)
            values.append(value)
            seconds.append(took)
        promised = what.startswith("vectors") and what.endswith("time") and not asked.quick
        found.append(
            {
                "features": what,
                "median AUC": median(values),
                "least": min(values),
                "most": max(values),
                "seconds a seed": median(seconds),
                "promised": f">= {REACH}" if promised else "",
                "reached": not promised or median(values) >= REACH,
            }
        )
        FOLDER.mkdir(parents=True, exist_ok=True)  # what is there, should the run be cut short
        (FOLDER / f"{name}.json").write_text(json.dumps({"name": name, "rows": found}, indent=2) + "\n")
    report(name, found, what="{features}", value="median AUC", unit="AUC")
    print("To compare with: boosted trees that know the flight before, the stronger of the two.")


if __name__ == "__main__":
    main()
