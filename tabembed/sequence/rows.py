"""Rows of a table batch, moved: each row of what comes out is one piece of memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tabembed.batch import Ragged, TableBatch
from tabembed.schema import MISSING, MISSING_TIME, Column, TableSchema

LANES = ("ids", "values", "missing", "times")


def no_columns(n_rows: int) -> TableBatch:
    """Rows without a column: bare events."""
    empty = torch.zeros(n_rows, 0)
    return TableBatch(empty.long(), empty, empty.bool(), empty.long())


def take_rows(lanes: dict[str, Tensor], lists: dict[str, Ragged], order: Tensor) -> TableBatch:
    """Take rows from columns that lie one after the other; every lane is let go once it is taken.

    Args:
        lanes: the tensors of a ``TableBatch`` by name; they are taken out of the dict.
        lists: its columns of lists.
        order: place of every row, int64.
    """
    flat = {}
    for name in LANES:
        lane, place = lanes.pop(name).numpy(), order.numpy()
        out = np.empty((len(place), lane.shape[1]), lane.dtype)
        for j in range(lane.shape[1]):
            out[:, j] = lane[:, j].take(place)
        flat[name] = torch.from_numpy(out)
        del lane
    return TableBatch(**flat, lists={name: ragged.take(order) for name, ragged in lists.items()})


def join_rows(a: TableBatch, b: TableBatch) -> TableBatch:
    """The rows of both, those of ``a`` first."""
    flat = {name: torch.cat((getattr(a, name), getattr(b, name))) for name in LANES}
    lists = {}
    for name, first in a.lists.items():
        second = b.lists[name]
        offsets = torch.cat((first.offsets, second.offsets[1:] + first.offsets[-1]))
        joined = (torch.cat((first.ids, second.ids)), offsets, torch.cat((first.missing, second.missing)))
        lists[name] = Ragged(*joined)
    return TableBatch(**flat, lists=lists)


def without_cells(batch: TableBatch, schema: TableSchema, names: Collection[str], rows: Tensor) -> TableBatch:
    """The batch with the cells of some columns missing in some rows.

    Args:
        batch: rows of a table.
        schema: its columns.
        names: the columns that lose cells.
        rows: True for the rows that lose them.
    """

    def hidden(columns: tuple[Column, ...]) -> Tensor:
        return rows[:, None] & torch.tensor([column.name in names for column in columns], dtype=torch.bool)

    numbers, lists = hidden(schema.continuous), dict(batch.lists)
    for name in lists.keys() & set(names):
        ids, offsets, missing = batch.lists[name]
        length = offsets.diff().masked_fill(rows, 0)
        kept = (~rows).repeat_interleave(offsets.diff())
        lists[name] = Ragged(ids[kept], torch.cat((offsets[:1], length.cumsum(0))), missing | rows)
    return replace(
        batch,
        ids=batch.ids.masked_fill(hidden(schema.categorical), MISSING),
        values=batch.values.masked_fill(numbers, 0.0),
        missing=batch.missing | numbers,
        times=batch.times.masked_fill(hidden(schema.datetime), MISSING_TIME),
        lists=lists,
    )
