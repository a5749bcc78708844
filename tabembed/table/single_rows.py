"""Columns in which nearly every category has one row: names, from which nothing is learned of other rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from tabembed.schema import FIRST_KNOWN, UNKNOWN, CategoricalColumn
from tabembed.table.encoder import TableEncoder
from tabembed.table.vocabulary import Vocabulary
from tabembed.table.warn import warn_user

MANY, NEARLY_ALL = 1000, 0.9
"""A column is cut from so many known categories on, if so large a share of them has one row each."""


def single_rows_unknown(encoder: TableEncoder) -> TableEncoder:
    """The same fitted encoder, in which a name of one row is the unknown category where nearly all are.

    A vector of such a category would be learned from one row and serve no other, and a million of them make a
    training take hours. A column whose ``min_frequency`` was given, by its spec or by the encoder, is left as
    it is. A warning names the columns and says how many categories count as unknown now.

    Args:
        encoder: a fitted encoder; stays as it is.

    >>> import pandas as pd
    >>> encoder = TableEncoder().fit(pd.DataFrame({"city": ["Oslo", "Rome", "Rome"]}))
    >>> single_rows_unknown(encoder) is encoder
    True
    >>> encoder = TableEncoder().fit({"id": [*(f"row {i}" for i in range(1000)), "often", "often"]})
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     single_rows_unknown(encoder).categories_["id"].tolist()
    ['often']
    """
    cut = {
        c.name: _cut(encoder.columns_[c.name])
        for c in encoder.schema_.columns
        if _is_of_single_rows(encoder, c)
    }
    for name, column in cut.items():
        before, after = encoder.schema_[name].n_known, column.column.n_known
        spec = "CategoricalList" if column.lane == "lists" else "Categorical"
        warn_user(
            f"column {name!r}: {before - after:,} of {before:,} categories have one row each, from which "
            "nothing is learned of others: they count as unknown. Leave the column out, or keep them with "
            f"{spec}(min_frequency=1)"
        )
    if not cut:
        return encoder
    same = clone(encoder)
    names = encoder.feature_names_in_.tolist()
    same._set_fitted({**encoder.columns_, **cut}, encoder.schema_.n_rows, names, encoder._named)
    return same


def _is_of_single_rows(encoder: TableEncoder, column: Any) -> bool:
    if (
        not isinstance(column, CategoricalColumn)
        or column.n_known < MANY
        or encoder.min_frequency is not None
    ):
        return False
    spec = encoder.columns.get(column.name) if isinstance(encoder.columns, Mapping) else None
    single = sum(count == 1 for count in column.counts[FIRST_KNOWN:])
    return getattr(spec, "min_frequency", None) is None and single > NEARLY_ALL * column.n_known


def _cut(fitted: Any) -> Any:
    """A fitted column without its categories of one row: counts fall, so they are the last ones."""
    counts = list(fitted.column.counts)
    kept = FIRST_KNOWN + sum(count > 1 for count in counts[FIRST_KNOWN:])
    counts[UNKNOWN] += sum(counts[kept:])
    vocabulary = Vocabulary(fitted.vocabulary.values.slice(0, kept - FIRST_KNOWN), fitted.column.name)
    ordered = fitted.column.ordered
    ordered = ordered and tuple(place for place in ordered if place < kept)
    column = replace(fitted.column, counts=tuple(counts[:kept]), ordered=ordered)
    return replace(fitted, vocabulary=vocabulary, column=column)
