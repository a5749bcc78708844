"""The report of the benchmark: every score, the ranks, and wins and losses alike.

python examples/benchmarks/quality/report.py [--folder build/quality] [--readme] [--write]
(--readme prints the section of the README as Markdown; --write writes results.md and ranks.svg beside this)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from models import MODELS
from page import MODEL_NAMES, readme, results
from records import FOLDER, HERE, code, read
from rich.console import Console
from rich.table import Table
from summary import (
    ENTERED,
    behind_the_best,
    boosting_and_ordinal,
    comparable,
    entered,
    means,
    ranks,
    reached,
    rows,
)
from tables import TABLES

DIGITS = 4


class Findings:
    """Records of a folder, and what follows from them.

    Args:
        folder: where the records lie.
    """

    def __init__(self, folder: Path) -> None:
        records = read(folder)
        self.stale = sorted(
            f"{r['table']} {r['encoder']} {r['seed']}" for r in records if r["code"] != code(r["encoder"])
        )
        self.frame = rows(records)
        ranked = comparable(entered(self.frame))
        self.complete = not ranked.empty and ENTERED in set(ranked["entry"])
        self.ranked = means(ranked) if self.complete else pd.DataFrame()
        self.all = means(self.frame)
        self.tables = [name for name in TABLES if name in set(self.all["table"])]
        self.tables_ranked = [
            name for name in self.tables if self.complete and name in set(self.ranked["table"])
        ]

    def scores(self, model: str) -> pd.DataFrame:
        """Mean ± spread in words, an entry a row and a table a column, and the mean rank."""
        part = self.all[self.all["model"] == model]
        words = part.apply(lambda one: f"{one['score']:.{DIGITS}f} ± {one['spread']:.{DIGITS}f}", axis=1)
        wide = part.assign(words=words).pivot(index="entry", columns="table", values="words")
        wide = wide.loc[part["entry"].drop_duplicates(), self.tables].fillna("")
        if self.complete:
            order = ranks(self.ranked)[model].map("{:.2f}".format)
            wide.insert(0, "mean rank", order.reindex(wide.index).fillna(""))
        return wide

    def costs(self) -> pd.DataFrame:
        """Fewest and most columns, median and most seconds of encoding on the processor, over the tables."""
        part = self.all[self.all["model"] == "linear"]
        groups = part.groupby("entry", sort=False)
        columns = {
            "narrowest": groups["width"].min().map("{:.0f}".format),
            "widest": groups["width"].max().map("{:.0f}".format),
            "median seconds": groups["encoding"].median().map("{:.1f}".format),
            "most seconds": groups["encoding"].max().map("{:.1f}".format),
        }
        return pd.DataFrame(columns)


def lines(found: Findings) -> Iterator[str]:
    """Wins and losses in words."""
    if not found.complete:
        yield "There is no table with a record of every encoder yet: nobody is ranked."
        return
    for promise, kept in reached(found.ranked).items():
        yield f"{'reached' if kept else 'MISSED'}: {promise}"
    behind = behind_the_best(found.ranked)
    for model in MODELS:
        part = behind[behind["model"] == model]
        wins = part.loc[part["behind"] == 0, "table"]
        names = ", ".join(wins) or "none"
        yield f"{MODEL_NAMES[model].capitalize()}: best on {len(wins)} of {len(part)} tables ({names})"
        for one in part[part["behind"] > 0].itertuples():
            verdict = "within its spread" if one.within else "a loss"
            yield (
                f"    {one.table}: {one.score:.{DIGITS}f} against {one.best_score:.{DIGITS}f} ± "
                f"{one.spread:.{DIGITS}f} of {one.best}, {verdict}"
            )
    yield "Boosted trees on tabembed rather than ordinal codes:"
    for one in boosting_and_ordinal(found.ranked).itertuples():
        change = f"{one.gain:+.4f} AUC" if one.task == "binary" else f"{-one.gain:+.1%} RMSE"
        yield f"    {one.table}: {change}{'' if one.within else ', too much'}"


def report(folder: Path) -> None:
    """Print everything, and write ``report.json`` beside the records."""
    console, found = Console(width=200), Findings(folder)
    for model in MODELS:
        console.print(
            _printable(found.scores(model), f"{MODEL_NAMES[model].capitalize()}: AUC, or RMSE of numbers")
        )
    console.print(_printable(found.costs(), "Width, and seconds of encoding on the processor"))
    for line in lines(found):
        console.print(line, highlight=False, markup=False)
    if found.stale:
        console.print(f"{len(found.stale)} records were made by other code (--again runs them once more)")
    summary: dict[str, Any] = {"stale": found.stale, "scores": found.all.to_dict("records")}
    if found.complete:
        summary |= {
            "reached": reached(found.ranked),
            "ranks": ranks(found.ranked).to_dict(),
            "behind": behind_the_best(found.ranked).to_dict("records"),
            "boosting": boosting_and_ordinal(found.ranked).to_dict("records"),
        }
    (folder / "report.json").write_text(json.dumps(summary, indent=1) + "\n")


def _printable(frame: pd.DataFrame, title: str) -> Table:
    table = Table("", *frame, title=title)
    for name, cells in frame.iterrows():
        table.add_row(str(name), *map(str, cells))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.write:
        from chart import draw  # matplotlib is slow to load

        found = Findings(asked.folder)
        draw(found, HERE / "ranks.svg")
        (HERE / "results.md").write_text(results(found))
    if asked.readme:
        print(readme(Findings(asked.folder)))
    elif not asked.write:
        report(asked.folder)


if __name__ == "__main__":
    main()
