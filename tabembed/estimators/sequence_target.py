"""A target of sequences: one value for every row of a table, or one for every entity in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tabembed.sequence.batch import SequenceBatch
from tabembed.training.objective import check_target

NAME = "SequenceEmbedder"


def sequence_target(y: Any, batch: SequenceBatch, index: Any = None) -> tuple[np.ndarray, str]:
    """Read a target and bring it into the order of a batch.

    Values of rows that the batch does not hold are not read. A row that others were merged into keeps its
    own value.

    Args:
        y: one value a row of the table (an array, a list, a series), or one an entity (a dict, or a pandas
            series indexed by the entities).
        batch: the sequences of the table.
        index: row labels of the table, ``None`` where it has none: a series with the same labels is one
            value a row.

    Returns: the checked values, and ``"row"`` (in the order of the batch's rows) or ``"entity"`` (in the
        order of its entities).

    Raises: ValueError when ``y`` is neither one value a row nor one an entity, or breaks a rule of
        ``check_target``.

    >>> from tabembed.sequence.batch import example
    >>> [part if isinstance(part, str) else part.tolist() for part in sequence_target([0, 2, 1], example())]
    [[2, 1, 0], 'row']
    """
    by_entity = _by_entity(y, batch, index)
    if by_entity is not None:
        return _entity_values(by_entity, batch), "entity"
    y = np.asarray(y)
    if y.ndim == 0 or len(y) != batch.n_input:
        got = "one value" if y.ndim == 0 else f"{len(y)} values"
        raise ValueError(
            f"y must have one value for every row of X, which has {batch.n_input}, or be a dict or a series "
            f"with one for every entity, of which there are {len(batch)}, got {got}"
        )
    row = batch.row.cpu().numpy()
    if len(row) and len(row) < len(y):
        y = y.copy()
        y[np.setdiff1d(np.arange(len(y)), row)] = y[row[0]]  # so that messages count rows of the table
    return check_target(y, batch.n_input, NAME)[row], "row"


def _by_entity(y: Any, batch: SequenceBatch, index: Any) -> Mapping[Any, Any] | None:
    """The values by entity where ``y`` is read so, else ``None``."""
    if isinstance(y, Mapping):
        return y
    if not isinstance(y, pd.Series) or not y.index.is_unique:
        return None
    if len(y) == batch.n_input and (index is not None and y.index.equals(pd.Index(index))):
        return None
    keys, entities = set(y.index.tolist()), set(batch.entities.tolist())
    if keys == entities or (keys > entities and len(y) != batch.n_input):
        return dict(zip(y.index.tolist(), y.tolist(), strict=True))
    return None


def _entity_values(by_entity: Mapping[Any, Any], batch: SequenceBatch) -> np.ndarray:
    entities = batch.entities.tolist()
    absent = [entity for entity in entities if entity not in by_entity]
    if absent:
        raise ValueError(
            f"y must have a value for every entity of X, got none for {len(absent)} of {len(entities)}, "
            f"such as {absent[0]!r}"
        )
    others = by_entity.keys() - set(entities)
    if others:
        raise ValueError(
            f"y must have values for the entities of X alone, got {len(others)} others, "
            f"such as {min(others, key=repr)!r}"
        )
    values = np.array([by_entity[entity] for entity in entities], dtype=object)
    for entity, missing in zip(entities, pd.isna(values), strict=True):
        if missing:
            raise ValueError(f"y must have no missing value, got NaN for entity {entity!r}")
    return check_target(values, len(entities), NAME)
