"""Cases of the modules behind ``TableEmbedding``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import reference
import torch
from torch import Tensor

from contracts.case import (
    EARLIEST,
    LATEST,
    SCHEMA,
    TAGS,
    Case,
    by_row,
    some_cells,
    some_ids,
    some_numbers,
    some_times,
)
from tabembed import nn as modules
from tabembed.schema import MISSING_TIME


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
