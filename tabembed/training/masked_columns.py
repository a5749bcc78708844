"""The objective without a target for rows of a table: from some cells of a row, predict the others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tabembed.batch import TableBatch
from tabembed.functional.piecewise import quantile_edges
from tabembed.functional.position import centred
from tabembed.schema import MISSING, UNKNOWN, TableSchema
from tabembed.training.objective import Objective

MAX_IDS = 1024
"""Ids of a column that are told apart in a prediction; rarer values are predicted as unknown."""
N_BINS = 16
"""Classes of a column of numbers or times, each with about equally many rows."""
ABSENT = -100
"""Class of a cell that takes no part, as PyTorch's cross entropy has it."""


class MaskedColumns:
    """What is predicted of a row's hidden cells: which value of its column, or which bin of numbers or times.

    The target is a matrix with a column for every part, NaN where a cell is missing: an id, or the number of
    a bin. Bins hold about equally many rows; a column of few distinct numbers has one for each. Columns
    of lists are read, but not predicted. The loss is the mean of the parts' cross entropies, each divided by
    the log of its number of classes, so that a guess among all costs 1.

    Args:
        schema: the columns of the table.
        batch: the rows that bins are made from.

    >>> from tabembed.schema import CategoricalColumn
    >>> empty = torch.zeros(4, 0)
    >>> batch = TableBatch(torch.tensor([[3], [4], [4], [1]]), empty, empty.bool(), empty.long())
    >>> task = MaskedColumns(TableSchema(4, (CategoricalColumn("city", (0, 1, 0, 2, 1)),)), batch)
    >>> task.n_outputs, task.target(batch)[:, 0].tolist()
    (5, [3.0, 4.0, 4.0, nan])
    """

    def __init__(self, schema: TableSchema, batch: TableBatch) -> None:
        self.schema = schema
        n_ids = [min(column.n_ids, MAX_IDS) for column in schema.categorical]
        self.bounds = [_bounds(column[~column.isnan()]) for column in self._numbers(batch)]
        self.n_classes = [*n_ids, *(len(bounds) + 1 for bounds in self.bounds)]
        self.n_outputs = sum(self.n_classes)

    def target(self, batch: TableBatch) -> Tensor:
        """The class of every cell, ``(n_rows, n_parts)`` float32, NaN where it is missing."""
        parts = []
        for ids, n in zip(batch.ids.unbind(1), self.n_classes, strict=False):
            known = ids.where(ids < n, UNKNOWN).float()
            parts.append(known.masked_fill(ids <= MISSING, torch.nan))
        for numbers, bounds in zip(self._numbers(batch), self.bounds, strict=True):
            place = torch.searchsorted(bounds.to(numbers.device), numbers.contiguous(), right=True)
            parts.append(place.float().masked_fill(numbers.isnan(), torch.nan))
        return torch.stack(parts, 1) if parts else batch.values.new_zeros(len(batch), 0)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Mean loss of the parts that some row has.

        Args:
            output: what the head predicts.
            target: classes of the cells that are hidden, NaN elsewhere.

        Shape:
            - output: ``(n_rows, n_outputs)``
            - target: ``(n_rows, n_parts)``
        """
        losses, counts = [], []
        classes = target.nan_to_num(ABSENT).long()
        for logits, part in zip(output.split(self.n_classes, 1), classes.unbind(1), strict=True):
            entropy = F.cross_entropy(logits, part, ignore_index=ABSENT, reduction="sum")
            losses.append(entropy / math.log(max(logits.shape[1], 2)))
            counts.append((part != ABSENT).sum())
        mean = torch.stack(losses) / torch.stack(counts).clamp(min=1)
        return mean.sum() / (torch.stack(counts) > 0).sum().clamp(min=1)

    def _numbers(self, batch: TableBatch) -> Sequence[Tensor]:
        """Numbers and times of a batch column by column, NaN where missing."""
        values = batch.values.masked_fill(batch.missing, torch.nan).unbind(1)
        columns = self.schema.datetime
        ends = [column.minimum for column in columns], [column.maximum for column in columns]
        return [*values, *centred(batch.times, *ends, torch.nan).float().unbind(1)]


def make_masked_columns(schema: TableSchema, batch: TableBatch) -> tuple[Objective, Tensor]:
    """The objective of predicting hidden cells from the others, and its target: for want of a ``y``.

    Args:
        schema: the columns of the table.
        batch: its rows.

    Returns: the objective (its ``target_type`` is ``"masked_columns"``) and the class of every cell: train
        with it a ``MaskedNetwork``, which hides cells.

    Raises: ValueError when there is nothing to predict, or nothing to predict it from.
    """
    task = MaskedColumns(schema, batch)
    target = task.target(batch)
    n_parts = sum(len(part[~part.isnan()].unique()) > 1 for part in target.unbind(1))
    n_varying = sum(len(part.unique()) > 1 for part in target.nan_to_num(ABSENT).unbind(1))
    n_varying += sum(len(ragged.ids.unique()) > 1 for ragged in batch.lists.values())
    if n_parts == 0 or n_varying < 2:
        raise ValueError(
            "X must have a column to predict and another to predict it from where y is None, got "
            f"{n_varying} that vary, {n_parts} of them to predict (lists are not)"
        )
    return Objective("masked_columns", task.n_outputs, task.loss), target


def _bounds(numbers: Tensor) -> Tensor:
    """Where a bin begins, the first one aside."""
    if not len(numbers):
        return numbers
    distinct = numbers.unique()
    return distinct[1:] if len(distinct) <= N_BINS else quantile_edges(numbers, N_BINS)[1:-1]
