"""The ranks of the benchmark in the form that every benchmark of the project hands its numbers on in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from models import MODELS
from report import Findings
from summary import ENTERED, ranks, reached

sys.path.append(str(Path(__file__).parents[1]))  # last: nothing there may stand in the way of what is here
from measure import report  # noqa: E402
from results import record  # noqa: E402


def results(found: Findings, full: bool) -> list[dict[str, Any]]:
    """One number for every model: the mean rank over the tables.

    Args:
        found: with the records of every encoder.
        full: all of the benchmark, so that what was promised can be held to.
    """
    order, best = ranks(found.ranked), "the best"
    promised = reached(found.ranked) if full else {}
    out = []
    for model in [model for model in MODELS if model in order]:
        others = order[model].drop(ENTERED)
        line = f"{model}: best mean rank"
        out.append(
            record(
                f"mean rank on {len(found.tables_ranked)} tables, {model}",
                value=order.loc[ENTERED, model],
                unit="rank",
                against=f"{len(others)} encodings, their best {others.min():.2f}",
                reach=best if line in promised else "",
                met=promised.get(line),
            )
        )
    return out


def hand_on(folder: Path, full: bool) -> None:
    """Print and write them, where every encoder has a record of a table.

    Args:
        folder: where the records lie.
        full: as for ``results``.
    """
    found = Findings(folder)
    if found.complete:
        report("quality" if full else "quality_quick", results(found, full))
