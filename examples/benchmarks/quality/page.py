"""The benchmark as Markdown: the README's section, and a page with every score."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
from models import MODELS
from peers import PEERS
from run import SEEDS, SEEDS_OF_LARGEST
from summary import ENTERED, LESS_AUC, MORE_RMSE, NAMED, behind_the_best, boosting_and_ordinal, ranks, reached
from tables import LARGEST, MOST_TESTED, MOST_TRAINED, TABLES

if TYPE_CHECKING:
    from report import Findings

MODEL_NAMES = {
    "linear": "logistic or ridge regression",
    "neighbours": "nearest neighbours",
    "boosting": "boosted trees",
}


def readme(found: Findings) -> str:
    """The section of the README.

    Raises: SystemExit where no table has a record of every encoder.
    """
    if not found.complete:
        raise SystemExit("There is no table with a record of every encoder yet: nothing to write.")
    return "\n".join([*_frame(found), "", *_ranks(found), "", *_tables(found), "", *_verdict(found)])


def _frame(found: Findings) -> Iterator[str]:
    n_tables = len(found.tables_ranked)
    which = "nine" if n_tables == len(TABLES) else f"{n_tables} of nine"
    yield "## Does it help?"
    yield ""
    yield from _paragraph(f"""
        `examples/benchmarks/quality/` compares `TableEmbedder()`, with every default, to {len(PEERS)}
        encodings that people use, on {which} tables and under three models. At most {MOST_TRAINED:,} rows
        to train on and {MOST_TESTED:,} to test on; {SEEDS} seeds draw the former, {SEEDS_OF_LARGEST} for
        {" and ".join(LARGEST)}; the latter are the same in every run, and later in time for flights.
        tabembed's defaults were chosen on other rows than these; settings of the peers on rows that may be
        among them. Of tabembed, `output="{NAMED}"` enters the ranking, which was settled before the runs.
    """)


def _ranks(found: Findings) -> Iterator[str]:
    order, costs = ranks(found.ranked), found.costs()
    order = order.loc[order.mean(axis=1).sort_values().index].map("{:.2f}".format)
    frame = order.rename(columns=MODEL_NAMES).join(costs[["widest", "median seconds"]])
    yield from _paragraph("""
        Mean rank over the tables, 1 is the best; then the most columns on a table, and the median time on
        the processor of encoding one:
    """)
    yield ""
    yield from markdown_table(frame, bold=ENTERED)
    yield ""
    yield "![Ranks by table and their means](examples/benchmarks/quality/ranks.svg)"


def _tables(found: Findings) -> Iterator[str]:
    behind = behind_the_best(found.ranked)
    parts = {}
    for model in MODELS:
        of_model = behind[behind["model"] == model].set_index("table")
        parts[MODEL_NAMES[model]] = of_model.apply(_against, axis=1)
    boosted = boosting_and_ordinal(found.ranked).set_index("table")
    parts["trees: change from ordinal codes"] = boosted.apply(_change, axis=1)
    yield from _paragraph("""
        By table: tabembed, and in brackets the best of all where that is another (AUC; RMSE of diamonds,
        california, ames and loans):
    """)
    yield ""
    yield from markdown_table(pd.DataFrame(parts).loc[found.tables_ranked])


def _against(one: pd.Series) -> str:
    if one["behind"] == 0:
        return f"**{one['score']:.4f}**"
    mark = "" if one["within"] else ", a loss"
    return f"{one['score']:.4f} ({one['best']} {one['best_score']:.4f} ± {one['spread']:.4f}{mark})"


def _change(one: pd.Series) -> str:
    change = f"{one['gain']:+.4f}" if one["task"] == "binary" else f"{-one['gain']:+.1%}"
    return change if one["within"] else f"{change}, a loss"


def _verdict(found: Findings) -> Iterator[str]:
    yield from _paragraph(f"""
        A loss is more than one standard deviation (over seeds) behind the best; for trees on tabembed rather
        than on ordinal codes, more than {LESS_AUC} of AUC or {MORE_RMSE:.0%} of RMSE. What was promised:
    """)
    yield ""
    for promise, kept in reached(found.ranked).items():
        yield f"- {promise}: {'yes' if kept else '**no**'}"
    yield ""
    yield from _paragraph("""
        All scores are in `examples/benchmarks/quality/results.md`. `python examples/benchmarks/quality`
        measures them again in about an hour, and goes on where it was cut short;
        `examples/benchmarks/quality/noise.py` looks for what is found where nothing is.
    """)


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 110, break_long_words=False, break_on_hyphens=False)


def results(found: Findings) -> str:
    """A page with every score and its spread."""
    parts = ["# Every score of the benchmark of encodings", ""]
    parts += ["Mean ± standard deviation over seeds: area under the ROC curve, or RMSE of a number.", ""]
    for model in MODELS:
        parts += [f"## {MODEL_NAMES[model].capitalize()}", "", *markdown_table(found.scores(model)), ""]
    parts += ["## Columns, and seconds of encoding on the processor", "", *markdown_table(found.costs())]
    return "\n".join(parts) + "\n"


def markdown_table(frame: pd.DataFrame, bold: str = "") -> Iterator[str]:
    """Lines of a table; the row that is named stands out."""
    yield "| | " + " | ".join(map(str, frame)) + " |"
    yield "|---" * (frame.shape[1] + 1) + "|"
    for name, cells in frame.iterrows():
        words = [str(name), *map(str, cells)]
        yield "| " + " | ".join(f"**{word}**" if name == bold else word for word in words) + " |"
