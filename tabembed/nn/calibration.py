"""Do features of a time move over the range that is in use? Measured, and made so."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from tabembed._checks import check_finite, check_integer, check_scale
from tabembed.nn.gaussian_fourier import GaussianFourierProjection
from tabembed.nn.timestep import TimestepFeatures, check_features
from tabembed.nn.timestep_embedding import TimestepEmbedding

Features = TypeVar("Features", TimestepFeatures, GaussianFourierProjection, TimestepEmbedding)

_MOVES = 0.1  # standard deviation from which a dimension counts as active
_CONSTANT = 0.95  # mean cosine of two times above which they are as good as one
_SLOWEST = 2.0  # radians of the slowest wave over the range
_FEWEST_TURNS = 5.0  # spread of a Gaussian projection's turns over the range, at least
_SHORTEST, _LONGEST = 1e-20, 1e20  # ranges whose scale float32 can multiply times by
_LOST = 2.0**24 * 1e-3  # phase at which float32 is off by a thousandth of a radian


@dataclass(frozen=True)
class Coverage:
    """How much the features of a time move over a range.

    Args:
        n_dims: width of the features.
        active_dims: dimensions whose standard deviation over the range is above 0.1.
        n_components: principal components that hold 99 % of the variance.
        similarity: mean cosine similarity of two times in the range.
        neighbour_similarity: smallest cosine similarity of two neighbouring points.
    """

    n_dims: int
    active_dims: int
    n_components: int
    similarity: float
    neighbour_similarity: float

    @property
    def active_share(self) -> float:
        """Share of the dimensions that are active."""
        return self.active_dims / self.n_dims

    @property
    def nearly_constant(self) -> bool:
        """Two times in the range have a mean cosine similarity above 0.95: a network hardly sees time."""
        return self.similarity > _CONSTANT

    def __str__(self) -> str:
        """Say it in one line."""
        verdict = "nearly constant" if self.nearly_constant else "moves"
        components = "component holds" if self.n_components == 1 else "components hold"
        return (
            f"{verdict}: {self.active_dims} of {self.n_dims} dims active, {self.n_components} {components} "
            f"99 % of the variance, mean cosine of two times {self.similarity:.3f}, "
            f"of neighbours at least {self.neighbour_similarity:.3f}"
        )


def coverage(
    features: nn.Module | Callable[[Tensor], Tensor], t_range: Sequence[float], *, n: int = 1000
) -> Coverage:
    """Measure how much an embedding of time moves over the range in use.

    Args:
        features: anything that maps times ``(n,)`` to ``(n, dim)``; of a ``TimestepEmbedding`` its
            features are measured: what they do not tell apart, no network behind them can.
        t_range: first and last time; features of ln t with an ``epsilon`` begin there at the earliest.
        n: number of times, evenly spaced; evenly in ln t when the features take the logarithm.

    Raises: ValueError when the range is empty, shorter than 1e-20 or longer than 1e20, or reaches 0 where
        a logarithm is taken without an ``epsilon``. TypeError for what is no pair of numbers.

    >>> print(coverage(TimestepFeatures(256), (0, 1)))
    nearly constant: 18 of 256 dims active, 1 component holds 99 % of the variance, ...
    >>> coverage(TimestepFeatures(256, scale=1000), (0, 1)).active_dims
    210
    """
    check_integer(2, n=n)
    inner = features.features if isinstance(features, TimestepEmbedding) else features
    low, high = _range(inner, t_range)
    times = torch.linspace(low, high, n, dtype=torch.float64)
    times = times.exp().clamp(*map(float, t_range)) if getattr(inner, "log", False) else times
    with torch.no_grad():
        codes = inner(times.to(_device(features))).double().cpu()
    variances = torch.linalg.svdvals(codes - codes.mean(0)).square()
    below = variances.cumsum(0) < 0.99 * variances.sum()
    unit = nn.functional.normalize(codes, dim=-1)
    return Coverage(
        n_dims=codes.shape[-1],
        active_dims=int((codes.std(0) > _MOVES).sum()),
        n_components=int(below.sum()) + 1,
        similarity=unit.mean(0).square().sum().item(),
        neighbour_similarity=(unit[1:] * unit[:-1]).sum(-1).min().item(),
    )


def calibrate(features: Features, t_range: Sequence[float], *, steps: int = 1000) -> Features:
    """Features of the same kind that move over a range and tell ``steps`` steps of it apart, smoothly.

    A larger scale always moves more dimensions, and beyond some point makes noise of time: neighbours
    become strangers. So the scale follows from the steps.

    - ``TimestepFeatures``: the fastest wave turns by 1 radian a step, as for the integer steps of DDPM,
      and the slowest by 2 radians over the whole range (``max_period = steps / 2``). Neighbours keep a
      cosine of 0.96, no two times look alike, and even near a crest a wave's std over 2 radians is above
      0.1, wherever the range begins. ``precision`` becomes ``"exact"`` when the phases are too large
      for float32.
    - ``GaussianFourierProjection``: its frequencies spread around 0, and one scale has to do. At 5 turns
      over the range nine dimensions in ten move; at ``steps / 6π`` turns a frequency three deviations
      out goes 1 radian a step. The scale is the geometric middle, 16 turns for 1,000 steps, the scale
      of score_sde. (Below 94 steps the two cross, and 5 turns are kept.) The frequencies are the ones
      that were drawn or learned, rescaled; a projection of ln t is calibrated in ln t.
    - ``TimestepEmbedding``: a copy with the same weights on calibrated features. Weights that were
      trained read the old ones, so calibrate first and train then.

    Args:
        features: ``TimestepFeatures``, ``GaussianFourierProjection`` or ``TimestepEmbedding``; it is
            not changed.
        t_range: first and last time, as for ``coverage``.
        steps: how many steps of the range to tell apart.

    Raises: TypeError for another kind. ValueError as ``coverage``.

    >>> calibrate(TimestepFeatures(256), (0, 1))
    TimestepFeatures(256, order=cos_sin, freq_shift=0, scale=1000, max_period=500, precision=fp32)
    >>> coverage(calibrate(TimestepFeatures(256), (0, 1)), (0, 1)).active_share
    1.0
    """
    check_integer(2, steps=steps)
    if not isinstance(features, TimestepEmbedding):
        return _calibrated(features, t_range, steps)
    twin = copy.deepcopy(features)
    twin.features = _calibrated(features.features, t_range, steps)
    return twin


def _calibrated(features: Any, t_range: Sequence[float], steps: int) -> Any:
    check_features(features)
    low, high = _range(features, t_range)
    if isinstance(features, TimestepFeatures):
        scale = steps / (high - low)
        return TimestepFeatures(
            features.dim,
            order=features.order,
            freq_shift=features.freq_shift,
            scale=scale,
            max_period=steps / _SLOWEST,
            precision="exact" if scale * max(abs(low), abs(high)) > _LOST else features.precision,
        ).to(features._follows_dtype)
    turns = math.sqrt(_FEWEST_TURNS * max(_FEWEST_TURNS, steps / (6 * math.pi)))
    return _rescaled(features, turns / (high - low))


def _range(features: object, t_range: Sequence[float]) -> tuple[float, float]:
    """First and last time, as the features count them."""
    rule = "t_range must be a first and a last time"
    try:
        first, last = t_range
    except (TypeError, ValueError) as error:
        raise type(error)(f"{rule}, got {t_range!r}") from None
    check_finite(**{"t_range[0]": first, "t_range[1]": last})
    if not first < last:
        raise ValueError(f"t_range must rise, got {t_range!r}")
    low, high = _logarithms(features, t_range) if getattr(features, "log", False) else (first, last)
    if not _SHORTEST <= float(high) - float(low) <= _LONGEST:
        raise ValueError(f"t_range must be {_SHORTEST:g} to {_LONGEST:g} long, got {t_range!r}")
    return float(low), float(high)


def _logarithms(features: object, t_range: Sequence[float]) -> tuple[float, float]:
    first, last = t_range
    epsilon = getattr(features, "epsilon", None)
    if epsilon is not None:
        if last <= epsilon:
            raise ValueError(f"t_range must end above epsilon={epsilon}, got {t_range!r}")
        first = max(first, epsilon)
    if first <= 0:
        raise ValueError(f"t_range must begin above 0 for features of ln t, got {t_range!r}")
    return math.log(first), math.log(last)


def _rescaled(projection: GaussianFourierProjection, scale: float) -> GaussianFourierProjection:
    """The same frequencies, at another scale."""
    check_scale(scale=scale)
    twin = copy.deepcopy(projection)
    with torch.no_grad():
        twin.frequencies.mul_(scale / twin.scale)
    twin.scale = scale
    return twin


def _device(features: object) -> torch.device:
    if not isinstance(features, nn.Module):
        return torch.device("cpu")
    return next((x.device for x in chain(features.parameters(), features.buffers())), torch.device("cpu"))
