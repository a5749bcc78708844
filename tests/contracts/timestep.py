"""Cases of diffusion timesteps and conditioning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import reference
import torch
from torch import Tensor

from contracts.case import Case, by_row, drawn
from tabembed import nn as modules
from tabembed.nn.draws import generator_of, normal_


class FiLM(modules.FiLM):
    """The same, started from drawn weights instead of zeros, so that every check sees them."""

    def __init__(self, cond_dim: int, dim: int, seed: int | None) -> None:
        self.seed = seed
        super().__init__(cond_dim, dim)

    def reset_parameters(self) -> None:
        draw(self)


class AdaLayerNorm(modules.AdaLayerNorm):
    """The same, started from drawn weights; where there is a gate, it stands beside ``h``."""

    def __init__(self, cond_dim: int, dim: int, chunk_order: str, seed: int | None) -> None:
        self.seed = seed
        super().__init__(cond_dim, dim, chunk_order=chunk_order)

    def reset_parameters(self) -> None:
        draw(self)

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        parts = super().forward(x, cond)
        return parts if isinstance(parts, Tensor) else torch.cat([parts[0], parts[1].expand_as(parts[0])], -1)


def draw(module: Any) -> None:
    generator = generator_of(module.seed)
    for weight in module.parameters():
        normal_(weight, 0.7, generator)


def some_steps(leading: Sequence[int], below: int) -> Tensor:
    return torch.randint(below, tuple(leading), generator=drawn(3))


def some_instants(leading: Sequence[int]) -> Tensor:
    return 20 * torch.rand(tuple(leading), generator=drawn(4), dtype=torch.float64).float()


def some_conditioned(leading: Sequence[int], dim: int, cond_dim: int) -> tuple[Tensor, Tensor]:
    widths = ((2, dim), (cond_dim,))  # two places share one condition
    x, cond = (
        torch.randn(*leading, *width, generator=drawn(j), dtype=torch.float64).float()
        for j, width in enumerate(widths)
    )
    return x, cond


def features_of(m: Any, t: float) -> list[float]:
    if isinstance(m, modules.GaussianFourierProjection):
        return reference.gaussian_projection(t, m.frequencies.tolist(), m.order)
    return reference.timestep(t, m.dim, m.order, m.freq_shift, m.scale, m.max_period)


def expect_features(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    return by_row(lambda t: features_of(m, t), inputs[0].shape, inputs[0])


def expect_embedding(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    layers = [(layer.weight.tolist(), layer.bias.tolist()) for layer in (m.mlp[0], m.mlp[2])]
    return by_row(lambda t: reference.mlp(features_of(m.features, t), layers), inputs[0].shape, inputs[0])


def gaussian_embedding(seed: int | None) -> modules.TimestepEmbedding:
    features = modules.GaussianFourierProjection(8, scale=1.0, seed=seed)
    return modules.TimestepEmbedding(features, 4, init="k_diffusion", seed=seed)


def expect_film(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    weight, bias = m.linear.weight.tolist(), m.linear.bias.tolist()

    def row(x: Any, cond: Any) -> list[list[float]]:
        both = reference.mlp(cond, [(weight, bias)])
        return [reference.film(place, both[: m.dim], both[m.dim :]) for place in x]

    return by_row(row, inputs[1].shape[:-1], *inputs)


def expect_norm(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    weight, bias = m.linear.weight.tolist(), m.linear.bias.tolist()
    names = m.chunk_order.split("_")

    def row(x: Any, cond: Any) -> list[list[float]]:
        flat = reference.mlp([e / (1 + math.exp(-e)) for e in cond], [(weight, bias)])
        part = {name: flat[i * m.dim : (i + 1) * m.dim] for i, name in enumerate(names)}
        places = [reference.ada_layer_norm(place, part["scale"], part["shift"], m.eps) for place in x]
        return [place + part.get("gate", []) for place in places]

    return by_row(row, inputs[1].shape[:-1], *inputs)


CASES = [
    Case(
        "TimestepFeatures",
        lambda seed: modules.TimestepFeatures(8),
        lambda leading: (some_instants(leading),),
        expect_features,
    ),
    Case(
        "TimestepFeatures-exact",
        lambda seed: modules.TimestepFeatures(
            7, order="sin_cos", freq_shift=1, scale=3.0, max_period=50.0, precision="exact"
        ),
        lambda leading: (some_steps(leading, 10**6),),
        expect_features,
    ),
    Case(
        "TimestepEmbedding",
        lambda seed: modules.TimestepEmbedding(
            modules.TimestepFeatures(9), 3, hidden_features=5, init="score_sde", seed=seed
        ),
        lambda leading: (some_steps(leading, 20),),
        expect_embedding,
        matrices=True,
    ),
    Case(
        "TimestepEmbedding-Gaussian",
        gaussian_embedding,
        lambda leading: (some_steps(leading, 20),),
        expect_embedding,
        matrices=True,
    ),
    Case(
        "FiLM",
        lambda seed: FiLM(3, 4, seed),
        lambda leading: some_conditioned(leading, 4, 3),
        expect_film,
        matrices=True,
    ),
    Case(
        "AdaLayerNorm",
        lambda seed: AdaLayerNorm(3, 5, "gate_shift_scale", seed),
        lambda leading: some_conditioned(leading, 5, 3),
        expect_norm,
        matrices=True,
    ),
    Case(
        "AdaLayerNorm-no gate",
        lambda seed: AdaLayerNorm(3, 5, "scale_shift", seed),
        lambda leading: some_conditioned(leading, 5, 3),
        expect_norm,
        matrices=True,
    ),
]
