"""More rows in a table of vectors that is being trained: ids, vectors and the optimiser's state stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tabembed.schema import CategoricalColumn, SequenceSchema, TableSchema


@torch.no_grad()
def grow_rows(weight: nn.Parameter, n_rows: int, vector: Tensor, optimizer: Any = None) -> None:
    """Append rows to a parameter in place; it stays the parameter that groups of an optimiser hold.

    What an optimiser keeps of a row (its moments) stays, and is zero for new rows, as for rows that have had
    no gradient so far: it goes on with the old ones as if nothing had been added.

    Args:
        weight: a table ``(n_ids, width)``.
        n_rows: number of rows to append.
        vector: what they all hold.
        optimizer: the optimiser that trains it, if there is one.

    Shape:
        - vector: ``(width,)``

    Raises: ValueError when the optimiser does not keep its state by row.

    >>> weight = nn.Parameter(torch.zeros(2, 3))
    >>> grow_rows(weight, 2, torch.ones(3))
    >>> weight.shape
    torch.Size([4, 3])
    """
    state = {} if optimizer is None else optimizer.state.get(weight, {})
    for name in by_row(weight, optimizer):
        state[name] = torch.cat([state[name], state[name].new_zeros(n_rows, *state[name].shape[1:])])
    grad = weight.grad
    weight.grad = None
    weight.data = torch.cat([weight.data, vector.to(weight).expand(n_rows, -1)])
    if grad is not None:
        weight.grad = torch.cat([grad, grad.new_zeros(n_rows, grad.shape[1])])


def by_row(weight: Tensor, optimizer: Any) -> list[str]:
    """Names of what an optimiser keeps of every row of a table.

    Raises: ValueError when it keeps anything else, which would not fit more rows.
    """
    state = {} if optimizer is None else optimizer.state.get(weight, {})
    names = []
    for name, kept in state.items():
        if not isinstance(kept, Tensor) or kept.ndim == 0:
            continue
        if kept.ndim != weight.ndim or kept.shape[0] not in (1, len(weight)):
            raise ValueError(
                f"optimizer must keep its state by row, got {type(optimizer).__name__}, whose {name!r} has "
                f"shape {tuple(kept.shape)} beside a table of shape {tuple(weight.shape)}"
            )
        if len(kept) == len(weight):
            names.append(name)
    return names


def start_of(weight: Tensor, like: int | None, padding_idx: int | None) -> Tensor:
    """The vector that new rows start with: that of an id, or the mean of all but padding."""
    if like is not None:
        return weight.detach()[like].clone()
    rows = torch.ones(len(weight), dtype=torch.bool, device=weight.device)
    if padding_idx is not None:
        rows[padding_idx] = False
    return weight.detach()[rows].mean(0)


def check_grown(old: TableSchema, new: Any) -> None:
    """A schema is another one grown: the same columns, with ids appended to some of them.

    Raises: TypeError for what is no schema. ValueError for another one, such as that of another fit.
    """
    if not isinstance(new, TableSchema):
        raise TypeError(f"schema must be the schema_ of a grown TableEncoder, got {type(new).__name__}")
    names = [[column.name for column in schema.columns] for schema in (old, new)]
    if names[0] != names[1]:
        raise ValueError(f"schema must have the columns {names[0]}, got {names[1]}")
    for a, b in zip(old.columns, new.columns, strict=True):
        same = a == b
        if isinstance(a, CategoricalColumn) and type(a) is type(b):
            same = a.counts == b.counts[: a.n_ids]
        if not same:
            raise ValueError(
                f"column {a.name!r}: schema must be that of the same fit, grown, so that ids keep their "
                "meaning; got another fit's"
            )


def check_grown_sequence(old: SequenceSchema, new: Any) -> None:
    """A schema of sequences is another one grown.

    Raises: TypeError for what is no schema. ValueError for another one, such as that of another fit.
    """
    if not isinstance(new, SequenceSchema):
        raise TypeError(f"schema must be the schema_ of a grown SequenceEncoder, got {type(new).__name__}")
    check_grown(old.rows, new.rows)
    if replace(old, rows=new.rows) != new:
        raise ValueError("schema must be that of the same fit, grown; got another fit's")
