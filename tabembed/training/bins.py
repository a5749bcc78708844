"""Edges of bins where a target changes, found by one decision tree a column."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from torch import Tensor

from tabembed._checks import check_bool_tensor, check_integer, check_real
from tabembed.batch import TableBatch
from tabembed.functional.phase import widened
from tabembed.training.network import Network
from tabembed.training.objective import Objective

ROWS_PER_LEAF, LEAVES_OF_A_SMALL_TABLE = 64, 32
MIN_IMPURITY_DECREASE = 1e-4


def tree_edges(
    values: Tensor,
    target: Tensor,
    n_bins: int = 48,
    *,
    classes: bool,
    missing: Tensor | None = None,
    min_samples_leaf: int | None = None,
    min_impurity_decrease: float = MIN_IMPURITY_DECREASE,
) -> list[Tensor]:
    """Edges that part each column where the target changes: a tree's thresholds, and the outermost values.

    They have seen the target: find them from training rows alone. ``TableEmbedder`` does so by itself, for
    every fold anew, with ``numeric=partial(PiecewiseLinearEmbedding.from_columns, bins="tree")``.

    Args:
        values: numbers, scaled as the embedding gets them; finite where not missing.
        target: what the rows are to be parted by.
        n_bins: bins of a column at most: leaves of its tree.
        classes: whether the target holds classes, else numbers.
        missing: where numbers are missing; these take no part.
        min_samples_leaf: rows in every bin at least; ``None`` is 64, and a 32nd of the rows in a table of
            less than 2048.
        min_impurity_decrease: how much a split must improve the fit, in the unit of the target squared
            (of the Gini impurity, for classes).

    Shape:
        - values, missing: ``(n_rows, n_columns)``
        - target: ``(n_rows,)``
        - output: for each column ``(n_edges,)``, rising, 1 to ``n_bins + 1`` of them, on the device of the
          values; a 0 for a column without a number

    Raises: ValueError when shapes do not match or an argument breaks its rule; TypeError when ``missing``
        is not bool.
    Source: Gorishniy et al. 2022, arXiv:2203.05556, section 3.2.2.

    >>> values = torch.arange(200.0)[:, None]
    >>> tree_edges(values, (values[:, 0] > 49).float(), classes=False)
    [tensor([  0.0000,  49.5000, 199.0000])]
    """
    if values.ndim != 2 or target.shape != values.shape[:1]:
        shapes = f"got shapes {tuple(values.shape)} and {tuple(target.shape)}"
        raise ValueError(f"values and target must be (n_rows, n_columns) and (n_rows,), {shapes}")
    missing = torch.zeros_like(values, dtype=torch.bool) if missing is None else missing
    check_bool_tensor(missing, "missing")
    check_integer(n_bins=n_bins)
    check_real(min_impurity_decrease=min_impurity_decrease)
    n_leaf = min(ROWS_PER_LEAF, max(1, len(values) // LEAVES_OF_A_SMALL_TABLE))
    n_leaf = n_leaf if min_samples_leaf is None else min_samples_leaf
    check_integer(min_samples_leaf=n_leaf)
    if not (finite := values[~missing].isfinite()).all():
        raise ValueError(
            f"values must be finite where not missing, got {values[~missing][~finite][0].item()}"
        )
    tree = (DecisionTreeClassifier if classes else DecisionTreeRegressor)(
        max_leaf_nodes=max(n_bins, 2),
        min_samples_leaf=n_leaf,
        min_impurity_decrease=min_impurity_decrease if n_bins > 1 else sys.float_info.max,
        random_state=0,  # one column leaves nothing to chance, but None would read a global generator
    )
    x, y, gone = widened(values).cpu().numpy(), target.cpu().numpy(), missing.cpu().numpy()
    edges = [_edges(tree, x[~g, j], y[~g]) for j, g in enumerate(gone.T)]
    return [torch.from_numpy(np.unique(e.astype(x.dtype))).to(values.device) for e in edges]


def adapt_bins(network: Network, batch: TableBatch, target: Tensor | None, objective: Objective) -> None:
    """Let the module of the continuous columns fit itself to the rows of a training.

    A module that wants to has a method ``adapt(values, missing, find_edges)``, which is called once,
    before the first step; ``find_edges(values, missing, n_bins)`` finds edges that part these rows by
    their target. Nothing else that depends on the target reaches the module.

    Args:
        network: the network that is to be trained.
        batch: the rows that it is trained on, and none else.
        target: their targets, NaN where a row has none; ``None`` leaves the module as it is.
        objective: what the target is.
    """
    adapt = getattr(network.numeric, "adapt", None)
    if adapt is None or target is None:
        return
    labelled = ~target.isnan()
    target = target[labelled]

    def edges(values: Tensor, missing: Tensor, n_bins: int) -> list[Tensor]:
        return tree_edges(values, target, n_bins, classes=objective.classes is not None, missing=missing)

    values, missing = network.numbers(batch)
    adapt(values[labelled], missing[labelled], edges)


def _edges(tree: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if len(x) == 0:
        return np.zeros(1)
    fitted = tree.fit(x[:, None], y).tree_
    thresholds = fitted.threshold[fitted.children_left != fitted.children_right]
    return np.concatenate([[x.min()], thresholds.clip(x.min(), x.max()), [x.max()]])
