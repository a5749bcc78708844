"""A batch as an Arrow table: what ``transform_parquet`` writes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tabembed.batch import TableBatch
from tabembed.schema import (
    MISSING_TIME,
    CategoricalColumn,
    ContinuousColumn,
    DatetimeColumn,
    ListColumn,
    TableSchema,
)


def encoded_schema(schema: TableSchema) -> pa.Schema:
    """Types of the encoded columns, under the names and in the order of the table.

    Ids are int32, numbers float32, times nanoseconds in the zone of the fit, lists are lists of ids.

    Args:
        schema: of a fitted encoder.

    >>> encoded_schema(TableSchema(1, (CategoricalColumn("city", (0, 0, 1)),)))
    city: int32 not null
    """
    return pa.schema([_field(column) for column in schema.columns])


def encoded_table(batch: TableBatch, schema: TableSchema) -> pa.Table:
    """The rows of a batch as Arrow columns of the types of ``encoded_schema``.

    A missing number, time or list is null; a missing category is an id.

    Args:
        batch: what ``TableEncoder.transform`` gave.
        schema: of the same encoder.

    >>> import torch
    >>> batch = TableBatch(*(torch.zeros(2, 0, dtype=kind) for kind in (torch.int64, torch.float32)),
    ...     torch.zeros(2, 0, dtype=torch.bool), torch.tensor([[5], [-2**63]]), {})
    >>> from tabembed.schema import DatetimeColumn
    >>> schema = TableSchema(2, (DatetimeColumn("when", 1, 1, 5, 5, None),))
    >>> encoded_table(batch, schema)["when"].cast(pa.int64()).to_pylist()
    [5, None]
    """
    columns: dict[str, pa.Array] = {}
    # A lane holds its columns one after the other, so that each of them is read without a copy.
    for column, ids in zip(schema.categorical, batch.ids.numpy().T, strict=True):
        columns[column.name] = pa.array(ids.astype(np.int32))
    for number, values, missing in zip(
        schema.continuous, batch.values.numpy().T, batch.missing.numpy().T, strict=True
    ):
        columns[number.name] = pa.array(values, mask=missing if missing.any() else None)
    for time, instants in zip(schema.datetime, batch.times.numpy().T, strict=True):
        columns[time.name] = pa.array(instants, mask=instants == MISSING_TIME)
    for cells in schema.lists:
        ragged = batch.lists[cells.name]
        ids, offsets = pa.array(ragged.ids.numpy().astype(np.int32)), pa.array(ragged.offsets.numpy())
        mask = pa.array(ragged.missing.numpy()) if len(ragged.missing) else None
        columns[cells.name] = pa.LargeListArray.from_arrays(offsets, ids, mask=mask)
    kinds = encoded_schema(schema)
    return pa.table([columns[name].cast(kinds.field(name).type) for name in kinds.names], schema=kinds)


def _field(column: CategoricalColumn | ContinuousColumn | DatetimeColumn) -> pa.Field:
    match column:
        case ListColumn(name=name):
            return pa.field(name, pa.large_list(pa.int32()))
        case CategoricalColumn(name=name):
            return pa.field(name, pa.int32(), nullable=False)
        case ContinuousColumn(name=name):
            return pa.field(name, pa.float32())
        case DatetimeColumn(name=name, timezone=zone):
            return pa.field(name, pa.timestamp("ns", zone))
