"""The objective without a target: from the vector of a row, predict what comes to light next."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tabembed.functional.position import centred
from tabembed.nn.time_scale import SECOND, scale_of
from tabembed.schema import UNKNOWN, Column, SequenceSchema
from tabembed.sequence.batch import SequenceBatch
from tabembed.training.objective import Objective

MAX_IDS = 1024
"""Ids of a column that are told apart in a prediction; rarer values are predicted as unknown."""
ABSENT = -100
"""Class of an entry that takes no part, as PyTorch's cross entropy has it."""


class NextRow:
    """What is predicted from the vector of a row: the row's own observed columns, which nothing in the vector
    has seen, and the known columns of the entity's next row, and the time until then.

    The target is a matrix with a column for every part, NaN where a row has none: an id, a scaled number, a
    datetime's place between the earliest (−1) and the latest (1), and ``log(1 + gap / median gap)``. Columns
    of lists are not predicted. The loss is the mean of the parts' losses: cross entropy divided by the log
    of the number of ids, so that a guess among all ids costs 1, and Huber's error of numbers.

    Args:
        schema: what a fitted encoder knows of sequences.

    >>> from tabembed.schema import CategoricalColumn, TableSchema
    >>> rows = TableSchema(4, (CategoricalColumn("city", (0, 0, 1, 2, 1)),))
    >>> from tabembed.sequence.batch import example
    >>> task = NextRow(SequenceSchema(rows, (), False, 1, 3, 20.0, (10.0, 10.0)))
    >>> task.n_outputs, task.target(example())[:, 0].tolist()
    (6, [4.0, 3.0, nan])
    """

    def __init__(self, schema: SequenceSchema) -> None:
        self.schema = schema
        median = scale_of(schema, "time").typical / SECOND if schema.gaps else None
        self.median_gap = median
        self.n_ids = [min(column.n_ids, MAX_IDS) for column in schema.rows.categorical]
        self.n_numbers = len(schema.rows.continuous) + len(schema.rows.datetime) + (median is not None)
        self.n_outputs = sum(self.n_ids) + self.n_numbers

    def target(self, batch: SequenceBatch) -> Tensor:
        """What is to be predicted from every row, ``(n_rows, n_parts)`` float32, NaN where nothing is."""
        rows, schema = batch.rows, self.schema.rows
        ids = [rows.ids[:, i].where(rows.ids[:, i] < n, UNKNOWN).float() for i, n in enumerate(self.n_ids)]
        values = rows.values.masked_fill(rows.missing, torch.nan).unbind(1)
        ends = [(column.minimum, column.maximum) for column in schema.datetime]
        times = centred(rows.times, [a for a, _ in ends], [b for _, b in ends], torch.nan).unbind(1)
        columns: tuple[Column, ...] = (*schema.categorical, *schema.continuous, *schema.datetime)
        last = torch.ones(batch.n_rows, dtype=torch.bool, device=rows.ids.device)
        last[:-1] = False
        last[batch.cu_seqlens[1:].long() - 1] = True
        parts = [
            cell if column.name in self.schema.observed else cell.roll(-1).masked_fill(last, torch.nan)
            for column, cell in zip(columns, (*ids, *values, *times), strict=True)
        ]
        if self.median_gap is not None:
            gap = batch.gap.roll(-1).masked_fill(last, torch.nan)
            parts.append((gap / self.median_gap).log1p().float())
        return torch.stack(parts, 1) if parts else rows.values.new_zeros(batch.n_rows, 0)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Mean loss of the parts that some row has.

        Args:
            output: what the head predicts.
            target: what ``target`` made.

        Shape:
            - output: ``(n_rows, n_outputs)``
            - target: ``(n_rows, n_parts)``
        """
        numbers = target[:, len(self.n_ids) :]
        there = ~numbers.isnan()
        logits = output.split([*self.n_ids, self.n_numbers], 1)
        errors = F.smooth_l1_loss(logits[-1], numbers.where(there, logits[-1].detach()), reduction="none")
        losses, counts = list(errors.sum(0).unbind()), list(there.sum(0).unbind())
        for part, ids in zip(logits[:-1], target.unbind(1), strict=False):
            classes = ids.nan_to_num(ABSENT).long()
            entropy = F.cross_entropy(part, classes, ignore_index=ABSENT, reduction="sum")
            losses.append(entropy / math.log(part.shape[1]))
            counts.append((classes != ABSENT).sum())
        mean = torch.stack(losses) / torch.stack(counts).clamp(min=1)
        n_parts = (torch.stack(counts) > 0).sum().clamp(min=1)
        return mean.sum() / n_parts


def make_next_row(schema: SequenceSchema, batch: SequenceBatch) -> tuple[Objective, Tensor]:
    """The objective of predicting what comes to light next, and its target: for want of a ``y``.

    Args:
        schema: what a fitted encoder knows of sequences.
        batch: sequences that it encoded.

    Returns: the objective (its ``target_type`` is ``"next_row"``) and a target for every row, in the flat
        order: train with it a network that predicts ``per="row"``.

    Raises: ValueError when there is nothing to predict: no entity has two rows, and no observed cell is
        there.
    """
    task = NextRow(schema)
    target = task.target(batch)
    if target.isnan().all():
        longest = int(batch.lengths.max()) if len(batch) else 0
        raise ValueError(
            "X must have an entity with two rows, or an observed column with values, where y is None, or no "
            f"row has anything to predict; got at most {longest} rows an entity"
        )
    return Objective("next_row", task.n_outputs, task.loss), target
