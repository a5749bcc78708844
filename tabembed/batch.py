"""Tensors of a table: the one currency between a fitted encoder and a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

Index = slice | Tensor | np.ndarray | Sequence[int] | Sequence[bool]


class Ragged(NamedTuple):
    """Ids of a column with several values in every cell.

    Row ``i`` owns ``ids[offsets[i]:offsets[i + 1]]``. An empty list has no ids; a gap inside a
    list has the missing id; a cell that is missing as a whole has no ids and ``missing[i]``.

    Shape:
        - ids: ``(n_values,)`` int64
        - offsets: ``(n_rows + 1,)`` int64
        - missing: ``(n_rows,)`` bool
    """

    ids: Tensor
    offsets: Tensor
    missing: Tensor

    def take(self, rows: Tensor) -> Ragged:
        """The cells of some rows, in the order of ``rows`` (int64)."""
        places, offsets = places_of(self.offsets, rows)
        return Ragged(self.ids[places], offsets, self.missing[rows])


def places_of(offsets: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Where the members of some groups lie that stand one after the other, and their own offsets.

    Args:
        offsets: group ``i`` owns the places from ``offsets[i]`` to ``offsets[i + 1]``.
        groups: numbers of groups, in any order.

    Shape:
        - offsets: ``(n_groups + 1,)`` integers; groups: ``(n_taken,)`` int64
        - output: ``(n_members,)`` int64 and ``(n_taken + 1,)`` in the dtype of ``offsets``

    >>> [x.tolist() for x in places_of(torch.tensor([0, 2, 2, 5]), torch.tensor([2, 0]))]
    [[2, 3, 4, 0, 1], [0, 3, 5]]
    """
    length = offsets.diff()[groups]
    taken = torch.cat((length.new_zeros(1), length.cumsum(0).to(length.dtype)))
    start = torch.repeat_interleave((offsets[:-1][groups] - taken[:-1]).long(), length)
    return start + torch.arange(len(start), device=start.device), taken


def read_index(index: Any, owner: Any, device: torch.device) -> slice | Tensor:
    """What stands in the brackets of a batch: a slice that rises, a mask, or int64 numbers.

    Args:
        index: a slice, or a list, array or tensor of flags or of integers.
        owner: what is indexed; it has a length.
        device: where its tensors are.

    Raises: TypeError for anything else, a single number included.

    >>> read_index([2, 0], range(3), torch.device("cpu")), read_index(slice(2), range(3), torch.device("cpu"))
    (tensor([2, 0]), slice(None, 2, None))
    """
    if isinstance(index, slice):
        falls = index.step is not None and index.step < 0  # torch takes none of these
        return torch.arange(*index.indices(len(owner)), device=device) if falls else index
    if not isinstance(index, Tensor):
        try:
            array = np.asarray(index)
        except ValueError:  # lists of several lengths
            array = np.asarray(None)
        if array.ndim == 1 and (array.dtype.kind in "bui" or not array.size):
            index = torch.from_numpy(array.astype(bool if array.dtype.kind == "b" else np.int64))
    if (
        not isinstance(index, Tensor)
        or index.ndim != 1
        or (len(index) and (index.is_floating_point() or index.is_complex()))
    ):
        single = index if isinstance(index, Integral) and not isinstance(index, bool) else 0
        raise TypeError(
            f"{type(owner).__name__} must be indexed by a slice, a mask or a list of numbers, such as "
            f"[{single}], got {index!r:.60}; "
            "in a DataLoader use sampler=BatchSampler(...) and batch_size=None"
        )
    return (index if index.dtype == torch.bool else index.long()).to(device)


def device_of(*args: Any, **kwargs: Any) -> torch.device | None:
    """The device among the arguments of ``Tensor.to``, None where they name only a dtype.

    >>> device_of("cpu", non_blocking=True), device_of(torch.float32)
    (device(type='cpu'), None)
    """
    found: torch.device | None = torch._C._nn._parse_to(*args, **kwargs)[0]
    return found


