"""The numbers of a run of all benchmarks as a block of README.md, between two markers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import isnan
from typing import Any

BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"
HEAD = ["| what | against | number | reach | met |", "|---|---|---|---|---|"]
MOST = 6
"""More numbers of one table than that are one line."""


def number(one: Mapping[str, Any]) -> str:
    """A number and its unit, to three digits.

    >>> number({"value": 9.2061, "unit": "×"}), number({"value": 1234567.0, "unit": "rows/s"})
    ('9.21 ×', '1,234,567 rows/s')
    """
    value = one["value"]
    if value is None or isnan(value):
        return "not measured"
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"
    return f"{text} {one['unit']}".strip()


def block(found: Mapping[str, Any]) -> str:
    """What was promised and measured, as a table in Markdown, and a line on what it was measured with.

    Args:
        found: what ``build/bench/all.json`` holds.
    """
    lines = []
    for name, script in found["scripts"].items():
        promised = [one for one in script["results"] if one["reach"] not in ("", "< inf")]
        for table, group in groupby(promised, key=lambda one: one["table"]):
            lines += _lines(table, list(group))
        if script["outcome"] != "done":
            lines.append(_line(name, "", script["outcome"], "", "no"))
    return "\n".join([BEGIN, *HEAD, *lines, "", _with_what(found), END])


def with_block(text: str, found: Mapping[str, Any]) -> str:
    """A text with its block written anew.

    Args:
        text: of README.md; its two markers stand there once.
        found: as for ``block``.

    Raises: ValueError where they do not.
    """
    parts = re.split(f"{BEGIN}.*?{END}", text, flags=re.DOTALL)
    if len(parts) != 2:
        raise ValueError(f"README must hold one block from {BEGIN} to {END}, got {len(parts) - 1}")
    return parts[0] + block(found) + parts[1]


def _lines(table: str, group: Sequence[Mapping[str, Any]]) -> list[str]:
    met = [one["met"] for one in group]
    if len(group) > MOST:
        measured = len(met) - met.count(None)
        return [_line(f"{table}: {len(group)} numbers", "", "", "", f"{met.count(True)} of {measured}")]
    words = {True: "yes", False: "no", None: "-"}
    return [
        _line(f"{table}: {one['what']}", one["against"], number(one), one["reach"], words[one["met"]])
        for one in group
    ]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _with_what(found: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    dates = sorted({script["date"] for script in found["scripts"].values()} or {found["date"]})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    reduced = [name for name, script in found["scripts"].items() if script["form"] != "full"]
    forms = f"; in a reduced form: {', '.join(reduced)}" if reduced else ""
    return f"Measured on {when} on {found['cores']} cores ({found['machine']}): {versions}{forms}."
