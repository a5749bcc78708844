"""Cases of the numeric embeddings of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import reference
from torch import Tensor

from contracts.case import Case, by_row, some_numbers
from tabembed import nn as modules

# Edges of different numbers: a column of one bin, and one that was constant.
EDGES = [[-1.0, -0.5, 0.25, 1.0], [-0.5, 0.5], [-2.0, 0.1, 2.0], [0.3]]


def rows_of(m: Any, inputs: tuple[Any, ...], number: Any) -> Tensor:
    """The missing row, or what ``number(j, x)`` makes of a number."""

    def row(values: Sequence[float], missing: Sequence[bool]) -> list[list[float]]:
        lost = m.missing.tolist()
        return [lost[j] if g else number(j, x) for j, (x, g) in enumerate(zip(values, missing, strict=True))]

    return by_row(row, inputs[0].shape[:-1], *inputs)


def expect_periodic(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    c, weight, bias = (t.tolist() for t in (m.frequencies, m.weight, m.bias))
    if m.weight.ndim == 2:
        weight, bias = [weight] * m.n_features, [bias] * m.n_features
    if m.phases is not None:
        phases = m.phases.tolist()
        return rows_of(
            m, inputs, lambda j, x: reference.periodic_bias(x, c[j], phases[j], weight[j], bias[j])
        )
    activation = m.kind.activation
    return rows_of(m, inputs, lambda j, x: reference.periodic(x, c[j], weight[j], bias[j], activation))


def expect_piecewise(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    weight, bias = m.weight.tolist(), m.bias.tolist()
    edges = m.edges.tolist()

    def number(j: int, x: float) -> list[float]:
        own = sorted(set(edges[j]))
        x = min(max(x, own[0]), own[-1]) if m.extrapolation == "clip" else x
        rows = weight[j][: len(own) - 1]
        if m.slope is not None and not m.activation:
            return reference.piecewise_b(x, own, rows, m.slope[j].tolist(), bias[j])
        zeros = [0.0] * m.d_embedding
        code = reference.piecewise_a(x, own, rows, zeros if m.slope is not None else bias[j])
        code = [reference.relu(e) for e in code] if m.activation else code
        if m.slope is None:
            return code
        line = [w * x + b for w, b in zip(m.slope[j].tolist(), bias[j], strict=True)]
        return [a + b for a, b in zip(line, code, strict=True)]

    return rows_of(m, inputs, number)


def piecewise(seed: int | None, **own: Any) -> Any:
    return modules.PiecewiseLinearEmbedding(EDGES, 5, n_bins=4, seed=seed, **own)


CASES = [
    *(
        Case(
            f"PeriodicEmbedding-{variant}",
            lambda seed, variant=variant: modules.PeriodicEmbedding(
                3, 4, variant=variant, n_frequencies=5, frequency_scale=0.3, seed=seed
            ),
            lambda leading: some_numbers(leading, 3),
            expect_periodic,
            matrices=True,
        )
        for variant in ("plr", "pl", "plr-lite", "pbld")
    ),
    *(
        Case(
            f"PiecewiseLinearEmbedding-{version}-{extrapolation}" + ("-relu" if activation else ""),
            lambda seed, own=dict(version=version, activation=activation, extrapolation=extrapolation): (  # noqa: C408
                piecewise(seed, **own)
            ),
            lambda leading: some_numbers(leading, 4),
            expect_piecewise,
            matrices=True,
        )
        for version, activation, extrapolation in (
            ("A", False, "linear"),
            ("A", True, "clip"),
            ("B", False, "clip"),
            ("B", True, "linear"),
        )
    ),
]
