"""A column of numbers: float64 statistics, then a float32 value and a missing flag."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tabembed.artifact import ArtifactError
from tabembed.schema import ContinuousColumn
from tabembed.table.canonical import family
from tabembed.table.scaler import SCALERS, check_scaler
from tabembed.table.sketch import Sketch
from tabembed.table.warn import warn_user

_N_QUANTILES = 1001
_TICKS_PER_SECOND = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
_FLOAT32_WHOLE = 2**24
_FLOAT64_MAX = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class NumberState:
    """Moments and quantiles of the finite values seen so far.

    The mean is ``mean + rest``, its rounding error kept, or the distance of two means far from zero
    would lose the digits that the variance needs; ``m2`` is Σ(x − mean − rest)².
    """

    n_values: int
    n_missing: int
    mean: float
    rest: float
    m2: float
    minimum: float
    maximum: float
    sketch: Sketch


@dataclass(frozen=True)
class Continuous:
    """Spec of a column of numbers; durations count in seconds.

    Args:
        scaler: ``"squash"``, ``"standard"``, ``"quantile"``, or ``"none"`` for the number itself.
            ``None`` takes the encoder's setting.

    Raises: ValueError when there is no such scaler.

    >>> Continuous(scaler="standard")
    Continuous(scaler='standard')
    """

    scaler: str | None = None

    kind: ClassVar[str] = "continuous"

    def __post_init__(self) -> None:
        check_scaler(self.scaler, "Continuous.scaler")

    @staticmethod
    def accepts(kind: pa.DataType) -> bool:
        """Every type of number, and durations."""
        return not pa.types.is_dictionary(kind) and (family(kind) == "numbers" or pa.types.is_duration(kind))

    def with_defaults(self, encoder: Any) -> Continuous:
        """The same spec, a scaler left open taken from the encoder."""
        return replace(self, scaler=self.scaler or encoder.scaler or "none")

    def partial(self, name: str, array: pa.Array) -> NumberState:
        """Statistics of one column."""
        x = numbers(array, name)
        finite = x[np.isfinite(x)]
        n_missing = int(np.isnan(x).sum())
        if len(finite) == 0:
            return NumberState(0, n_missing, 0.0, 0.0, 0.0, np.inf, -np.inf, Sketch.of(finite))
        low, high = float(finite.min()), float(finite.max())
        with np.errstate(over="ignore"):
            # The computed mean of equal floats may differ from them, and the sum of large ones overflow.
            mean = low if low == high else float(finite.mean())
            mean = mean if np.isfinite(mean) else float((finite / len(finite)).sum())
            deviation = finite - mean
            rest = float(deviation.mean())
            m2 = float(np.square(deviation - rest).sum())
        rest = rest if np.isfinite(rest) else 0.0
        m2 = min(m2, _FLOAT64_MAX)
        return NumberState(len(finite), n_missing, mean, rest, m2, low, high, Sketch.of(finite))

    def merge(self, name: str, a: NumberState, b: NumberState) -> NumberState:
        """Statistics over the rows of both (Chan, Golub & LeVeque 1983, equation 2.1)."""
        if not a.n_values or not b.n_values:
            known = a if a.n_values else b
            return replace(known, n_missing=a.n_missing + b.n_missing)
        n = a.n_values + b.n_values
        share = b.n_values / n
        delta = (b.mean - a.mean) + (b.rest - a.rest)
        step = a.rest + (delta * share if np.isfinite(delta) else b.mean * share - a.mean * share)
        mean = a.mean + step
        return NumberState(
            n,
            a.n_missing + b.n_missing,
            mean,
            step - (mean - a.mean),
            min(a.m2 + b.m2 + delta * delta * a.n_values * share, _FLOAT64_MAX),
            min(a.minimum, b.minimum),
            max(a.maximum, b.maximum),
            a.sketch.merge(b.sketch),
        )

    def finalize(self, name: str, state: NumberState, n_rows: int) -> NumberEncoder:
        """Choose centre and scale."""
        scaler = self.scaler or "none"
        if state.n_values == 0:
            nothing: dict[str, Any] = dict.fromkeys(("centre", "minimum", "maximum", "mean", "std"), 0.0)
            nothing |= {"scale": 1.0, "quantiles": (0.0,), "points": (0.0,), "counts": (0,)}
            return NumberEncoder(ContinuousColumn(name, 0, state.n_missing, **nothing), scaler)
        constant = state.minimum == state.maximum
        quantiles = state.sketch.quantiles(np.linspace(0, 1, 2 if constant else _N_QUANTILES))
        quantiles = quantiles.clip(state.minimum, state.maximum)
        std = float(np.sqrt(state.m2 / state.n_values))
        low, median, high = (float(quantiles[len(quantiles) * quarter // 4]) for quarter in (1, 2, 3))
        spread = high - low or state.maximum / 2 - state.minimum / 2
        centre, scale = (median, spread) if SCALERS[scaler].robust else (state.mean + state.rest, std)
        column = ContinuousColumn(
            name=name,
            n_values=state.n_values,
            n_missing=state.n_missing,
            centre=centre,
            scale=min(scale, _FLOAT64_MAX / 2) or 1.0,
            minimum=state.minimum,
            maximum=state.maximum,
            mean=state.mean + state.rest,
            std=std,
            quantiles=tuple(quantiles.tolist()),
            points=(),
            counts=(),
        )
        points, counts = state.sketch.points(_N_QUANTILES)
        points[0], points[-1] = state.minimum, state.maximum
        scaled = SCALERS[scaler].forward(points, column).astype(np.float32)
        # float32 cannot tell all of them apart.
        first = np.flatnonzero(np.append(True, scaled[1:] > scaled[:-1]))
        points, counts = scaled[first], np.add.reduceat(counts, first)
        return NumberEncoder(
            replace(column, points=tuple(points.tolist()), counts=tuple(counts.tolist())), scaler
        )


@dataclass(frozen=True)
class NumberEncoder:
    """A fitted column of numbers."""

    column: ContinuousColumn
    scaler: str

    lane: ClassVar[str] = "values"
    kind: ClassVar[str] = "continuous"

    def encode(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Scaled numbers (finite, in the range of float32) and where they are missing.

        A missing number stands at the centre of its column. An infinite one is not missing: it
        takes the largest or smallest value of the fit.
        """
        name, column = self.column.name, self.column
        x = numbers(array, name)
        missing = np.isnan(x)
        if column.n_values == 0:
            return np.zeros(len(x)), missing
        if self.scaler == "none" and pa.types.is_integer(array.type):
            _warn_if_rounded(x, name)
        if not np.isfinite(x).all():
            x = np.nan_to_num(x, nan=column.centre, posinf=column.maximum, neginf=column.minimum)
        return SCALERS[self.scaler].forward(x, column), missing

    def decode(self, values: np.ndarray, missing: np.ndarray) -> pa.Array:
        """Numbers in the unit of the column, null where missing."""
        numbers = SCALERS[self.scaler].inverse(values.astype(np.float64), self.column)
        return pa.array(numbers, mask=missing)

    def to_artifact(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON and arrays that ``from_artifact`` turns back into this column."""
        config = asdict(self.column)
        kinds = {"quantiles": np.float64, "points": np.float64, "counts": np.int64}
        arrays = {field: np.array(config.pop(field), kind) for field, kind in kinds.items()}
        return {**config, "scaler": self.scaler}, arrays

    @classmethod
    def from_artifact(cls, name: str, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> NumberEncoder:
        """Rebuild what ``to_artifact`` gave."""
        fields = {key: value for key, value in config.items() if key not in ("scaler", "name")}
        points, counts = arrays["points"], arrays["counts"]
        fields |= {field: tuple(arrays[field].tolist()) for field in ("quantiles", "points", "counts")}
        column = ContinuousColumn(name, **fields)
        if config["scaler"] not in SCALERS or not column.scale > 0:
            raise ArtifactError(f"column {name!r}: the saved scaler is damaged, got {config['scaler']!r}")
        if not (points.size and np.isfinite(points).all() and (np.diff(points) > 0).all()):
            raise ArtifactError(
                f"column {name!r}: the saved points must be finite and rise, got {column.points[:5]}"
            )
        if counts.shape != points.shape or sum(column.counts) != column.n_values or counts.min() < 0:
            raise ArtifactError(
                f"column {name!r}: the saved counts must be of its points and rows, got {column.counts[:5]}"
            )
        return cls(column, config["scaler"])


def numbers(array: pa.Array, name: str) -> np.ndarray:
    """A column as float64, NaN where missing."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return numbers(array.dictionary_decode(), name)
    if pa.types.is_null(kind) or array.null_count == len(array):
        return np.full(len(array), np.nan)
    if pa.types.is_duration(kind):
        ticks = array.cast(pa.int64()).cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
        return ticks / _TICKS_PER_SECOND[kind.unit]
    if family(kind) != "numbers":
        raise TypeError(f"column {name!r}: must hold numbers, got {family(kind)}")
    if array.null_count == 0 and not pa.types.is_decimal(kind):
        return array.to_numpy().astype(np.float64, copy=False)
    return array.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()


def _warn_if_rounded(x: np.ndarray, name: str) -> None:
    large = x[np.abs(x) > _FLOAT32_WHOLE]
    if len(large) and np.any(large.astype(np.float32) != large):
        warn_user(
            f"column {name!r}: float32 changes its whole numbers beyond 2**24; "
            "choose a scaler, or make it Categorical() if it is a name"
        )
