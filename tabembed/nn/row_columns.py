"""The tensors of rows, cleaned of padding and split by column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tabembed._checks import check_tensor, is_concrete
from tabembed.batch import Ragged
from tabembed.schema import FILL, PADDING, Column, TableSchema


def real_rows(rows: Mapping[str, Any], real: Tensor, schema: TableSchema, *, padded: bool) -> dict[str, Any]:
    """The rows of a batch one after the other, with nothing but padding on padding.

    Args:
        rows: what ``TableBatch.tensors`` gives, with the leading dimensions of ``real`` or of what it is of.
        real: True for the real rows.
        schema: the columns.
        padded: whether some rows may be padding.

    Shape:
        - real: ``(n_lines, n_places)``
        - output: tensors of ``n_lines · n_places`` rows

    Raises: TypeError for what is no mapping, or holds no tensors. ValueError for a kind that is not there, or
        of another shape, and, on the CPU, for numbers that are not finite and not missing.

    >>> schema = TableSchema(0, ())
    >>> rows = {"ids": torch.zeros(2, 3, 0), "values": torch.zeros(2, 3, 0), "missing": torch.zeros(2, 3, 0)}
    >>> real_rows(rows, torch.ones(2, 3, dtype=torch.bool), schema, padded=False)["ids"].shape
    torch.Size([6, 0])
    """
    if not isinstance(rows, Mapping):
        raise TypeError(f"rows must be a dict of tensors, as TableBatch.tensors(), got {type(rows).__name__}")
    widths = {"ids": len(schema.categorical), "values": len(schema.continuous)}
    widths |= {"missing": widths["values"], "times": len(schema.datetime)}
    flat: dict[str, Any] = {}
    for name, width in widths.items():
        if name not in rows and (name == "times" and not width):
            continue
        if name not in rows:
            raise ValueError(f"rows must have {name}, got {', '.join(rows)}")
        flat[name] = _flat(rows[name], f"rows[{name!r}]", real, width)
        if padded:
            flat[name] = flat[name].masked_fill(~real.reshape(-1, 1), FILL[name])
    _check_finite(flat["values"], flat["missing"])
    lists = rows.get("lists") or {}
    flat["lists"] = {name: _cells(cells, name, real, padded) for name, cells in lists.items()}
    return flat


def _check_finite(values: Tensor, missing: Tensor) -> None:
    if is_concrete(values) and not (finite := values.isfinite()).all():
        bad = values[~finite & ~missing.bool()]
        if bad.numel():
            got = float(bad[0])
            raise ValueError(f"rows['values'] must be finite where they are not missing, got {got}")


def _flat(x: Any, name: str, real: Tensor, width: int) -> Tensor:
    check_tensor(x, name)
    places = tuple(real.shape)
    allowed = [(*places, width)] + ([(places[1], width)] if places[0] == 1 else [])
    if tuple(x.shape) not in allowed:
        raise ValueError(f"{name} must have shape {allowed[-1]}, got {tuple(x.shape)}")
    return x.reshape(places[0] * places[1], width)


def _cells(cells: Ragged, name: str, real: Tensor, padded: bool) -> Ragged:
    if cells.missing.shape[0] != real.numel():
        raise ValueError(f"rows['lists'][{name!r}] must have {real.numel()} cells, got {len(cells.missing)}")
    if not padded:
        return cells
    flags = real.reshape(-1)
    place = torch.arange(cells.ids.shape[0], device=cells.ids.device)
    owner = torch.searchsorted(cells.offsets[1:].contiguous(), place, right=True)
    owned = flags.gather(0, owner.clamp(max=max(flags.shape[0] - 1, 0))) if flags.shape[0] else place > 0
    return Ragged(cells.ids.masked_fill(~owned, PADDING), cells.offsets, cells.missing & flags)


def columns_of(rows: Mapping[str, Any], schema: TableSchema, part: TableSchema) -> dict[str, Any]:
    """The tensors of some columns, the keyword arguments of their ``TableEmbedding``.

    Args:
        rows: tensors of all columns.
        schema: all columns.
        part: some of them, in their order.
    """
    kinds: dict[str, tuple[tuple[Column, ...], tuple[Column, ...]]] = {
        "ids": (schema.categorical, part.categorical),
        "values": (schema.continuous, part.continuous),
        "missing": (schema.continuous, part.continuous),
        "times": (schema.datetime, part.datetime),
    }
    chosen: dict[str, Any] = {n: _taken(rows[n], *columns) for n, columns in kinds.items() if n in rows}
    names = {column.name for column in part.lists}
    chosen["lists"] = {name: cells for name, cells in rows["lists"].items() if name in names}
    return chosen


def _taken(x: Tensor, columns: tuple[Column, ...], part: tuple[Column, ...]) -> Tensor:
    if len(part) == len(columns):
        return x
    names = [column.name for column in columns]
    return x[..., [names.index(column.name) for column in part]]
