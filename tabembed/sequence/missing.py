"""Rows without an entity or a time: one rule, and the count of what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tabembed.schema import MISSING_TIME
from tabembed.table.warn import warn_user


@dataclass(frozen=True)
class LeftOut:
    """How many rows lack an entity or a time.

    Args:
        n_rows: rows that lack one or both.
        by_column: rows that lack the one, and rows that lack the other.
    """

    n_rows: int
    by_column: dict[str, int]

    def __add__(self, other: LeftOut) -> LeftOut:
        both = {name: count + other.by_column[name] for name, count in self.by_column.items()}
        return LeftOut(self.n_rows + other.n_rows, both)

    def say(self) -> None:
        """Warn of rows that were left out, if there are any."""
        lacking = [f"column {name!r} is missing in {n:,}" for name, n in self.by_column.items() if n]
        if lacking:
            text = f"{self.n_rows:,} rows are left out: {', '.join(lacking)}"
            warn_user(text)


def present(
    codes: np.ndarray, times: np.ndarray, names: tuple[str, str], on_missing: str
) -> tuple[np.ndarray | None, LeftOut]:
    """Places of the rows that have both, and how many lack which.

    Args:
        codes: number of every row's entity, −1 where it is missing.
        times: nanoseconds, −2⁶³ where missing.
        names: names of the columns of entity and time.
        on_missing: ``"error"`` or ``"drop"``.

    Shape:
        - codes, times: ``(n_rows,)``
        - output: int64 places, or ``None`` where all rows have both; the count

    Raises: ValueError under ``"error"``, naming the column and the count.
    """
    nobody, never = codes < 0, times == MISSING_TIME
    counts = {name: int(rows.sum()) for name, rows in zip(names, (nobody, never), strict=True)}
    if not any(counts.values()):
        return None, LeftOut(0, counts)
    if on_missing == "error":
        name, count = next((n, c) for n, c in counts.items() if c)
        raise ValueError(
            f"column {name!r}: must not be missing, got {count:,} of {len(codes):,} rows without it; "
            "on_missing='drop' leaves them out"
        )
    kept = np.flatnonzero(~(nobody | never))
    return kept, LeftOut(len(codes) - len(kept), counts)
