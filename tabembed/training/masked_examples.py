"""Rows of a table with some of their cells hidden, drawn anew in every minibatch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tabembed.batch import TableBatch
from tabembed.schema import MISSING_TIME, UNKNOWN
from tabembed.training.examples import TableExamples

LEAST_HIDDEN, MOST_HIDDEN = 0.1, 0.5
"""A row's share of hidden cells is drawn between these."""


def hide(batch: TableBatch, target: Tensor, generator: torch.Generator) -> TableExamples:
    """Hide cells at random, and leave a target to these alone.

    A hidden category is the unknown one: it is known as little as one that was never seen. A hidden number or
    time is missing. Lists are never hidden.

    Args:
        batch: rows.
        target: a class for every cell, categories first, then numbers, then times; NaN for none.
        generator: which cells are hidden follows from it; on the CPU, so that it does on every device.

    Shape:
        - target: ``(n_rows, n_categorical + n_continuous + n_datetime)``
    """
    draw = partial(torch.rand, generator=generator, dtype=torch.float32)  # in float64 others would be drawn
    shares = LEAST_HIDDEN + (MOST_HIDDEN - LEAST_HIDDEN) * draw(len(batch), 1)
    hidden = (draw(target.shape) < shares).to(target.device)
    ids, values, times = hidden.split([part.shape[1] for part in (batch.ids, batch.values, batch.times)], 1)
    rows = replace(
        batch,
        ids=batch.ids.masked_fill(ids, UNKNOWN),
        values=batch.values.masked_fill(values, 0.0),
        missing=batch.missing | values,
        times=batch.times.masked_fill(times, MISSING_TIME),
    )
    return TableExamples(rows, target.masked_fill(~hidden, torch.nan))


class MaskedExamples(TableExamples):
    """Rows whose cells are predicted from their other cells.

    Which cells a minibatch hides is drawn with its rows; those of held-out rows are always the same.

    Args:
        batch: the rows.
        target: a class for every cell, as ``hide`` takes it.
    """

    def __getitem__(self, units: Tensor) -> MaskedExamples:
        return _masked(super().__getitem__(units))

    @property
    def row_target(self) -> None:
        """None: a row has no single value that columns can be parted by."""
        return None

    def to(self, device: str) -> MaskedExamples:
        """The same on a device."""
        return _masked(super().to(device))

    def unseen_to_unknown(self, training: TableExamples) -> MaskedExamples:
        """The same, with the unknown id for every id that no row of ``training`` has."""
        return _masked(super().unseen_to_unknown(training))

    def ready(self, settings: Any) -> MaskedExamples:
        """The same with every row in one piece of memory."""
        return _masked(super().ready(settings))

    def steps(self, settings: Any, generator: torch.Generator) -> Iterator[TableExamples]:
        """Minibatches of equally many rows, each with other cells hidden."""
        for part in super().steps(settings, generator):
            yield hide(part.batch, part.target, generator)

    def parts(self) -> Iterator[TableExamples]:
        """All rows at once, the same cells hidden every time."""
        yield hide(self.batch, self.target, torch.Generator().manual_seed(0))


def _masked(examples: TableExamples) -> MaskedExamples:
    return MaskedExamples(examples.batch, examples.target)
