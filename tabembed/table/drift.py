"""How far a table is from the one of the fit: counts of its cells, which add up over parts, and distances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import gammaln

from tabembed.schema import MISSING, MISSING_TIME, CategoricalColumn, ContinuousColumn
from tabembed.table.canonical import family
from tabembed.table.datetime import nanoseconds
from tabembed.table.lists import CategoricalList
from tabembed.table.number import Continuous, numbers
from tabembed.table.scaler import SCALERS

NOTHING = "nothing"
"""The type of a column without a value."""


@dataclass(frozen=True)
class Cells:
    """What a column holds now, laid beside what the fit knows of it.

    Args:
        type: what the values are, in words; ``"nothing"`` where all are missing.
        n_cells: number of cells; of values, in a column of lists.
        n_missing: number of missing ones; NaN where that cannot be told.
        counts: cells of every id; or times before, in and after the range of the fit; or numbers below the
            first point of the schema, at it, between it and the next one, at that, and so on, and above the
            last one. ``None`` where ``transform`` would refuse the column.
        gaps: of numbers, in every such bin the sum of their scaled distances to the point that ends it.
        refused: why ``transform`` would refuse the column, or empty.
    """

    type: str
    n_cells: int
    n_missing: float
    counts: np.ndarray | None = None
    gaps: np.ndarray | None = None
    refused: str = ""

    def merge(self, other: Cells) -> Cells:
        """What both hold together."""
        known = other if self.type == NOTHING else self
        return Cells(
            known.type,
            self.n_cells + other.n_cells,
            self.n_missing + other.n_missing,
            _sum(self.counts, other.counts),
            _sum(self.gaps, other.gaps),
            self.refused or other.refused,
        )


def cells_of(column: Any, array: pa.Array) -> Cells:
    """Count the cells of one column; what ``transform`` would refuse is told, not raised.

    Args:
        column: a fitted column, as a fitted ``TableEncoder`` holds them.
        array: the present values.

    >>> from tabembed import TableEncoder
    >>> column = TableEncoder().fit({"city": ["Oslo", "Rome", "Rome"]}).columns_["city"]
    >>> cells_of(column, pa.array(["Rome", "Lima", None, "Rome"])).counts.tolist()
    [0, 1, 1, 2, 0]
    """
    name = column.column.name
    found = Cells(type_now(column, array), len(array), array.null_count)
    try:
        return replace(found, **_COUNT[column.lane](column, array))
    except (TypeError, ValueError) as error:
        return replace(found, refused=str(error).removeprefix(f"column {name!r}: "))


def _of_ids(column: Any, array: pa.Array) -> dict[str, Any]:
    return _by_id(column, column.encode(array))


def _of_lists(column: Any, array: pa.Array) -> dict[str, Any]:
    """Values of all cells; a missing cell counts as one missing value, as in the fit."""
    ragged = column.encode(array)
    missing = np.full(int(ragged.missing.sum()), MISSING)
    return _by_id(column, np.concatenate([ragged.ids.numpy(), missing]))


def _by_id(column: Any, ids: np.ndarray) -> dict[str, Any]:
    counts = np.bincount(ids, minlength=column.column.n_ids)
    return {"n_cells": len(ids), "n_missing": int(counts[MISSING]), "counts": counts}


def _of_numbers(column: Any, array: pa.Array) -> dict[str, Any]:
    schema: ContinuousColumn = column.column
    x = numbers(array, schema.name)
    x = x[~np.isnan(x)]
    points = np.array(schema.points)
    n_bins = 2 * len(points) + 1
    if not schema.n_values:
        return {"counts": np.zeros(n_bins, np.int64)}
    scaled = _scaled(column, x)
    place = np.searchsorted(points, scaled) + np.searchsorted(points, scaled, side="right")
    place[x < schema.minimum], place[x > schema.maximum] = 0, n_bins - 1
    gaps = np.abs(points[np.minimum(place // 2, len(points) - 1)] - scaled)
    return {"counts": np.bincount(place, minlength=n_bins), "gaps": np.bincount(place, gaps, n_bins)}


def _scaled(column: Any, x: np.ndarray) -> np.ndarray:
    """Numbers as a batch holds them; infinite ones at the end of the range."""
    bounded = np.nan_to_num(x, posinf=column.column.maximum, neginf=column.column.minimum)
    return SCALERS[column.scaler].forward(bounded, column.column).astype(np.float32).astype(np.float64)


def _of_times(column: Any, array: pa.Array) -> dict[str, Any]:
    schema = column.column
    column.encode(array)  # which refuses other zones
    times = nanoseconds(array, schema.name)
    times = times[times != MISSING_TIME]
    below, above = int((times < schema.minimum).sum()), int((times > schema.maximum).sum())
    return {"counts": np.array([below, len(times) - below - above, above])}


_COUNT = {"ids": _of_ids, "lists": _of_lists, "values": _of_numbers, "times": _of_times}


def type_in_fit(column: Any) -> str:
    """What the values of a column were, in words."""
    schema = column.column
    if not schema.n_values:
        return NOTHING
    if column.lane == "values":
        return "numbers"
    if column.lane == "times":
        return f"times {'with' if schema.timezone else 'without'} a zone"
    return f"{'lists of ' if column.lane == 'lists' else ''}{column.vocabulary.family}"


def type_now(column: Any, array: pa.Array) -> str:
    """What the values of a column are, in words: those of ``type_in_fit`` where ``transform`` takes both."""
    kind = array.type
    if array.null_count == len(array):
        return NOTHING
    if column.lane == "values" and Continuous.accepts(kind):
        return "numbers"
    if CategoricalList.accepts(kind):
        return f"lists of {family(kind.value_type)}"
    separated = column.lane == "lists" and column.separator is not None
    return f"{'lists of ' if separated else ''}{family(kind)}"


def total_variation(a: np.ndarray, b: np.ndarray) -> float:
    """Total variation distance, ½ Σ |pᵢ − qᵢ|: the share of cells that would have to change their category.

    Args:
        a: counts of categories, not all zero.
        b: counts of the same categories.

    >>> total_variation(np.array([2, 2]), np.array([4, 0]))
    0.5
    """
    return float(np.abs(a / a.sum() - b / b.sum()).sum() / 2)


def total_variation_by_chance(a: np.ndarray, b: np.ndarray) -> float:
    """The total variation to expect if all cells were shuffled between the two tables.

    Of a category's t cells, X fall to a table of n cells of N by the hypergeometric distribution, and
    E |X/n − (t − X)/m| = N / (n m) · E |X − t n/N|. The mean deviation is de Moivre's, 2 ν C(t, ν) πᵛ
    (1 − π)ᵗ⁻ᵛ⁺¹ with π = n/N and ν = ⌊tπ⌋ + 1, times √((N − t) / (N − 1)) for drawing without replacement.

    Args:
        a: counts of categories, not all zero.
        b: counts of the same categories.

    Source: Diaconis & Zabell 1991, Closed form summation for classical distributions, Statistical
        Science 6(3), equation 1.1.

    >>> round(total_variation_by_chance(np.array([50, 50]), np.array([50, 50])), 3)
    0.056
    """
    n, m = int(a.sum()), int(b.sum())
    t, share = (a + b)[(a + b) > 0].astype(np.float64), n / (n + m)
    above = np.minimum(np.floor(t * share) + 1, t)
    log = gammaln(t + 1) - gammaln(above + 1) - gammaln(t - above + 1)
    log += above * np.log(share) + (t - above + 1) * np.log1p(-share)
    deviation = 2 * above * np.exp(log) * np.sqrt((n + m - t) / (n + m - 1))
    return float(deviation.sum() * (n + m) / (n * m) / 2)


def kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> float:
    """Kolmogorov–Smirnov distance, max |F − G|, of numbers that are counted in the same bins.

    Args:
        a: counts of bins in rising order, not all zero.
        b: counts of the same bins.

    Source: Smirnov 1948, Table for estimating the goodness of fit of empirical distributions.

    >>> kolmogorov_smirnov(np.array([1, 1, 2]), np.array([0, 0, 1]))
    0.5
    """
    return float(np.abs(a.cumsum() / a.sum() - b.cumsum() / b.sum()).max())


def kolmogorov_smirnov_by_chance(n: int, m: int) -> float:
    """The distance to expect of samples of one continuous distribution: √(π/2) ln 2 · √((n + m) / (n m)).

    Args:
        n: numbers of one sample.
        m: numbers of the other. Where numbers repeat the distance is smaller.

    Source: mean of the limit in Smirnov 1948; Marsaglia, Tsang & Wang 2003, Evaluating Kolmogorov's
        distribution, Journal of Statistical Software 8(18).

    >>> round(kolmogorov_smirnov_by_chance(1000, 1000), 4)
    0.0389
    """
    return float(np.sqrt(np.pi / 2 * (n + m) / (n * m)) * np.log(2))


def wasserstein(column: ContinuousColumn, cells: Cells) -> float:
    """1-Wasserstein distance ∫ |F − G| of the scaled numbers of the fit and of the present ones.

    Numbers that lie between two points of the schema count as standing at their mean: exact where every
    number is one of the points, else off by at most the share of the numbers between two points times the
    distance of these.

    Args:
        column: of the schema.
        cells: the present numbers, one at least.

    Source: Vallender 1974, Calculation of the Wasserstein distance between probability distributions on
        the line, Theory of Probability and its Applications 18(4).
    """
    counts, gaps = np.array(cells.counts), np.array(cells.gaps)
    F, G = np.cumsum(column.counts[:-1]) / column.n_values, counts.cumsum() / counts.sum()
    between = slice(2, -1, 2)
    after = gaps[between] / np.maximum(counts[between], 1)  # from the mean to the point that ends a bin
    before = np.diff(column.points) - after
    inside = np.abs(F - G[1:-2:2]) * before + np.abs(F - G[between]) * after
    return float((gaps[0] + gaps[-1]) / counts.sum() + inside.sum())


def distances(column: Any, cells: Cells) -> dict[str, float]:
    """Distance, what chance alone gives, and for numbers the shift; nothing where there is no such.

    Args:
        column: a fitted column.
        cells: what it holds now.

    >>> from tabembed import TableEncoder
    >>> column = TableEncoder().fit({"city": ["Oslo", "Oslo", "Rome", "Rome"]}).columns_["city"]
    >>> float(distances(column, cells_of(column, pa.array(["Rome", "Lima", "Rome", "Oslo"])))["distance"])
    0.25
    """
    schema = column.column
    if cells.counts is None or not schema.n_values or cells.n_cells == cells.n_missing:
        return {}
    if isinstance(schema, CategoricalColumn):
        then, now = np.array(schema.counts[MISSING:]), cells.counts[MISSING:]
        return {"distance": total_variation(then, now), "by_chance": total_variation_by_chance(then, now)}
    if not isinstance(schema, ContinuousColumn):
        return {}
    then = np.zeros_like(cells.counts)
    then[1::2] = schema.counts
    unit = schema.scale if column.scaler == "none" else 1.0
    return {
        "distance": kolmogorov_smirnov(then, cells.counts),
        "by_chance": kolmogorov_smirnov_by_chance(schema.n_values, int(cells.counts.sum())),
        "shift": wasserstein(schema, cells) / unit,
    }


def _sum(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    return None if a is None or b is None else a + b
