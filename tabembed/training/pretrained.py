"""Vectors from elsewhere in the place of those that a module drew or learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_choice
from tabembed.nn import SequenceEmbedding, TableEmbedding
from tabembed.schema import FIRST_KNOWN, MISSING, UNKNOWN
from tabembed.table.lookup import column_with_ids
from tabembed.training.given_vectors import GivenVectors, read_vectors

REST = ("unknown", "keep")
"""What becomes of rows that no vector is given for."""


@dataclass(frozen=True)
class PretrainedReport:
    """How much of a column the given vectors cover.

    Args:
        column: name of the column.
        n_known: number of known categories.
        n_found: number of those that a vector was given for.
        row_share: share of the rows of the fit (of the values, in a column of lists) that hold one of these,
            missing cells aside.
        n_unused: number of vectors that were given for categories that are not known.
        reserved: ``"missing"`` and ``"unknown"``, where their rows were given.
        rest: what became of the others, as it was asked for.
    """

    column: str
    n_known: int
    n_found: int
    row_share: float
    n_unused: int
    reserved: tuple[str, ...]
    rest: str

    def __str__(self) -> str:
        """Say it in one line."""
        rest = "keep their vectors" if self.rest == "keep" else "have the vector of the unknown row"
        parts = [
            f"{self.column}: {self.n_found:,} of {self.n_known:,} categories found, "
            f"{self.row_share:.1%} of the rows",
            f"{self.n_known - self.n_found:,} {rest}",
        ]
        if self.n_unused:
            parts.append(f"{self.n_unused:,} given vectors are of no known category")
        if self.reserved:
            parts.append(f"given for {' and '.join(self.reserved)} cells, too")
        return "; ".join(parts)


def load_pretrained(
    module: Any, encoder: Any, frame: Any, column: str, *, rest: str = "unknown"
) -> PretrainedReport:
    """Put given vectors into the table of a column, to start a training from them or to serve them.

    The module's other layers stay as they are: what was trained on other vectors does not know these.
    ``module.weight(column).requires_grad_(False)`` keeps a training from changing them.

    Args:
        module: a ``TableEmbedding`` or ``SequenceEmbedding``; changed in place.
        encoder: the fitted encoder that its schema is from: it knows which category has which id.
        frame: a frame with a ``category`` column, or one called like the column itself, as
            ``embedding_table`` gives it (``count`` is not read, padding is passed over, and where ``kind`` is
            ``missing`` or ``unknown`` it is that row's vector); a pandas frame that is indexed by the
            categories; or a dict from category to vector.
        column: name of a categorical column or a column of lists.
        rest: what becomes of rows that no vector is given for. ``"unknown"``: the unknown row gets the mean
            of the given vectors, categories that are not among them and the missing row get that of the
            unknown row. ``"keep"``: they stay as they are.

    Returns: a ``PretrainedReport``; print it.

    Raises: ValueError for vectors of another width, no vector of a known category, a category that stands
        twice, numbers that are not finite, an encoder of other columns. TypeError for another module, and
        for what is no frame of numbers.

    >>> import pandas as pd
    >>> from tabembed import TableEmbedding, TableEncoder
    >>> encoder = TableEncoder().fit(pd.DataFrame({"city": ["Oslo", "Rome", "Rome"]}))
    >>> module = TableEmbedding(encoder.schema_, embed_dims=2)
    >>> print(load_pretrained(module, encoder, {"Rome": [1.0, 2.0], "Lima": [3.0, 0.0]}, "city"))
    city: 1 of 2 categories found, 66.7% of the rows; 1 have the vector of the unknown row; 1 given ...
    >>> module.weight("city")[2:].tolist()
    [[2.0, 1.0], [1.0, 2.0], [2.0, 1.0]]
    """
    check_choice(REST, rest=rest)
    if not isinstance(module, TableEmbedding | SequenceEmbedding):
        raise TypeError(
            f"module must be a TableEmbedding or a SequenceEmbedding, got {type(module).__name__}"
        )
    table_encoder = getattr(encoder, "table_encoder_", encoder)
    fitted = column_with_ids(table_encoder, column).column
    weight = module.weight(column)
    if len(weight) != fitted.n_ids:
        raise ValueError(
            f"column {column!r}: module must be of the encoder's schema, got {len(weight)} ids in the module "
            f"and {fitted.n_ids} in the encoder"
        )
    given = read_vectors(frame, column, table_encoder)
    if given.vectors.shape[1] != weight.shape[1]:
        raise ValueError(
            f"column {column!r}: vectors must have width {weight.shape[1]}, got {given.vectors.shape[1]}"
        )
    found = given.ids[given.category & (given.ids >= FIRST_KNOWN)]
    if not len(found):
        raise ValueError(
            f"column {column!r}: some categories must be known from the fit, got none among "
            f"{int(given.category.sum()):,} vectors"
        )
    table = _filled(weight, given, rest).to(weight)
    if not table.isfinite().all():
        raise ValueError(
            f"column {column!r}: vectors must fit {weight.dtype}, got {np.abs(given.vectors).max():g}"
        )
    with torch.no_grad():
        weight.copy_(table)
    counts = np.array(fitted.counts)
    return PretrainedReport(
        column=column,
        n_known=fitted.n_known,
        n_found=len(found),
        row_share=float(counts[found].sum() / max(counts[UNKNOWN:].sum(), 1)),
        n_unused=int((given.category & (given.ids == UNKNOWN)).sum()),
        reserved=tuple(
            kind
            for kind, i in (("missing", MISSING), ("unknown", UNKNOWN))
            if i in given.ids[~given.category]
        ),
        rest=rest,
    )


def _filled(weight: Tensor, given: GivenVectors, rest: str) -> Tensor:
    """The whole table, given vectors and all others."""
    table = weight.detach().cpu().double().numpy().copy()
    placed = ~given.category | (given.ids >= FIRST_KNOWN)
    ids = given.ids[placed]
    if rest == "unknown":
        table[UNKNOWN] = given.vectors[given.category].mean(0)
    table[ids] = given.vectors[placed]
    if rest == "unknown":
        others = np.setdiff1d(np.arange(MISSING, len(table)), [*ids, UNKNOWN])
        table[others] = table[UNKNOWN]
    return torch.from_numpy(table)
