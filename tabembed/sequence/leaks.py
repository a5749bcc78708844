"""A proof by trial that vectors of the past do not know the future."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
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
    strict: bool = False,
    n_instants: int = 4,
    atol: float = 1e-5,
    seed: int = 0,
) -> None:
    """Change what a row must not know, and see that its vector stays.

    At some instants all later rows get other cells, are removed, or more rows are added; the last row of
    every entity until then gets other observed cells; and all rows of half of the entities get
    other cells, or are removed. Vectors of the rows until then, or of the other entities, must not move.

    It sees what ``transform`` reads from the table that it is given, and no more. What a fit learned from
    rows of the future is in every vector alike and moves none of them: fit on earlier rows. A column that
    comes to light later but is not named in ``observed`` counts as known. Of rows of one entity at one
    instant, those before in the table count as known, their observed cells too, unless ``strict`` is set.

    Args:
        transform: gives one vector or number a row, in the order of the rows; NaN for rows it leaves out.
        frame: a pandas table. It is not changed, ``transform`` gets copies. An index that counts from 0
            does so in all of them; others keep their labels, and rows that are added get new ones.
        entity: column that says whose row it is.
        time: column that says when it happened.
        observed: columns that are known only after the row has happened.
        strict: rows at one instant must not see each other's observed cells, as under
            ``SequenceEncoder(ties="strict")``: for clocks as coarse as days.
        n_instants: number of instants, drawn from the times of the table.
        atol: how far a number may move. Modules in float32 move by about 1e-6 when their rows stand in
            another batch.
        seed: of the private generator that draws.

    Raises:
        AssertionError: when a vector moved; it names the row, how far and after which change.
        ValueError: when there is nothing to change, nothing moves whatever is changed, or
            ``transform`` does not give one vector a row; for ``strict`` without observed columns.
        TypeError: when it is no pandas table, or ``observed`` is no list.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"who": list("aabb"), "day": [1, 2, 1, 3], "paid": [5.0, 7.0, 1.0, 2.0]})
    >>> check_no_leak(lambda t: t[["paid"]], table, entity="who", time="day")
    >>> check_no_leak(lambda t: t[["paid"]] - t["paid"].mean(), table, entity="who", time="day")
    Traceback (most recent call last):
    AssertionError: row 0 (a at 1) must not move, got 10.8 after later rows got other cells (at 1)
    """
    if not hasattr(frame, "iloc") or getattr(frame, "ndim", 0) != 2:
        raise TypeError(f"frame must be a pandas table, got {type(frame).__name__}: call .to_pandas() first")
    if isinstance(observed, str):
        raise TypeError(f"observed must be a list of names, got {observed!r}")
    if strict and not len(observed):
        raise ValueError("strict must come with observed columns, got none")
    for name in (entity, time, *observed):
        if name not in frame.columns:
            raise ValueError(f"column {name!r}: must be in the table, which has {list(frame.columns)}")
    frame = frame.set_axis(_labels(frame.index, np.ones(len(frame), bool)))
    before, moved, tried = vectors_of(transform, frame), False, 0
    tries = trials(frame, entity, time, list(observed), n_instants, np.random.default_rng(seed))
    if strict:
        same = ties(frame, entity, time, list(observed), n_instants, np.random.default_rng(seed))
        tries = chain(tries, same)
    for trial in tries:
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
        yield Trial(f"later rows were removed {at}", _without(frame, later), place, past)
        more = frame.iloc[np.append(stay, rng.choice(np.flatnonzero(later), n))]
        more = more.set_axis(_labels(frame.index, np.ones(n, bool), n))
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
        yield Trial("rows of other entities were removed", _without(frame, others), place, watched)


def ties(
    frame: Any, entity: str, time: str, observed: list[str], n_instants: int, rng: np.random.Generator
) -> Iterator[Trial]:
    """Tables with other observed cells in all rows of an instant, one that an entity has twice."""
    when, known = frame[time], frame[[entity, time]].notna().all(axis=1)
    instants = when[known & frame.duplicated([entity, time])].drop_duplicates()
    drawn = rng.choice(len(instants), min(n_instants, len(instants)), replace=False)
    for instant in instants.iloc[np.sort(drawn)]:
        here, past = (when == instant).to_numpy(bool), (when <= instant).to_numpy(bool)
        way = f"observed cells of its instant changed, which ties='strict' keeps apart (at {instant})"
        yield Trial(way, _other(frame, observed, here, rng), np.arange(len(frame)), past)


def vectors_of(transform: Callable[[Any], Any], frame: Any) -> np.ndarray:
    """Vectors of a table's rows, float64; numbers are vectors of one. ``transform`` gets a copy.

    Raises: ValueError when there is not one a row.
    """
    out = transform(frame.copy())
    if isinstance(out, torch.Tensor):
        out = out.detach().cpu()
    elif type(out).__module__.partition(".")[0] == "pandas":
        out = out.to_numpy(np.float64, na_value=np.nan)
    vectors = np.asarray(out, dtype=np.float64)
    if vectors.ndim == 1:
        vectors = vectors[:, None]
    if vectors.ndim != 2 or len(vectors) != len(frame):
        raise ValueError(f"transform must give {len(frame)} vectors, one a row, got shape {vectors.shape}")
    return vectors


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Largest difference in every row; where one side alone is NaN, it is infinite."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    difference = np.abs(np.subtract(a, b, where=~same, out=np.zeros_like(a)))
    return np.where(np.isnan(difference), np.inf, difference).max(axis=1, initial=0.0)


def _without(frame: Any, rows: np.ndarray) -> Any:
    return frame.iloc[~rows].set_axis(_labels(frame.index, ~rows))


def _labels(index: Any, kept: np.ndarray, n_new: int = 0) -> Any:
    """Labels of the rows that are kept and of new ones: an index that counts goes on counting."""
    import pandas as pd

    n, name = int(kept.sum()) + n_new, index.name
    if isinstance(index, pd.RangeIndex):
        return pd.RangeIndex(n, name=name)
    if not n_new:
        return index[kept]
    if pd.api.types.is_integer_dtype(index.dtype) and not index.hasnans and index.max() < 2**62:
        after = int(index.max()) + 1
        return index[kept].astype("int64").append(pd.RangeIndex(after, after + n_new, name=name))
    return pd.RangeIndex(n)


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
