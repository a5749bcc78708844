"""One picture of the benchmark: how far every encoding is behind the best, table by table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from models import MODELS
from summary import ENTERED, ranks

if TYPE_CHECKING:
    from report import Findings

OURS_COLOUR, PEER_COLOUR = "#c2410c", "#94a3b8"


def draw(found: Findings, file: Path) -> None:
    """Write the picture; its kind follows from the name of the file.

    A part for each model: the bar is an encoding's mean rank, the points are its ranks on the tables.
    """
    if not found.complete:
        raise SystemExit("There is no table with a record of every encoder yet: nothing to draw.")
    order = ranks(found.ranked)
    rank = found.ranked.assign(rank=found.ranked.groupby(["model", "table"])["loss"].rank())
    entries = order.mean(axis=1).sort_values().index
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for axes, model in zip(figure.subplots(1, len(MODELS), sharey=True), MODELS, strict=True):
        of_model = rank[rank["model"] == model]
        for height, entry in enumerate(entries):
            colour = OURS_COLOUR if entry == ENTERED else PEER_COLOUR
            places = _spread(of_model.loc[of_model["entry"] == entry, "rank"])
            axes.scatter(places.index, height + places, s=9, color=colour, alpha=0.5, linewidths=0)
            axes.scatter(order.loc[entry, model], height, s=60, color=colour, marker="|", linewidths=3)
        axes.set(title=model, xlabel="rank on a table (points), mean (bar)", xlim=(0.5, len(entries) + 0.5))
        axes.set_yticks(np.arange(len(entries)), entries)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", alpha=0.3)
    axes.invert_yaxis()
    file.parent.mkdir(parents=True, exist_ok=True)
    # Without a date and random names, so that equal numbers are an equal file.
    with rc_context({"svg.hashsalt": "quality"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=150)


def _spread(values: pd.Series) -> pd.Series:
    """Heights that keep equal values apart; the values are the index."""
    counts = values.sort_values().groupby(values).cumcount()
    return pd.Series(0.09 * counts.to_numpy() + 0.12, index=values.loc[counts.index].to_numpy())
