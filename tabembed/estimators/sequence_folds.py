"""Folds that keep the rows of an entity together."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from tabembed.estimators.sequence_target import SequenceTarget
from tabembed.sequence.batch import SequenceBatch
from tabembed.training.crossfit import Split, make_splits


def entity_splits(
    cv: Any, batch: SequenceBatch, target: SequenceTarget | None, *, classes: bool, seed: int
) -> list[Split]:
    """Split entities so that every one is tested exactly once.

    Args:
        cv: number of shuffled folds of entities (stratified when each has a class), a scikit-learn splitter,
            or an iterable of pairs (training rows, tested rows). Splitters are called as ``split(rows, y,
            groups)``; their rows are those of the table that the batch holds, in the table's order, and
            ``groups`` are the entities.
        batch: the sequences.
        target: the target; ``None`` without one. Splitters see some other value where a row has none.
        classes: whether they are classes.
        seed: the shuffle of a number follows from it.

    Returns: pairs of numbers of sequences.

    Raises: ValueError when there are more folds than entities, or the splits do not test every entity
        exactly once, with all of its rows together.

    >>> from tabembed.sequence.batch import example
    >>> entity_splits(2, example(), None, classes=False, seed=0)
    Traceback (most recent call last):
    ValueError: cv must be at most the number of entities, got 2 folds for 1
    """
    n, y, per = len(batch), None, "row"
    if target is not None:
        y, per = target.values, target.per
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if cv > max(n, 1):
            raise ValueError(f"cv must be at most the number of entities, got {cv} folds for {n}")
        labels = y if y is not None and classes and per == "entity" else None
        plain = np.arange(n) if labels is None else labels
        return make_splits(int(cv), None, plain, classes=labels is not None, seed=seed)
    if isinstance(cv, str | bool):
        kinds = "a number of folds, 'time', a splitter or an iterable of splits"
        raise ValueError(f"cv must be {kinds}, got {cv!r}")
    lengths = batch.lengths.numpy()
    order = np.argsort(batch.row.numpy())
    sequence = np.repeat(np.arange(n), lengths)[order]
    if y is not None:
        y = y[sequence] if per == "entity" else y[order]
    pairs = check_cv(cv).split(np.arange(len(order))[:, None], y, batch.entities[sequence])
    folds = [[np.bincount(sequence[rows], minlength=n) for rows in pair] for pair in pairs]
    counts = np.array(folds).reshape(-1, 2, n)
    parts = ((counts > 0) & (counts != lengths)).any((0, 1)) | ((counts > 0).all(1)).any(0)
    if parts.any():
        got = f"{parts.sum()} of {n} entities in parts"
        raise ValueError(f"cv must keep the rows of an entity together, got {got}")
    tested = (counts[:, 1] > 0).sum(0)
    if not (tested == 1).all():
        got = f"{(tested == 0).sum()} entities never and {(tested > 1).sum()} more than once"
        raise ValueError(f"cv must test every entity exactly once, got {got}")
    return [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in counts]


def check_labelled(splits: list[Split], batch: SequenceBatch, target: SequenceTarget | None) -> None:
    """Every fold has something to learn from, where ``y`` may be missing.

    Args:
        splits: what ``entity_splits`` gives.
        batch: the sequences.
        target: their target.

    Raises: ValueError with the number of the first fold whose training entities have no ``y``.
    """
    if target is None or target.labelled.all():
        return
    n = len(batch)
    sequence = np.repeat(np.arange(n), batch.lengths.numpy()) if target.per == "row" else np.arange(n)
    labels = np.bincount(sequence, target.labelled, minlength=n)
    for fold, (train, _) in enumerate(splits, 1):
        if not labels[train].any():
            rule = f"cv must leave every fold a row with y to train on, got none in fold {fold}"
            raise ValueError(f"{rule} of {len(splits)}")
