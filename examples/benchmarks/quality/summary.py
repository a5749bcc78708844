"""From records to what they say: means, ranks, who is within reach of the best, and what is lost."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from encoders import OURS
from models import MODELS
from records import Record

NAMED = "both"
"""The vectors of tabembed that enter the ranking; the other views of the same fit are shown beside it."""
ENTERED = f"{OURS} {NAMED}"
REFERENCE = "ordinal"
"""What boosted trees are usually given."""
LESS_AUC, MORE_RMSE = 0.002, 0.01
"""How much worse than ordinal codes boosted trees may get: area, and share of the error."""


def rows(records: Iterable[Record]) -> pd.DataFrame:
    """One row for every score, with ``entry``: the encoder, and which of its views.

    ``loss`` is what is small when good: minus the area, or the error.
    """
    found = [
        {
            **{name: record[name] for name in ("table", "task", "seed")},
            "entry": f"{record['encoder']} {view}".strip(),
            "model": model,
            "score": results[model]["score"],
            "width": results["width"],
            "encoding": record["processor_seconds"],
            "modelling": results[model]["processor_seconds"],
        }
        for record in records
        for view, results in record["views"].items()
        for model in MODELS
    ]
    frame = pd.DataFrame(found)
    return frame.assign(loss=frame["score"].where(frame["task"] == "continuous", -frame["score"]))


def entered(frame: pd.DataFrame) -> pd.DataFrame:
    """Those that are ranked: all peers, and of ours the one that was named before."""
    others = frame["entry"].str.startswith(OURS) & (frame["entry"] != ENTERED)
    return frame[~others]


def comparable(frame: pd.DataFrame) -> pd.DataFrame:
    """The tables and seeds of which every entry has a record: a part of a run ranks nobody by luck."""
    entries = frame["entry"].nunique()
    there = frame.groupby(["table", "seed"])["entry"].transform("nunique")
    return frame[there == entries]


def means(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over seeds, by model, table and entry."""
    groups = frame.groupby(["model", "table", "entry"], sort=False)
    found = groups.agg(
        task=("task", "first"),
        score=("score", "mean"),
        spread=("score", "std"),
        loss=("loss", "mean"),
        width=("width", "mean"),
        encoding=("encoding", "mean"),
        modelling=("modelling", "mean"),
    )
    return found.fillna({"spread": 0.0}).reset_index()


def ranks(found: pd.DataFrame) -> pd.DataFrame:
    """Mean rank over the tables, 1 for the best, by entry and model; equals share their ranks."""
    rank = found.groupby(["model", "table"])["loss"].rank()
    mean = rank.groupby([found["entry"], found["model"]]).mean().unstack()
    return mean[[model for model in MODELS if model in mean]]


def behind_the_best(found: pd.DataFrame, entry: str = ENTERED) -> pd.DataFrame:
    """By model and table: the best entry, how far behind it an entry is, and whether within its spread.

    ``behind`` is in the unit of the score: 0 where the entry itself is the best.
    """
    rows = []
    for (model, table), group in found.groupby(["model", "table"], sort=False):
        best = group.loc[group["loss"].idxmin()]
        ours = group[group["entry"] == entry].iloc[0]
        behind = float(ours["loss"] - best["loss"])
        rows.append(
            {
                "model": model,
                "table": table,
                "score": ours["score"],
                "best": best["entry"],
                "best_score": best["score"],
                "spread": best["spread"],
                "behind": behind,
                "within": bool(behind <= best["spread"]),
            }
        )
    return pd.DataFrame(rows)


def boosting_and_ordinal(found: pd.DataFrame, entry: str = ENTERED) -> pd.DataFrame:
    """By table: what boosted trees gain by an entry instead of ordinal codes; area, or share of the error."""
    boosted = found[found["model"] == "boosting"].set_index(["table", "entry"])
    rows = []
    for table in boosted.index.get_level_values("table").unique():
        ours, codes = boosted.loc[(table, entry)], boosted.loc[(table, REFERENCE)]
        binary = ours["task"] == "binary"
        gain = ours["score"] - codes["score"] if binary else 1 - ours["score"] / codes["score"]
        within = gain >= -(LESS_AUC if binary else MORE_RMSE)
        rows.append({"table": table, "task": ours["task"], "gain": float(gain), "within": bool(within)})
    return pd.DataFrame(rows)


def reached(found: pd.DataFrame) -> dict[str, bool]:
    """What was promised of the entry, line by line."""
    order, behind = ranks(found), behind_the_best(found)
    promised = {}
    for model in ("linear", "neighbours"):
        others = order[model].drop(ENTERED)
        promised[f"{model}: best mean rank"] = bool(order.loc[ENTERED, model] < others.min())
        within = behind.loc[behind["model"] == model, "within"]
        promised[f"{model}: within one spread of the best on every table"] = bool(np.all(within))
    promised["boosting: nowhere worse than ordinal codes"] = bool(boosting_and_ordinal(found)["within"].all())
    return promised
