"""What a target asks of a network: its width, its loss, and the target as a tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import column_or_1d
from torch import Tensor
from torch.nn import functional as F

from tabembed._checks import check_choice

MAX_INTEGER_CLASSES = 50
"""Integers with more distinct values than this are numbers unless the user says otherwise."""


@dataclass(frozen=True)
class Objective:
    """A loss with the width of output that it needs.

    Args:
        target_type: ``"continuous"``, ``"binary"``, ``"multiclass"``, or without ``y``
            ``"masked_columns"`` or ``"next_row"``.
        n_outputs: width of the network's output.
        loss: mean loss of outputs ``(n_rows, n_outputs)`` and targets ``(n_rows,)``; without
            ``y`` ``(n_rows, n_parts)``. Sequences may have one target each instead.
        classes: the classes in the order of their codes, ``None`` for numbers.
    """

    target_type: str
    n_outputs: int
    loss: Callable[[Tensor, Tensor], Tensor]
    classes: np.ndarray | None = None


def _continuous(y: np.ndarray) -> tuple[Objective, Tensor]:
    try:
        y = y.astype(np.float64)
    except ValueError:
        got = y[:1].tolist()[0]
        raise ValueError(f"y must be numbers when target_type='continuous', got {got!r}") from None
    y = y / (np.abs(y).max() or 1.0)  # so that no square leaves the range of float64
    target = (y - y.mean()) / (y.std() or 1.0)
    objective = Objective("continuous", 1, lambda output, t: F.mse_loss(output[:, 0], t))
    return objective, torch.tensor(target, dtype=torch.float32)


def _binary(y: np.ndarray) -> tuple[Objective, Tensor]:
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) > 2:
        raise ValueError(f"y must have two classes when target_type='binary', got {len(classes)}")
    loss = lambda output, t: F.binary_cross_entropy_with_logits(output[:, 0], t)  # noqa: E731
    return Objective("binary", 1, loss, classes), torch.tensor(codes, dtype=torch.float32)


def _multiclass(y: np.ndarray) -> tuple[Objective, Tensor]:
    classes, codes = np.unique(y, return_inverse=True)
    objective = Objective("multiclass", len(classes), F.cross_entropy, classes)
    return objective, torch.tensor(codes, dtype=torch.int64)


OBJECTIVES = {"continuous": _continuous, "binary": _binary, "multiclass": _multiclass}


def make_objective(y: np.ndarray, target_type: str = "auto") -> tuple[Objective, Tensor]:
    """Choose the objective of a target and turn the target into a tensor.

    Args:
        y: what ``check_target`` returned.
        target_type: ``"continuous"`` (squared error of the standardised target), ``"binary"``,
            ``"multiclass"``, or ``"auto"``: two distinct values are binary; text, booleans and
            integers of at most 50 distinct values are classes; the rest are numbers.

    Raises: ValueError when ``target_type`` is none of these or does not fit ``y``.

    >>> objective, target = make_objective(np.array(["no", "yes", "no"]))
    >>> objective.target_type, objective.classes.tolist(), target.tolist()
    ('binary', ['no', 'yes'], [0.0, 1.0, 0.0])
    """
    check_choice(("auto", *OBJECTIVES), target_type=target_type)
    return OBJECTIVES[_guess(y) if target_type == "auto" else target_type](y)


def with_gaps(objective: Objective, target: Tensor, labelled: Tensor) -> tuple[Objective, Tensor]:
    """The same for rows that do not all have a target: NaN stands for none, and adds nothing to the loss.

    Args:
        objective: the loss of the rows that have one.
        target: their targets.
        labelled: True for these rows among all.

    Shape:
        - target: ``(n_labelled,)``; labelled: ``(n_rows,)``
        - output: ``(n_rows,)`` float32

    >>> objective, target = make_objective(np.array([0, 1]))
    >>> with_gaps(objective, target, torch.tensor([True, False, True]))[1].tolist()
    [0.0, nan, 1.0]
    """
    whole = torch.full(labelled.shape, torch.nan)
    whole[labelled] = target.float()

    def loss(output: Tensor, t: Tensor) -> Tensor:
        there = ~t.isnan()
        if not there.any():
            return 0 * output.sum()
        return objective.loss(output[there], t[there].to(target.dtype))

    return replace(objective, loss=loss), whole


def n_targets(target: Tensor) -> int:
    """How many units have a target.

    >>> n_targets(torch.tensor([1.0, torch.nan])), n_targets(torch.zeros(3, 2))
    (1, 3)
    """
    return int((~target.isnan()).sum()) if target.ndim == 1 else len(target)


def _guess(y: np.ndarray) -> str:
    n_values = len(np.unique(y))
    if n_values == 2:
        return "binary"
    if y.dtype.kind == "f" or (y.dtype.kind in "iu" and n_values > MAX_INTEGER_CLASSES):
        return "continuous"
    return "multiclass"


def check_target(y: Any, n_rows: int, estimator: str = "TableEmbedder") -> np.ndarray:
    """Check a target and make it a one-dimensional array of one kind.

    Args:
        y: one value a row: numbers, booleans or text, in an array, a series or a list.
        n_rows: number of rows that it must have.
        estimator: who asks, for the message.

    Raises: ValueError when ``y`` is absent, is not one value a row, has a gap or an infinite
        value, or never varies; TypeError when it mixes text with other kinds.

    >>> check_target([1, 2, 2], 3).tolist()
    [1, 2, 2]
    """
    if y is None:
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None")
    if np.ma.isMaskedArray(y) and np.ma.is_masked(y):
        raise _gap(int(np.argmax(np.ma.getmaskarray(y))))
    y = column_or_1d(np.asarray(y), warn=True)
    if len(y) != n_rows:
        raise ValueError(f"y must have one value for every row of X, got {len(y)} values for {n_rows} rows")
    if y.dtype.kind == "O":
        y = _plain(y)
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise _gap(int(np.argmax(np.isnan(y))))
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError(f"y must be finite, got infinity in row {int(np.argmax(np.isinf(y)))}")
    if y.dtype.kind not in "biufUT":
        raise TypeError(f"y must be numbers, booleans or text, got dtype {y.dtype}")
    if len(y) and (y == y[0]).all():
        raise ValueError(f"y must have at least two distinct values, got one class, {y[:1].tolist()[0]!r}")
    return y


def _plain(y: np.ndarray) -> np.ndarray:
    """An object array of one kind of value as an array of that kind."""
    for row, value in enumerate(y):
        if isinstance(value, list | tuple | dict | set | np.ndarray):
            raise TypeError(f"y must be numbers, booleans or text, got a {type(value).__name__} in row {row}")
        if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
            raise _gap(row)
    plain = np.array(y.tolist())
    if plain.dtype.kind == "U" and not all(isinstance(value, str) for value in y):
        kinds = sorted({type(value).__name__ for value in y})
        raise TypeError(f"y must be of one kind, got {' and '.join(kinds)}")
    return plain


def _gap(row: int) -> ValueError:
    return ValueError(f"y must have no missing value, got NaN in row {row}")
