"""A target of sequences: one value for every row of a table, or one for every entity in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.utils import column_or_1d

from tabembed.sequence.batch import SequenceBatch
from tabembed.sequence.order import read_entities
from tabembed.training.objective import check_target

NAME = "SequenceEmbedder"


@dataclass(frozen=True, eq=False)
class SequenceTarget:
    """A target in the order of a batch.

    Args:
        values: checked values; where there is none, one of the others.
        per: ``"row"`` (in the order of the batch's rows) or ``"entity"`` (in the order of its entities).
        labelled: True where there is a value.

    Shape:
        - values, labelled: ``(n_rows,)`` or ``(n_sequences,)``
    """

    values: np.ndarray
    per: str
    labelled: np.ndarray


def sequence_target(y: Any, batch: SequenceBatch) -> SequenceTarget:
    """Read a target and bring it into the order of a batch.

    Values of rows that the batch does not hold are not read. A row that others were merged into keeps its
    own value. A row may lack one: it is history for the rows after it.

    Args:
        y: one value a row of the table, by position (an array, a list, a series of as many values), or one
            an entity (a dict, or a pandas series of another length that is indexed by the entities).
        batch: the sequences of the table.

    Raises: ValueError when ``y`` is neither one value a row nor one an entity, or breaks a rule of
        ``check_target``; TypeError when its values or keys are of several kinds.

    >>> from tabembed.sequence.batch import example
    >>> target = sequence_target([0, None, 1], example())
    >>> target.per, target.labelled.tolist(), target.values[target.labelled].tolist()
    ('row', [False, True, True], [1, 0])
    """
    keys = _keys(y, batch)
    if keys is not None:
        return _of_entities(y, keys, batch)
    masked = np.ma.isMaskedArray(y) and np.ma.is_masked(y)
    y = np.where(np.ma.getmaskarray(y), None, y.data) if masked else np.asarray(y)
    if y.ndim == 0 or len(y) != batch.n_input:
        got = "one value" if y.ndim == 0 else f"{len(y)} values"
        raise ValueError(
            f"y must have one value for every row of X, which has {batch.n_input}, or be a dict or a series "
            f"with one for every entity, of which there are {len(batch)}, got {got}"
        )
    y, row = column_or_1d(y, warn=True), batch.row.cpu().numpy()
    read = np.zeros(len(y), bool)
    read[row] = True
    read &= ~pd.isna(y)
    if not read.any():
        raise ValueError(f"y must have a value for at least one row, got none for {len(row)} rows")
    y = y.copy()
    y[~read] = y[read][0]  # so that messages count rows of the table
    return SequenceTarget(check_target(y, batch.n_input, NAME)[row], "row", read[row])


def in_key_order(y: Any, batch: SequenceBatch) -> bool:
    """Whether a target by entity stands in the order of the batch's entities; True for one by row."""
    keys = _keys(y, batch)
    return keys is None or keys.equals(pd.Index(batch.entities))


def _keys(y: Any, batch: SequenceBatch) -> pd.Index | None:
    """Keys as the batch has them where ``y`` is read by entity, else ``None``."""
    if isinstance(y, Mapping):
        return _canonical(list(y))
    if not isinstance(y, pd.Series) or len(y) == batch.n_input or not y.index.is_unique:
        return None
    try:
        keys = _canonical(y.index)
    except TypeError:
        return None
    return keys if pd.Index(batch.entities).isin(keys).all() else None


def _canonical(keys: Any) -> pd.Index:
    """Keys of one type as entities are read: a date is a time, a whole float an integer."""
    try:
        entities = read_entities(pa.array(pd.Index(keys, tupleize_cols=False), from_pandas=True), "y")
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise TypeError(f"y must have keys of one kind, those of the entities ({error})") from None
    found = pd.Index(entities.keys.to_numpy(zero_copy_only=False))
    return found.take(np.maximum(entities.codes, 0)).where(entities.codes >= 0, other=None)


def _of_entities(y: Any, keys: pd.Index, batch: SequenceBatch) -> SequenceTarget:
    given, entities = list(y.values() if isinstance(y, Mapping) else y), pd.Index(batch.entities)
    if not keys.is_unique:
        raise ValueError(f"y must have every entity once, got {keys[keys.duplicated()].tolist()[0]!r} twice")
    place = keys.get_indexer(entities)
    if (place < 0).any():
        raise ValueError(
            f"y must have a value for every entity of X, got none for {(place < 0).sum()} of {len(entities)}"
            f", such as {entities[place < 0].tolist()[0]!r}"
        )
    others = keys.difference(entities, sort=None)
    if len(others):
        raise ValueError(
            f"y must have values for the entities of X alone, got {len(others)} others, "
            f"such as {others.tolist()[0]!r}"
        )
    values = np.empty(len(entities), dtype=object)
    for i, entity in enumerate(entities.tolist()):
        values[i] = given[place[i]]
        if pd.api.types.is_list_like(values[i]):
            kind = type(values[i]).__name__
            raise TypeError(f"y must have one value for every entity, got a {kind} for entity {entity!r}")
        if pd.isna(values[i]):
            raise ValueError(f"y must have no missing value, got NaN for entity {entity!r}")
    return SequenceTarget(check_target(values, len(entities), NAME), "entity", np.ones(len(values), bool))
