"""Cases of the Fourier features of numbers, and of modules by column."""

from __future__ import annotations

import math
from typing import Any

import reference
from torch import Tensor

from contracts.case import Case, by_row, some_numbers
from tabembed import nn as modules


def two_linear(seed: int | None) -> modules.PerColumn:
    """Every column a linear embedding of one number, whose own missing row is never used."""
    columns = [Single(seed if seed is None else seed + j) for j in (1, 2, 3)]
    return modules.PerColumn(columns, 4, seed=seed)


class Single(modules.LinearEmbedding):
    """A linear embedding of one column, without the dimension of columns."""

    def __init__(self, seed: int | None) -> None:
        super().__init__(1, 4, seed=seed)

    def forward(self, values: Tensor, missing: Tensor | None = None) -> Tensor:
        return super().forward(values, missing).squeeze(-2) + 0 * self.missing.sum()


def expect_per_column(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    weights = [(c.weight[0].tolist(), c.bias[0].tolist()) for c in m.columns]

    def row(values: Any, missing: Any) -> list[list[float]]:
        rows = zip(values, missing, weights, m.missing.tolist(), strict=True)
        return [reference.linear(x, gone, *weight, instead) for x, gone, weight, instead in rows]

    return by_row(row, inputs[0].shape[:-1], *inputs)


def some_noise_levels(leading: tuple[int, ...]) -> tuple[Tensor]:
    return (some_numbers(leading, 1)[0][..., 0].nan_to_num(0.5),)


def expect_projection(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    frequencies = m.frequencies.tolist()
    at = lambda t: reference.gaussian_projection(t, frequencies, m.order, m.log)  # noqa: E731
    return by_row(at, inputs[0].shape, inputs[0])


def expect_learned(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    weights = (m.frequencies.tolist(), m.weight.tolist(), m.bias.tolist())
    return by_row(lambda x: reference.learned_fourier(x, *weights), inputs[0].shape[:-1], inputs[0])


def expect_hidden(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    first = (m.frequencies.tolist(), m.weight_hidden.tolist(), m.bias_hidden.tolist())
    last = (m.weight.tolist(), m.bias.tolist())

    def row(x: Any) -> list[float]:
        hidden = [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in reference.learned_fourier(x, *first)]
        return reference.affine(hidden, *last)

    return by_row(row, inputs[0].shape[:-1], inputs[0])


CASES = [
    Case("PerColumn", two_linear, lambda leading: some_numbers(leading, 3), expect_per_column),
    Case(
        "GaussianFourierProjection",
        lambda seed: modules.GaussianFourierProjection(6, seed=seed),
        some_noise_levels,
        expect_projection,
    ),
    Case(
        "GaussianFourierProjection-learnable",
        lambda seed: modules.GaussianFourierProjection(
            10, scale=0.5, log=True, learnable=True, order="cos_sin", seed=seed
        ),
        lambda leading: (some_noise_levels(leading)[0].exp(),),
        expect_projection,
    ),
    Case(
        "LearnedFourierFeatures",
        lambda seed: modules.LearnedFourierFeatures(3, 5, n_frequencies=7, seed=seed),
        lambda leading: (some_numbers(leading, 3)[0].nan_to_num(),),
        expect_learned,
        matrices=True,
    ),
    Case(
        "LearnedFourierFeatures-hidden",
        lambda seed: modules.LearnedFourierFeatures(
            3, 5, n_frequencies=7, hidden_features=4, scale=1.0, seed=seed
        ),
        lambda leading: (some_numbers(leading, 3)[0].nan_to_num(),),
        expect_hidden,
        matrices=True,
    ),
]
