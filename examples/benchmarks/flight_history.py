"""Will a flight be late? What an aircraft's own history adds, by position scheme and with a GRU.

All flights with a tail number and an arrival, fitted on January to September, tested on October to December.
What a row shows is known before departure; the delays of a flight are known to the later flights of its
aircraft alone. Later is what was scheduled later: some aircraft had not landed yet from the flight before.
The script prints how many.

python examples/benchmarks/flight_history.py [--quick] [--position rotary] [--seeds 3] [--max-iter 4]
(needs `make data`; --quick takes the sample that ships. A scheme takes 10 to 30 minutes a seed on two cores.)
"""

from __future__ import annotations

import argparse
import json
import time
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

from tabembed import SequenceEmbedder, SequenceEncoder
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
REACH = 0.665
MINUTE = pd.Timedelta(1, "min")


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


def boosted(table: pd.DataFrame, columns: list[str], late: np.ndarray, past: np.ndarray, seed: int) -> float:
    X = table[columns].astype(dict.fromkeys(("carrier", "origin", "dest"), "category"))
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)
    model.fit(X[past], late[past])
    return float(roc_auc_score(late[~past], model.predict_proba(X[~past])[:, 1]))


def embedded(
    table: pd.DataFrame, late: np.ndarray, past: np.ndarray, scheme: tuple[str | None, str], **settings: Any
) -> float:
    """Logistic regression on row vectors; a test flight is encoded with all of its past."""
    position, clock = scheme
    encoder = SequenceEncoder("tailnum", "departure", COLUMNS + OBSERVED, observed=OBSERVED)
    embedder = SequenceEmbedder(encoder, position=position, clock=clock, output="row", **settings)
    train = embedder.fit_transform(table[past], late[past])
    test = embedder.transform(table)[~past]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train, late[past])
    return float(roc_auc_score(late[~past], model.predict_proba(test)[:, 1]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--position", help="one scheme alone, with both clocks")
    parser.add_argument("--clock", choices=("time", "index"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-iter", type=int, default=4)
    parser.add_argument("--cv", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    table = with_previous(flights(asked.quick))
    late, past = (table["arr_delay"] > 15).to_numpy(), (table["month"] < 10).to_numpy()
    print(
        f"{past.sum():,} flights to fit, {(~past).sum():,} to test, {table['tailnum'].nunique():,} aircraft"
    )
    print(f"not landed at the next scheduled departure: {in_the_air(table):.2%} of flights")
    if asked.quick:
        asked.seeds, asked.max_iter, asked.cv = 1, 2, 2
    found: list[dict[str, Any]] = []

    def add(what: str, run: Any, promised: bool) -> None:
        values, start = [], time.perf_counter()
        for seed in range(asked.seeds):
            values.append(run(seed))
            print(f"  {what}, seed {seed}: {values[-1]:.4f}, {time.perf_counter() - start:.0f} s", flush=True)
        row = {
            "features": what,
            "median AUC": median(values),
            "least": min(values),
            "most": max(values),
            "seconds a seed": (time.perf_counter() - start) / asked.seeds,
            "promised": f">= {REACH}" if promised else "",
            "reached": not promised or median(values) >= REACH,
        }
        found.append(row)
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{name}.json").write_text(json.dumps({"name": name, "rows": found}, indent=2) + "\n")

    name = (
        "flight_history"
        + (f"_{asked.position}" if asked.position else "")
        + ("_quick" if asked.quick else "")
    )
    for title, more in {"static": [], "and the flight before": ["previous", "hours"]}.items():
        columns = COLUMNS + more
        add(f"boosted trees, {title}", lambda seed, c=columns: boosted(table, c, late, past, seed), False)
    schemes = [
        scheme
        for scheme in SCHEMES
        if asked.position in (None, str(scheme[0]).lower()) and asked.clock in (None, scheme[1])
    ]
    for scheme in schemes[:2] if asked.quick and not asked.position else schemes:

        def run(seed: int, scheme: Any = scheme) -> float:
            settings = {"random_state": seed, "max_iter": asked.max_iter, "cv": asked.cv}
            return embedded(table, late, past, scheme, **settings)

        add(f"vectors, {scheme[0]}, {scheme[1]}", run, scheme[1] == "time" and not asked.quick)
    report(name, found)


if __name__ == "__main__":
    main()
