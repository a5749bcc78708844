"""One case for every public module of ``tabembed.nn``; ``test_contract.py`` runs them all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import reference
import torch
from torch import Tensor, nn

from tabembed import nn as modules
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
        ContinuousColumn("delay", 8, 1, 0.0, 1.0, -2.0, 2.0, 0.0, 1.0, (-2.0, 2.0)),
        CategoricalColumn("city", (0, 1, 1, 3, 2, 1, 1)),
        DatetimeColumn("departure", 8, 1, EARLIEST, LATEST, "UTC"),
        CategoricalColumn("airline", (0, 0, 0, 5, 3, 1)),
        ContinuousColumn("distance", 9, 0, 0.0, 1.0, -2.0, 2.0, 0.0, 1.0, (-2.0, 2.0)),
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
    """

    name: str
    make: Callable[[int | None], nn.Module]
    inputs: Callable[[tuple[int, ...]], tuple[Any, ...]]
    expected: Callable[[Any, tuple[Any, ...]], Tensor]
    leading: tuple[tuple[int, ...], ...] = ((), (3,), (2, 3), (0,), (2, 0))


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


def expect_entity(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    table = m.weight.tolist()
    return by_row(lambda i: reference.entity(i, table, m.padding_idx), inputs[0].shape, inputs[0])


def expect_multi(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    tables = [weight.tolist() for weight in m.weights]
    return by_row(lambda row: reference.multi(row, tables, m.padding_idx), inputs[0].shape[:-1], inputs[0])


def numbers_of(m: Any, values: Sequence[float], missing: Sequence[bool]) -> list[list[float]]:
    weights = (m.weight.tolist(), m.bias.tolist(), m.missing.tolist())
    return [reference.linear(*row) for row in zip(values, missing, *weights, strict=True)]


def times_of(m: Any, times: Sequence[int]) -> list[list[float]]:
    positions = [reference.position(t, EARLIEST, LATEST) for t in times]
    return numbers_of(m.linear, positions, [t == MISSING_TIME for t in times])


def expect_linear(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    return by_row(lambda v, g: numbers_of(m, v, g), inputs[0].shape[:-1], *inputs)


def expect_time(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    return by_row(lambda t: times_of(m, t), inputs[0].shape[:-1], *inputs)


def expect_lists(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    ids, offsets, missing = (t.tolist() for t in inputs[0])
    table = m.values.weight.tolist()
    cells = [ids[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    rows = [reference.mean(cell, gone, table) for cell, gone in zip(cells, missing, strict=True)]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), len(table[0]))


def expect_table(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    tables = [weight.tolist() for weight in m.categorical.weights]

    def row(ids: Any, values: Any, missing: Any, times: Any) -> list[float]:
        city, airline = (reference.entity(i, table, 0) for i, table in zip(ids, tables, strict=True))
        delay, distance = numbers_of(m.numeric, values, missing)
        (departure,) = times_of(m.time, times)
        return [*delay, *city, *departure, *airline, *distance]

    return by_row(row, inputs[0].shape[:-1], *inputs)


def expect_tags(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    ids, values, missing, times, lists = inputs
    table = m.categorical.weights[0].tolist()
    delay = by_row(lambda v, g: numbers_of(m.numeric, v, g)[0], ids.shape[:-1], values, missing)
    city = by_row(lambda row: reference.entity(row[0], table, 0), ids.shape[:-1], ids)
    departure = by_row(lambda t: times_of(m.time, t)[0], ids.shape[:-1], times)
    return torch.cat((delay, city, expect_lists(m.lists[0], (lists["tags"],)), departure), dim=-1)


def expect_same(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    return inputs[0].double()


CASES = [
    Case(
        "EntityEmbedding",
        lambda seed: modules.EntityEmbedding(7, seed=seed),
        lambda leading: (some_ids(leading, 7)[..., 0],),
        expect_entity,
    ),
    Case(
        "EntityEmbedding-padding",
        lambda seed: modules.EntityEmbedding(7, 4, padding_idx=3, init_std=1.0, seed=seed),
        lambda leading: (some_ids(leading, 7)[..., 0],),
        expect_entity,
    ),
    Case(
        "MultiCategoricalEmbedding",
        lambda seed: modules.MultiCategoricalEmbedding([5, 3, 9], [2, 4, 3], padding_idx=1, seed=seed),
        lambda leading: (some_ids(leading, 5, 3, 9),),
        expect_multi,
    ),
    Case(
        "LinearEmbedding",
        lambda seed: modules.LinearEmbedding(3, 4, seed=seed),
        lambda leading: some_numbers(leading, 3),
        expect_linear,
    ),
    Case(
        "TimeEmbedding",
        lambda seed: modules.TimeEmbedding(SCHEMA.datetime * 2, 4, seed=seed),
        lambda leading: (some_times(leading, 2),),
        expect_time,
    ),
    Case(
        "ListEmbedding",
        lambda seed: modules.ListEmbedding(6, 3, seed=seed),
        lambda leading: (some_cells(*leading),),
        expect_lists,
        leading=((0,), (1,), (9,)),
    ),
    Case(
        "TableEmbedding",
        lambda seed: modules.TableEmbedding(SCHEMA, seed=seed),
        lambda leading: (some_ids(leading, 7, 6), *some_numbers(leading, 2), some_times(leading, 1)),
        expect_table,
    ),
    Case(
        "TableEmbedding-lists",
        lambda seed: modules.TableEmbedding(TAGS, embed_dims={"tags": 3}, seed=seed),
        lambda leading: (
            some_ids(leading, 7),
            *some_numbers(leading, 1),
            some_times(leading, 1),
            {"tags": some_cells(*leading)},
        ),
        expect_tags,
        leading=((0,), (1,), (9,)),
    ),
    Case(
        "Dropout",
        lambda seed: modules.Dropout(0.3).eval(),
        lambda leading: (some_numbers(leading, 3)[0].nan_to_num(),),
        expect_same,
    ),
    Case(
        "UnknownDropout",
        lambda seed: modules.UnknownDropout(0.3).eval(),
        lambda leading: (some_ids(leading, 5, 3),),
        expect_same,
    ),
]
