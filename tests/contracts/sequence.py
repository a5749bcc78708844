"""Cases of ``SequenceEmbedding``: some sequences of three rows each.

The recurrence alone: torch's kernel of attention has no second derivative on the CPU, so the schemes of
attention go through the same checks in ``tests/nn/test_sequence_numerics.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from slow_sequence import COLUMNS, HALF_HOUR, START, expected, schema_of
from torch import Tensor

from contracts.case import Case, some_ids, some_numbers
from tabembed.nn import SequenceEmbedding

N_ROWS = 3
SOME = schema_of(columns=COLUMNS[:2] + COLUMNS[3:5])


def some_rows(leading: tuple[int, ...]) -> tuple[Any, ...]:
    places = (*leading, N_ROWS)
    values, missing = some_numbers(places, 2)
    steps = torch.tensor([0, 0, 5]) + torch.arange(leading[0]).unsqueeze(-1)
    return {"ids": some_ids(places, 7, 5), "values": values, "missing": missing}, START + steps * HALF_HOUR


def by_sequence(m: Any, inputs: tuple[Any, ...]) -> list[Tensor]:
    rows, times = inputs
    sequences = [{name: x[i] for name, x in rows.items()} | {"lists": {}} for i in range(len(times))]
    for one in sequences:
        one["times"] = torch.zeros(N_ROWS, 0, dtype=torch.int64)
    return [expected(m, one, when) for one, when in zip(sequences, times, strict=True)]


def expect_rows(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    found = by_sequence(m, inputs)
    return torch.stack(found) if found else torch.zeros(0, N_ROWS, m.d_model, dtype=torch.float64)


def expect_last(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    found = [vectors[-1] for vectors in by_sequence(m, inputs)]
    return torch.stack(found) if found else torch.zeros(0, m.d_model, dtype=torch.float64)


def made(seed: int | None, **arguments: Any) -> SequenceEmbedding:
    return SequenceEmbedding(SOME, "gru", d_model=4, num_layers=1, seed=seed, **arguments)


CASES = [
    Case("SequenceEmbedding", made, some_rows, expect_rows, leading=((0,), (1,), (5,)), matrices=True),
    Case(
        "SequenceEmbedding-last",
        lambda seed: made(seed, clock="index", pooling="last"),
        some_rows,
        expect_last,
        leading=((0,), (1,), (5,)),
        matrices=True,
    ),
]
