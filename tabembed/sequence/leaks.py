"""A proof by trial that vectors of the past do not know the future."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Trial:
    """A changed table, and the rows whose vectors must stay.

    Args:
        way: what was changed, in words.
        frame: the changed table.
        kept: places in it of the rows of the table that are still there, or −1; ``(n_rows,)``.
        past: True for the rows that must stay; ``(n_rows,)``.
    """

    way: str
    frame: Any
    kept: np.ndarray
    past: np.ndarray


def check_no_leak(
    transform: Callable[[Any], Any],
    frame: Any,
    *,
    entity: str,
    time: str,
    observed: Sequence[str] = (),
    n_instants: int = 4,
    atol: float = 1e-6,
    seed: int = 0,
) -> None:
    """Change what a row must not know, and see that its vector stays.

    At some instants all later rows get other cells, are removed, or get company; the last row of
    every entity until then gets other observed cells; and all rows of half of the entities get
    other cells. Vectors of the rows until then, or of the other entities, must not move.

    Args:
        transform: gives one vector a row, in the order of the rows; NaN for rows it leaves out.
        frame: a pandas table. It is not changed, ``transform`` gets copies.
        entity: column that says whose row it is.
        time: column that says when it happened.
        observed: columns that are known only after the row has happened.
        n_instants: number of instants, drawn from the times of the table.
        atol: how far a number may move.
        seed: of the private generator that draws.

    Raises:
        AssertionError: when a vector moved; it names the row, how far and after which change.
        ValueError: when there is nothing to change, nothing moves whatever is changed, or
            ``transform`` does not give one vector a row.
        TypeError: when it is no pandas table.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"who": list("aabb"), "day": [1, 2, 1, 3], "paid": [5.0, 7.0, 1.0, 2.0]})
    >>> check_no_leak(lambda t: t[["paid"]], table, entity="who", time="day")
    >>> check_no_leak(lambda t: t[["paid"]] - t["paid"].mean(), table, entity="who", time="day")
    Traceback (most recent call last):
    AssertionError: row 0 (a at 1) must not move, got 10.8 after later rows got other cells (at 1)
    """
    if not hasattr(frame, "iloc") or getattr(frame, "ndim", 0) != 2:
        raise TypeError(f"frame must be a pandas table, got {type(frame).__name__}: call .to_pandas() first")
    for name in (entity, time, *observed):
        if name not in frame.columns:
            raise ValueError(f"column {name!r}: must be in the table, which has {list(frame.columns)}")
    before, moved, tried = vectors_of(transform, frame), False, 0
    for trial in trials(frame, entity, time, list(observed), n_instants, np.random.default_rng(seed)):
        after, here = vectors_of(transform, trial.frame), trial.kept >= 0
        distance = np.zeros(len(frame))
        distance[here] = distances(before[here], after[trial.kept[here]])
        worst = int(np.where(trial.past, distance, -1.0).argmax())
        if trial.past[worst] and distance[worst] > atol:
            who, when = frame[entity].iloc[worst], frame[time].iloc[worst]
            raise AssertionError(
                f"row {worst} ({who} at {when}) must not move, got {distance[worst]:.3g} after {trial.way}"
            )
        moved, tried = moved or bool(distance.any()), tried + 1
    if not tried:
        raise ValueError(f"frame must have rows to change and rows to watch, got {len(frame)} rows without")
    if not moved:
        raise ValueError("transform must depend on the table, got vectors that no change moves")


def trials(
    frame: Any, entity: str, time: str, observed: list[str], n_instants: int, rng: np.random.Generator
) -> Iterator[Trial]:
    """Changed tables, those left out in which nothing is changed or nothing can be watched."""
    n, stay = len(frame), np.arange(len(frame))
    when, who = frame[time], frame[entity]
    cells = [name for name in frame.columns if name not in (entity, time)]
    instants = when.dropna().drop_duplicates()
    drawn = rng.choice(len(instants), min(n_instants, len(instants)), replace=False)
    for instant in instants.iloc[np.sort(drawn)]:
        later, past = (when > instant).to_numpy(bool), (when <= instant).to_numpy(bool)
        at = f"(at {instant})"
        last = _last_of_each(who, when, past)
        if observed and last.any():
            yield Trial(
                f"its own observed cells changed {at}", _other(frame, observed, last, rng), stay, past
            )
        if not later.any():
            continue
        yield Trial(f"later rows got other cells {at}", _other(frame, cells, later, rng), stay, past)
        mixed = _drawn(frame, [*cells, time], later, np.flatnonzero(later), rng)
        yield Trial(f"later rows changed places {at}", mixed, stay, past)
        place = np.where(later, -1, np.cumsum(~later) - 1)
        yield Trial(f"later rows were removed {at}", frame.iloc[~later], place, past)
        more = frame.iloc[np.append(stay, rng.choice(np.flatnonzero(later), n))]
        new = np.arange(len(more)) >= n
        more = _drawn(more, [entity], new, stay, rng)
        for name in cells:
            more = _drawn(more, [name], new, _rarest(frame[name]), rng)
        more = _far_off(more, cells, new)
        yield Trial(f"later rows were added {at}", more, stay, past)
    names = who.dropna().drop_duplicates()
    if len(names) > 1:
        others = who.isin(names.iloc[rng.permutation(len(names))[: len(names) // 2]]).to_numpy(bool)
        watched = who.notna().to_numpy(bool) & ~others
        yield Trial(
            "rows of other entities got other cells", _other(frame, cells, others, rng), stay, watched
        )
        place = np.where(others, -1, np.cumsum(~others) - 1)
        yield Trial("rows of other entities were removed", frame.iloc[~others], place, watched)


def vectors_of(transform: Callable[[Any], Any], frame: Any) -> np.ndarray:
    """Vectors of a table's rows, float64; ``transform`` gets a copy.

    Raises: ValueError when there is not one a row.
    """
    out = transform(frame.copy())
    vectors = np.asarray(out.detach().cpu() if isinstance(out, torch.Tensor) else out, dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != len(frame):
        raise ValueError(f"transform must give {len(frame)} vectors, one a row, got shape {vectors.shape}")
    return vectors


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Largest difference in every row; where one side alone is NaN, it is infinite."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    difference = np.abs(np.subtract(a, b, where=~same, out=np.zeros_like(a)))
    return np.where(np.isnan(difference), np.inf, difference).max(axis=1, initial=0.0)


def _last_of_each(who: Any, when: Any, past: np.ndarray) -> np.ndarray:
    """True for the last row of every entity among some rows; of equal times the last in the table."""
    order = when.reset_index(drop=True)[past].sort_values(kind="stable").index.to_numpy()
    keys = who.iloc[order]
    last = np.zeros(len(past), bool)
    last[order[~keys.duplicated(keep="last").to_numpy() & keys.notna().to_numpy(bool)]] = True
    return last


def _drawn(frame: Any, names: list[str], rows: np.ndarray, pool: np.ndarray, rng: np.random.Generator) -> Any:
    """The table with cells of some rows taken from other places of their column."""
    out = frame.copy()
    for name in names:
        source = np.arange(len(frame))
        source[rows] = rng.choice(pool, int(rows.sum()))
        out[name] = frame[name].array.take(source)
    return out


def _rarest(column: Any) -> np.ndarray:
    """A place of the cell that stands there least often: so many of them turn any majority."""
    _, code, count = np.unique(column.astype(str).to_numpy(str), return_inverse=True, return_counts=True)
    return np.array([count[code].argmin()])


def _other(frame: Any, names: list[str], rows: np.ndarray, rng: np.random.Generator) -> Any:
    """The table with other cells in some rows: numbers far off, others drawn from their column."""
    return _far_off(_drawn(frame, names, rows, np.arange(len(frame)), rng), names, rows)


def _far_off(frame: Any, names: list[str], rows: np.ndarray) -> Any:
    """The table with other numbers in some rows, and booleans turned."""
    from pandas.api.types import is_bool_dtype, is_float_dtype, is_signed_integer_dtype

    out = frame.copy()
    for name in names:
        column = out[name]
        if is_float_dtype(column.dtype):
            out[name] = column.where(~rows, -3.0 * column.fillna(0.0) + 1.0)
        elif is_signed_integer_dtype(column.dtype):
            out[name] = column.where(~rows, -1 - column)
        elif is_bool_dtype(column.dtype):
            out[name] = column.where(~rows, ~column)
    return out
