"""Cases of the modules that read time as a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import reference
import torch
from torch import Tensor

from contracts.case import EARLIEST, LATEST, SCHEMA, Case, by_row, drawn, some_times
from tabembed import nn as modules
from tabembed.schema import MISSING_TIME

DAY = 86_400 * 10**9


def some_instants(leading: Sequence[int]) -> tuple[Tensor]:
    """Nanoseconds of a year, which float32 would move by a minute."""
    return (torch.randint(EARLIEST, LATEST, tuple(leading), generator=drawn(11)),)


def some_floats(leading: Sequence[int]) -> tuple[Tensor]:
    return (torch.randn(tuple(leading), generator=drawn(12), dtype=torch.float64).float() * 50,)


def expect_cyclic(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    return by_row(lambda x: reference.cyclic(x, m.period, m.n_harmonics), inputs[0].shape, inputs[0])


def calendar(time: int, n_harmonics: int) -> list[float]:
    """Days, weeks from Monday, years of 365.2425 days since 1970, and the place in the fit from -1 to 1."""
    vector = []
    for period, shift in ((DAY, 0), (7 * DAY, 3 * DAY), (DAY * Fraction("365.2425"), 0)):
        vector += reference.cyclic(time + shift, period, n_harmonics)
    return [*vector, 2 * reference.position(time, EARLIEST, LATEST) - 1]


def expect_calendar(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    missing = m.per_column.missing.tolist()

    def row(times: Sequence[int]) -> list[list[float]]:
        pairs = zip(times, missing, strict=True)
        return [gone if t == MISSING_TIME else calendar(t, 2) for t, gone in pairs]

    return by_row(row, inputs[0].shape[:-1], inputs[0])


def timestamp(m: Any, t: float) -> list[float]:
    mlp, waves = m.network.mlp, m.network.features
    layers = [(layer.weight.tolist(), layer.bias.tolist()) for layer in (mlp[0], mlp[2])]
    place = (t - m.origin) / m.span  # Python's integers: exact, then rounded once
    return reference.timestamp(place, waves.frequencies.tolist(), layers)


def expect_timestamp(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    return by_row(lambda t: timestamp(m, t), inputs[0].shape, inputs[0])


def expect_timestamps(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    missing = m.per_column.missing.tolist()

    def row(times: Sequence[int]) -> list[list[float]]:
        parts = zip(m.per_column.columns, times, missing, strict=True)
        return [gone if t == MISSING_TIME else timestamp(part, t) for part, t, gone in parts]

    return by_row(row, inputs[0].shape[:-1], inputs[0])


def expect_frequency(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    fixed = [(i + 1) * 2 * math.pi / m.period for i in range(m.embed_dim)]
    f = fixed if m.frequency is None else m.frequency.tolist()
    left = m.embed_dim + 1 - len(m.amplitude)
    amplitude, bias = m.amplitude.tolist() + [1.0] * left, m.bias.tolist() + [0.0] * left
    return by_row(
        lambda t: reference.frequency(t, f, m.phase.tolist(), amplitude, bias), inputs[0].shape, inputs[0]
    )


def two_columns(leading: Sequence[int]) -> tuple[Tensor]:
    return (some_times(leading, 2),)


CASES = [
    Case(
        "CyclicEmbedding",
        lambda seed: modules.CyclicEmbedding(7 * DAY, n_harmonics=3),
        some_instants,
        expect_cyclic,
    ),
    Case(
        "CyclicEmbedding-floats",
        lambda seed: modules.CyclicEmbedding(math.e),
        some_floats,
        expect_cyclic,
    ),
    Case(
        "TimeColumns-cyclic",
        lambda seed: modules.CyclicEmbedding.from_columns(SCHEMA.datetime * 2, n_harmonics=2, seed=seed),
        two_columns,
        expect_calendar,
    ),
    Case(
        "TimestampEmbedding",
        lambda seed: modules.TimestampEmbedding(
            5, n_frequencies=3, origin=EARLIEST, span=LATEST - EARLIEST, seed=seed
        ),
        some_instants,
        expect_timestamp,
        matrices=True,
    ),
    Case(
        "TimestampEmbedding-floats",
        lambda seed: modules.TimestampEmbedding(4, n_frequencies=5, scale=0.3, span=100.0, seed=seed),
        some_floats,
        expect_timestamp,
        matrices=True,
    ),
    Case(
        "TimeColumns-timestamp",
        lambda seed: modules.TimestampEmbedding.from_columns(
            SCHEMA.datetime * 2, 3, n_frequencies=4, seed=seed
        ),
        two_columns,
        expect_timestamps,
        matrices=True,
    ),
    Case(
        "FrequencyEmbedding",
        lambda seed: modules.FrequencyEmbedding(5, seed=seed),
        some_floats,
        expect_frequency,
    ),
    Case(
        "FrequencyEmbedding-fourier",
        lambda seed: modules.FrequencyEmbedding(3, learnable=False, period=24.0, seed=seed),
        some_floats,
        expect_frequency,
    ),
    Case(
        "FrequencyEmbedding-time2vec",
        lambda seed: modules.FrequencyEmbedding(4, amplitudes=False, seed=seed),
        some_floats,
        expect_frequency,
    ),
]