@dataclass(frozen=True, eq=False)
class TableBatch:
    """Rows of a table as tensors.

    Args:
        ids: ids of the categorical columns.
        values: scaled numbers of the continuous columns, finite, 0 where missing.
        missing: True where the number is missing.
        times: nanoseconds since 1970-01-01 UTC of the datetime columns, −2⁶³ where missing.
        lists: ids of the columns of lists, by name.

    Shape:
        - ids: ``(n_rows, n_categorical)`` int64
        - values: ``(n_rows, n_continuous)`` float32
        - missing: ``(n_rows, n_continuous)`` bool
        - times: ``(n_rows, n_datetime)`` int64

    Raises: ValueError when the tensors differ in their number of rows.

    >>> batch = TableBatch(torch.tensor([[3], [4], [1]]), torch.zeros(3, 0),
    ...                    torch.zeros(3, 0, dtype=torch.bool), torch.zeros(3, 0, dtype=torch.int64))
    >>> batch[torch.tensor([2, 0])].ids.tolist()
    [[1], [3]]
    >>> [len(part) for part in batch.batches(2)]
    [2, 1]
    """

    ids: Tensor
    values: Tensor
    missing: Tensor
    times: Tensor
    lists: dict[str, Ragged] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = {name: len(tensor) for name, tensor in self._flat().items()}
        rows |= {f"lists[{name!r}]": len(ragged.missing) for name, ragged in self.lists.items()}
        if len(set(rows.values())) > 1:
            raise ValueError(f"TableBatch must have equally many rows everywhere, got {rows}")

    def _flat(self) -> dict[str, Tensor]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "lists"}

    def _map(self, function: Any) -> TableBatch:
        flat = {name: function(tensor) for name, tensor in self._flat().items()}
        return TableBatch(**flat, lists={n: Ragged(*map(function, r)) for n, r in self.lists.items()})

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns of every kind together."""
        return len(self), sum(t.shape[1] for t in (self.ids, self.values, self.times)) + len(self.lists)

    def __getitem__(self, index: Index) -> TableBatch:
        """Rows by a slice, a boolean mask, or numbers; always a batch."""
        chosen = read_index(index, self, self.ids.device)
        flat = {name: tensor[chosen] for name, tensor in self._flat().items()}
        rows = torch.arange(len(self), device=self.ids.device)[chosen] if self.lists else None
        return TableBatch(**flat, lists={n: r.take(rows) for n, r in self.lists.items()})  # type: ignore[arg-type]

    def to(self, *args: Any, **kwargs: Any) -> TableBatch:
        """Move every tensor to a device; dtypes are part of the contract and stay."""
        device = device_of(*args, **kwargs)
        non_blocking = bool(kwargs.get("non_blocking", False))
        return self if device is None else self._map(lambda t: t.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> TableBatch:
        """Copy every tensor to page-locked memory, from which a GPU reads faster."""
        return self._map(lambda t: t.pin_memory())

    def batches(
        self, batch_size: int, *, shuffle: bool = False, generator: torch.Generator | None = None
    ) -> Iterator[TableBatch]:
        """Cut into parts of ``batch_size`` rows, the last one smaller; ``generator`` shuffles."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        order = torch.randperm(len(self), generator=generator).to(self.ids.device) if shuffle else None
        for start in range(0, len(self), batch_size):
            stop = start + batch_size
            yield self[slice(start, stop)] if order is None else self[order[start:stop]]

    def tensors(self) -> dict[str, Any]:
        """A plain dict, the keyword arguments of a module's ``forward``; absent kinds left out."""
        arguments: dict[str, Any] = {"ids": self.ids, "values": self.values, "missing": self.missing}
        if self.times.shape[1]:
            arguments["times"] = self.times
        if self.lists:
            arguments["lists"] = dict(self.lists)
        return arguments
