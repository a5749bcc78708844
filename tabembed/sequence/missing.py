"""Rows without an entity or a time: one rule, and the count of what it leaves out."""

from __future__ import annotations

import warnings

import numpy as np

from tabembed.schema import MISSING_TIME


def present(
    codes: np.ndarray, times: np.ndarray, names: tuple[str, str], on_missing: str
) -> tuple[np.ndarray | None, dict[str, int]]:
    """Places of the rows that have both, and how many lack which.

    Args:
        codes: number of every row's entity, −1 where it is missing.
        times: nanoseconds, −2⁶³ where missing.
        names: names of the columns of entity and time.
        on_missing: ``"error"`` or ``"drop"``.

    Shape:
        - codes, times: ``(n_rows,)``
        - output: int64 places, or ``None`` where all rows have both; a count by column

    Raises: ValueError under ``"error"``, naming the column and the count.
    """
    gone = dict(zip(names, (codes < 0, times == MISSING_TIME), strict=True))
    counts = {name: int(rows.sum()) for name, rows in gone.items()}
    if not any(counts.values()):
        return None, counts
    if on_missing == "error":
        name, count = next((n, c) for n, c in counts.items() if c)
        raise ValueError(
            f"column {name!r}: must not be missing, got {count:,} of {len(codes):,} rows without it; "
            "on_missing='drop' leaves them out"
        )
    first, second = gone.values()
    return np.flatnonzero(~(first | second)), counts


def say_missing(counts: dict[str, int], stacklevel: int) -> None:
    """Warn of rows that were left out."""
    lacking = [f"column {name!r} is missing in {count:,}" for name, count in counts.items() if count]
    if lacking:
        warnings.warn(f"rows are left out: {', '.join(lacking)}", UserWarning, stacklevel=stacklevel + 1)


def say_cut(max_events: int, lengths: np.ndarray, stacklevel: int) -> None:
    """Warn of early rows that ``max_events`` leaves out."""
    cut = lengths - max_events
    text = f"max_events={max_events}: {cut[cut > 0].sum():,} early rows of {(cut > 0).sum():,} entities"
    if (cut > 0).any():
        warnings.warn(f"{text} are left out", UserWarning, stacklevel=stacklevel + 1)
