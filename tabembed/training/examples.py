"""What the loop trains on: units that are drawn, split and held out whole, each with its target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from tabembed.batch import TableBatch
from tabembed.schema import UNKNOWN


class Examples(Protocol):
    """Units with their targets: rows of a table, or sequences. ``len`` is the number of units."""

    @property
    def batch(self) -> Any:
        """The tensors of the units."""

    @property
    def target(self) -> Tensor:
        """What is to be predicted of them, as the loss takes it."""

    @property
    def rows(self) -> TableBatch:
        """The rows of all units."""

    @property
    def row_target(self) -> Tensor | None:
        """One value for every row that columns can be parted by, if the target has one."""

    def __len__(self) -> int: ...

    def __getitem__(self, units: Tensor) -> Examples:
        """Some of the units, by number."""

    def to(self, device: str) -> Examples:
        """The same on a device."""

    def places(self, units: Tensor) -> Tensor:
        """Which rows of the vectors that a network gives of all units belong to some of them."""

    def unseen_to_unknown(self, training: Any) -> Examples:
        """The same, with the unknown id for every id that no row of ``training`` has."""

    def ready(self, settings: Any) -> Examples:
        """The same, laid out for a training."""

    def n_steps(self, settings: Any) -> int:
        """Number of minibatches in a pass."""

    def steps(self, settings: Any, generator: torch.Generator) -> Iterator[Examples]:
        """The minibatches of one pass, in an order that is drawn anew."""

    def parts(self) -> Iterator[Examples]:
        """All units in parts that can be evaluated at once."""


@dataclass(frozen=True, eq=False)
class TableExamples:
    """Rows of a table, one target each.

    Args:
        batch: the rows.
        target: their targets.

    Shape:
        - target: ``(n_rows,)``
    """

    batch: TableBatch
    target: Tensor

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, units: Tensor) -> TableExamples:
        return TableExamples(self.batch[units], self.target[units])

    @property
    def rows(self) -> TableBatch:
        """The rows themselves."""
        return self.batch

    @property
    def row_target(self) -> Tensor | None:
        """The target itself."""
        return self.target

    def to(self, device: str) -> TableExamples:
        """The same on a device."""
        return TableExamples(self.batch.to(device), self.target.to(device))

    def places(self, units: Tensor) -> Tensor:
        """Rows of the vectors that belong to some rows: the same."""
        return units

    def unseen_to_unknown(self, training: TableExamples) -> TableExamples:
        """The same, with the unknown id for every id that no row of ``training`` has."""
        return TableExamples(unseen_to_unknown(self.batch, training.batch), self.target)

    def ready(self, settings: Any) -> TableExamples:
        """The same with every row in one piece of memory, from which minibatches are cut faster."""
        flat = {
            name: getattr(self.batch, name).contiguous() for name in ("ids", "values", "missing", "times")
        }
        return TableExamples(replace(self.batch, **flat), self.target)

    def n_steps(self, settings: Any) -> int:
        """Number of minibatches in a pass."""
        return -(-len(self) // settings.rows_per_step(len(self)))

    def steps(self, settings: Any, generator: torch.Generator) -> Iterator[TableExamples]:
        """Minibatches of equally many rows, the last one smaller."""
        order = torch.randperm(len(self), generator=generator).to(self.target.device)
        for rows in order.split(settings.rows_per_step(len(self))):
            yield self[rows]

    def parts(self) -> Iterator[TableExamples]:
        """All rows at once."""
        yield self


def unseen_to_unknown(batch: TableBatch, training: TableBatch) -> TableBatch:
    """The same rows, with the unknown id for every id that no row of ``training`` has.

    >>> column = lambda *ids: TableBatch(torch.tensor(ids)[:, None], torch.zeros(len(ids), 0),
    ...     torch.zeros(len(ids), 0).bool(), torch.zeros(len(ids), 0).long())
    >>> unseen_to_unknown(column(3, 4, 5), column(3, 5, 3)).ids.ravel().tolist()
    [3, 2, 5]
    """
    columns = [_map_unseen(a, b) for a, b in zip(batch.ids.unbind(1), training.ids.unbind(1), strict=True)]
    lists = {
        name: ragged._replace(ids=_map_unseen(ragged.ids, training.lists[name].ids))
        for name, ragged in batch.lists.items()
    }
    return replace(batch, ids=torch.stack(columns, 1) if columns else batch.ids, lists=lists)


def _map_unseen(ids: Tensor, seen: Tensor) -> Tensor:
    return ids.where(torch.isin(ids, seen), UNKNOWN)
