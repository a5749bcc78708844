"""How a module is described to the contract tests, and what it is fed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tabembed.batch import Ragged
from tabembed.schema import (
    MISSING_TIME,
    CategoricalColumn,
    ContinuousColumn,
    DatetimeColumn,
    ListColumn,
    TableSchema,
)

EARLIEST, LATEST = 1_356_998_400 * 10**9, 1_388_534_400 * 10**9
SCHEMA = TableSchema(
    9,
    (
        ContinuousColumn("delay", 8, 1, 0.0, 1.0, -2.0, 2.0, 0.0, 1.0, (-2.0, 2.0), (-2.0, 2.0), (4, 4)),
        CategoricalColumn("city", (0, 1, 1, 3, 2, 1, 1)),
        DatetimeColumn("departure", 8, 1, EARLIEST, LATEST, "UTC"),
        CategoricalColumn("airline", (0, 0, 0, 5, 3, 1)),
        ContinuousColumn("distance", 9, 0, 0.0, 1.0, -2.0, 2.0, 0.0, 1.0, (-2.0, 2.0), (-2.0, 2.0), (4, 5)),
    ),
)
TAGS = TableSchema(9, (*SCHEMA.columns[:2], ListColumn("tags", (0, 0, 1, 4, 3, 2)), SCHEMA.columns[2]))


@dataclass(frozen=True)
class Case:
    """How a module is made, fed, and computed by hand.

    Args:
        name: name of the class, perhaps with a variant after a dash.
        make: a module from a seed.
        inputs: arguments of ``forward`` for some leading dimensions.
        expected: the output in float64, from the module's weights and the inputs.
        leading: leading dimensions that it takes.
        matrices: it has learned matrices in the middle, so that half precision and autocast round
            more than once.
        follows: number of first inputs whose dtype the output has; with 0 it has that of the weights.
        fused: it calls an operator with one way for contiguous inputs, another for strided or traced ones;
            in float32 they agree to the last digit but one.
    """

    name: str
    make: Callable[[int | None], nn.Module]
    inputs: Callable[[tuple[int, ...]], tuple[Any, ...]]
    expected: Callable[[Any, tuple[Any, ...]], Tensor]
    leading: tuple[tuple[int, ...], ...] = ((), (3,), (2, 3), (0,), (2, 0))
    matrices: bool = False
    follows: int = 0
    fused: bool = False


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_ids(leading: Sequence[int], *cardinalities: int) -> Tensor:
    columns = [torch.randint(n, tuple(leading), generator=drawn(j)) for j, n in enumerate(cardinalities)]
    return torch.stack(columns, dim=-1)


def some_numbers(leading: Sequence[int], n: int) -> tuple[Tensor, Tensor]:
    values = torch.randn(*leading, n, generator=drawn(5), dtype=torch.float64).float()
    missing = torch.rand(*leading, n, generator=drawn(6)) < 0.4
    return values.masked_fill(missing, math.nan), missing


def some_times(leading: Sequence[int], n: int) -> Tensor:
    times = torch.randint(EARLIEST, LATEST, (*leading, n), generator=drawn(7))
    return times.masked_fill(torch.rand(times.shape, generator=drawn(8)) < 0.3, MISSING_TIME)


def some_cells(n_rows: int) -> Ragged:
    """Lists of 0 to 3 ids, padding among them; every fourth cell is missing as a whole."""
    missing = torch.arange(n_rows) % 4 == 1
    length = (torch.arange(n_rows) % 4).masked_fill(missing, 0)
    offsets = torch.cat((torch.zeros(1, dtype=torch.int64), length.cumsum(0)))
    return Ragged(torch.randint(6, (int(length.sum()),), generator=drawn(9)), offsets, missing)


def by_row(function: Callable[..., Any], leading: Sequence[int], *tensors: Tensor) -> Tensor:
    """Apply a function of lists to every row and lay the results out again."""
    count = math.prod(leading)
    flat = [t.reshape(count, *t.shape[len(leading) :]).tolist() for t in tensors]
    rows = [function(*row) for row in zip(*flat, strict=True)]
    width = torch.tensor(rows).shape[1:] if rows else function(*(t[0] for t in _ones(tensors, leading)))
    shape = width if rows else torch.tensor(width).shape
    return torch.tensor(rows, dtype=torch.float64).reshape(*leading, *shape)


def _ones(tensors: Sequence[Tensor], leading: Sequence[int]) -> list[list[Any]]:
    """One row of ones each: what an empty batch would hold, for its width alone."""
    return [torch.ones(1, *t.shape[len(leading) :], dtype=t.dtype).tolist() for t in tensors]
