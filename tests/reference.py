"""Slow scalar loops, written from the papers and sharing no code with the package."""

from __future__ import annotations

from collections.abc import Sequence

Vector = list[float]
Table = Sequence[Sequence[float]]


def auto_size(n: int) -> int:
    """Howard & Gugger 2020: min(600, round(1.6 n^0.56))."""
    return min(600, round(1.6 * n**0.56))


def known_size(n: int) -> int:
    """The same of the known values, below their number, at least 1."""
    return max(1, min(n - 1, auto_size(n)))


def entity(i: int, table: Table, padding: int | None = None) -> Vector:
    """Row i; zeros for padding and out of range."""
    if i == padding or not 0 <= i < len(table):
        return [0.0] * len(table[0])
    return list(table[i])


def multi(ids: Sequence[int], tables: Sequence[Table], padding: int | None = None) -> Vector:
    """Rows of every column, one after the other."""
    vector: Vector = []
    for i, table in zip(ids, tables, strict=True):
        vector += entity(i, table, padding)
    return vector


def linear(x: float, missing: bool, weight: Vector, bias: Vector, missing_row: Vector) -> Vector:
    """Gorishniy et al. 2021, the feature tokenizer: w x + b; a learned row where missing."""
    if missing:
        return list(missing_row)
    return [w * x + b for w, b in zip(weight, bias, strict=True)]


def position(time: int, earliest: int, latest: int) -> float:
    """Where an instant stands between two others; Python's integers are exact."""
    return (time - earliest) / ((latest - earliest) or 1)


def mean(ids: Sequence[int], missing: bool, table: Table) -> Vector:
    """Mean of the rows of the ids that are no padding (0); row 1 for a missing cell; zeros of nothing."""
    if missing:
        return list(table[1])
    rows = [table[i] for i in ids if i != 0]
    total = [0.0] * len(table[0])
    for row in rows:
        for k, element in enumerate(row):
            total[k] += element
    return [t / max(1, len(rows)) for t in total]
