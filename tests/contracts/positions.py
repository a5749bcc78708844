"""Cases of the modules that say where a row stands, by number or in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import reference
import torch
from torch import Tensor, nn

from contracts.case import EARLIEST, LATEST, Case, by_row, drawn, some_ids
from tabembed import nn as modules
from tabembed.nn.draws import generator_of, normal_

HOUR, ORIGIN = 3600 * 10**9, 1_372_000_000 * 10**9
STEPS = 5


class Drawn(nn.Module):
    """Parameters that a module starts from fixed numbers get drawn ones, so that every check sees them."""

    def __init__(self, *args: Any, seed: int | None = None, **kwargs: Any) -> None:
        self.seed = seed
        super().__init__(*args, **kwargs)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        generator = generator_of(self.seed)
        with torch.no_grad():
            for parameter in self.parameters():
                factor = torch.empty_like(parameter, dtype=torch.float32)
                normal_(factor, 0.3, generator)
                parameter.copy_(torch.where(parameter == 0, factor, parameter.float() * factor.exp()))


class RotaryEmbedding(Drawn, modules.RotaryEmbedding):
    """The same, with queries and keys one after the other."""

    def forward(self, q: Tensor, k: Tensor, positions: Tensor, k_positions: Tensor | None = None) -> Tensor:
        return flat(super().forward(q, k, positions=positions, k_positions=k_positions))


class RelativeDecay(Drawn, modules.RelativeDecay):
    """The same, with queries and keys one after the other."""

    def forward(self, q: Tensor, k: Tensor, positions: Tensor, k_positions: Tensor) -> Tensor:
        return flat(super().forward(q, k, positions=positions, k_positions=k_positions, origin=ORIGIN))


class ALiBiEmbedding(Drawn, modules.ALiBiEmbedding):
    """The same, from drawn slopes where they are learned."""


class SinusoidalEmbedding(Drawn, modules.SinusoidalEmbedding):
    """The same, with positions by place."""

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return super().forward(x, positions=positions)


class LearnedPositionalEmbedding(modules.LearnedPositionalEmbedding):
    """The same, with positions by place."""

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return super().forward(x, positions=positions)


class TemporalPositionEncoder(Drawn, modules.TemporalPositionEncoder):
    """The same, with the factors beside the code, and positions by place."""

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return torch.cat(super().forward(x, positions=positions), -1)


def flat(pair: tuple[Tensor, Tensor]) -> Tensor:
    return torch.cat([part.flatten(-3) for part in pair], -1)


def some_rows(leading: Sequence[int], *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*leading, *shape, generator=drawn(seed), dtype=torch.float64).float()


def some_instants(leading: Sequence[int], steps: int = STEPS) -> Tensor:
    """Nanoseconds of a year, sorted, the first two equal."""
    times = torch.randint(EARLIEST, LATEST, (*leading, steps), generator=drawn(13)).sort(-1).values
    return torch.cat((times[..., :1], times[..., :1], times[..., 2:]), -1)


def some_places(leading: Sequence[int], steps: int = STEPS, below: int = 40) -> Tensor:
    return torch.randint(below, (*leading, steps), generator=drawn(14)).sort(-1).values


def some_seconds(leading: Sequence[int]) -> Tensor:
    return some_instants(leading).double() / 1e9


def some_pair(leading: Sequence[int], dim: int, k_steps: int = STEPS) -> tuple[Tensor, Tensor]:
    """Queries of three heads, keys of one."""
    return some_rows(leading, 3, STEPS, dim), some_rows(leading, 1, k_steps, dim, seed=1)


def the_parameter(m: Any) -> list[float]:
    (parameter,) = m.parameters()
    return parameter.tolist()


def rotated(rows: Any, positions: Any, frequencies: list[float], layout: str) -> list[float]:
    """Every row of every head, one after the other."""
    out: list[float] = []
    for head in rows:
        for row, p in zip(head, positions, strict=True):
            out += reference.rotary(row, p, frequencies, layout)
    return out


def expect_rotary(frequencies: list[float] | None, layout: str) -> Any:
    """The loop with fixed frequencies, or with those learned."""

    def expected(m: Any, inputs: tuple[Any, ...]) -> Tensor:
        f = m.frequencies.tolist() if frequencies is None else frequencies

        def row(q: Any, k: Any, positions: Any, k_positions: Any = None) -> list[float]:
            return rotated(q, positions, f, layout) + rotated(k, k_positions or positions, f, layout)

        return by_row(row, inputs[2].shape[:-1], *inputs)

    return expected


def faded(rows: Any, positions: Any, half_lives: list[float], sign: int) -> list[float]:
    """Every row of every head, as many times halved as half-lives have passed since the origin."""
    out: list[float] = []
    for head in rows:
        for row, p in zip(head, positions, strict=True):
            out += [e * 2.0 ** (-sign * (p - ORIGIN) / h) for e, h in zip(row, half_lives, strict=True)]
    return out


def expect_decay(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    half_lives = m.half_lives.tolist()

    def row(q: Any, k: Any, positions: Any, k_positions: Any) -> list[float]:
        return faded(q, positions, half_lives, 1) + faded(k, k_positions, half_lives, -1)

    return by_row(row, inputs[2].shape[:-1], *inputs)


def expect_alibi(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    slopes = m.slopes.tolist()

    def row(scores: Any) -> list[list[list[float]]]:
        ahead = len(scores[0][0]) - len(scores[0])
        return [
            [
                [e + reference.alibi_bias(i + ahead, j, slope, m.unit, m.mode) for j, e in enumerate(line)]
                for i, line in enumerate(head)
            ]
            for head, slope in zip(scores, slopes, strict=True)
        ]

    return by_row(row, inputs[0].shape[:-3], *inputs)


def expect_sinusoidal(base: float = 10_000.0) -> Any:
    """The loop with the learned scale."""

    def expected(m: Any, inputs: tuple[Any, ...]) -> Tensor:
        scale = [p.item() for p in m.parameters()] or [1.0]

        def row(x: Any, positions: Any = None) -> list[list[float]]:
            places = range(len(x)) if positions is None else positions
            codes = [reference.sinusoidal(p, m.dim, base) for p in places]
            return [
                [e + scale[0] * c for e, c in zip(a, b, strict=True)] for a, b in zip(x, codes, strict=True)
            ]

        return by_row(row, inputs[0].shape[:-2], *inputs)

    return expected


def expect_learned(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    table = the_parameter(m)

    def row(x: Any, positions: Any = None) -> list[list[float]]:
        places = range(len(x)) if positions is None else positions
        return [
            reference.learned_position(e, p, table, m.padding_idx) for e, p in zip(x, places, strict=True)
        ]

    return by_row(row, inputs[0].shape[:-2], *inputs)


def expect_token(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    table = the_parameter(m)
    return by_row(lambda i: reference.token(i, table, m.padding_idx), inputs[0].shape, *inputs)


def expect_temporal(base: float, origin: int = 0) -> Any:
    """The loop with the learned rates."""

    def expected(m: Any, inputs: tuple[Any, ...]) -> Tensor:
        rates, frequencies = the_parameter(m), reference.ladder(m.dim // 2, m.dim, base)

        def row(x: Any, positions: Any = None) -> list[list[float]]:
            places = range(len(x)) if positions is None else positions
            out = []
            for e, p in zip(x, places, strict=True):
                factor = reference.temporal_position(e, p - origin, frequencies, rates, m.horizon)[1]
                code = reference.rotary(e, p, frequencies)
                out.append([c * f for c, f in zip(code, factor, strict=True)] + factor)
            return out

        return by_row(row, inputs[0].shape[:-2], *inputs)

    return expected


YEAR = reference.frequencies_from_periods(HOUR, 8766 * HOUR, 4)  # in nanoseconds
DAYS = reference.frequencies_from_periods(60.0, 86_400.0, 3)  # in seconds
BATCHES = ((), (3,), (0,))

CASES = [
    Case(
        "RotaryEmbedding",
        lambda seed: RotaryEmbedding(6, seed=seed),
        lambda leading: (*some_pair(leading, 6), some_places(leading)),
        expect_rotary(reference.ladder(3, 6), "half"),
        follows=2,
        leading=BATCHES,
        fused=True,
    ),
    Case(
        "RotaryEmbedding-nanoseconds",
        lambda seed: RotaryEmbedding(8, frequencies=YEAR, layout="interleaved", seed=seed),
        lambda leading: (*some_pair(leading, 8), some_instants(leading)),
        expect_rotary(YEAR, "interleaved"),
        follows=2,
        leading=BATCHES,
        fused=True,
    ),
    Case(
        "RotaryEmbedding-seconds",
        lambda seed: RotaryEmbedding(6, frequencies=DAYS, seed=seed),
        lambda leading: (*some_pair(leading, 6), some_seconds(leading)),
        expect_rotary(DAYS, "half"),
        follows=2,
        leading=BATCHES,
        fused=True,
    ),
    Case(
        "RotaryEmbedding-partial",
        lambda seed: RotaryEmbedding(7, base=50.0, rotary_dim=4, layout="interleaved", seed=seed),
        lambda leading: (
            *some_pair(leading, 7, 4),
            some_places(leading),
            some_places(leading, 4) - 9,
        ),
        expect_rotary(reference.ladder(2, 4, 50.0), "interleaved"),
        follows=2,
        leading=BATCHES,
        fused=True,
    ),
    Case(
        "RotaryEmbedding-learned",
        lambda seed: RotaryEmbedding(6, learnable=True, seed=seed),
        lambda leading: (*some_pair(leading, 6), some_places(leading).float() / 7),
        expect_rotary(None, "half"),
        follows=2,
        leading=BATCHES,
        fused=True,
    ),
    Case(
        "RelativeDecay",
        lambda seed: RelativeDecay(6, half_lives=(4000 * HOUR, 8000 * HOUR), seed=seed),
        lambda leading: (*some_pair(leading, 6, 4), some_instants(leading), some_instants(leading, 4)),
        expect_decay,
        follows=2,
        leading=BATCHES,
        fused=True,
    ),
    Case(
        "RelativeDecay-learned",
        lambda seed: RelativeDecay(6, half_lives=(4000 * HOUR, 8000 * HOUR), learnable=True, seed=seed),
        lambda leading: (*some_pair(leading, 6, 4), some_instants(leading), some_instants(leading, 4)),
        expect_decay,
        follows=2,
        leading=BATCHES,
        fused=True,
    ),
    Case(
        "ALiBiEmbedding",
        lambda seed: ALiBiEmbedding(3, unit=2.0, seed=seed),
        lambda leading: (some_rows(leading, 3, 4, 5),),
        expect_alibi,
        follows=1,
        leading=BATCHES,
    ),
    Case(
        "ALiBiEmbedding-causal",
        lambda seed: ALiBiEmbedding(2, mode="causal", seed=seed),
        lambda leading: (some_rows(leading, 2, 1, 4),),
        expect_alibi,
        follows=1,
        leading=BATCHES,
    ),
    Case(
        "ALiBiEmbedding-learned",
        lambda seed: ALiBiEmbedding(3, slopes="learned", seed=seed),
        lambda leading: (some_rows(leading, 3, 4, 4),),
        expect_alibi,
        follows=1,
        leading=BATCHES,
    ),
    Case(
        "SinusoidalEmbedding",
        lambda seed: SinusoidalEmbedding(6, base=100.0, seed=seed),
        lambda leading: (some_rows(leading, STEPS, 6),),
        expect_sinusoidal(100.0),
        follows=1,
        leading=BATCHES,
    ),
    Case(
        "SinusoidalEmbedding-odd",
        lambda seed: SinusoidalEmbedding(5, learned_scale=True, seed=seed),
        lambda leading: (some_rows(leading, STEPS, 5), some_places(leading, below=250)),
        expect_sinusoidal(),
        follows=1,
        leading=BATCHES,
    ),
    Case(
        "SinusoidalEmbedding-seconds",
        lambda seed: SinusoidalEmbedding(4, seed=seed),
        lambda leading: (some_rows(leading, STEPS, 4), some_seconds(leading) - 1.3e9),
        expect_sinusoidal(),
        follows=1,
        leading=BATCHES,
    ),
    Case(
        "LearnedPositionalEmbedding",
        lambda seed: LearnedPositionalEmbedding(7, 4, init_std=1.0, seed=seed),
        lambda leading: (some_rows(leading, STEPS, 4),),
        expect_learned,
        follows=1,
        leading=BATCHES,
    ),
    Case(
        "LearnedPositionalEmbedding-padding",
        lambda seed: LearnedPositionalEmbedding(40, 4, padding_idx=0, seed=seed),
        lambda leading: (some_rows(leading, STEPS, 4), some_places(leading) * (torch.arange(STEPS) > 1)),
        expect_learned,
        follows=1,
        leading=BATCHES,
    ),
    Case(
        "TokenEmbedding",
        lambda seed: modules.TokenEmbedding(7, 5, padding_idx=2, seed=seed),
        lambda leading: (some_ids(leading, 7)[..., 0],),
        expect_token,
    ),
    Case(
        "TemporalPositionEncoder",
        lambda seed: TemporalPositionEncoder(6, horizon=40, decay_rate=0.5, base=100.0, seed=seed),
        lambda leading: (some_rows(leading, STEPS, 6),),
        expect_temporal(100.0),
        follows=1,
        leading=BATCHES,
        fused=True,
    ),
    Case(
        "TemporalPositionEncoder-nanoseconds",
        lambda seed: TemporalPositionEncoder(
            4, horizon=8766 * HOUR, origin=ORIGIN, decay_rate=3.0, seed=seed
        ),
        lambda leading: (some_rows(leading, STEPS, 4), some_instants(leading)),
        expect_temporal(10_000.0, ORIGIN),
        follows=1,
        leading=BATCHES,
        fused=True,
    ),
    Case(
        "TemporalPositionEncoder-days",
        lambda seed: TemporalPositionEncoder(4, horizon=30.5, decay_rate=2.0, seed=seed),
        lambda leading: (some_rows(leading, STEPS, 4), some_places(leading).double() / 7),
        expect_temporal(10_000.0),
        follows=1,
        leading=BATCHES,
        fused=True,
    ),
]
