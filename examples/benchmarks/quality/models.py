"""The models on top of an encoding: a linear one, nearest neighbours, and boosted trees.

They are the same for every encoding. What they choose (regularisation, number of neighbours, columns as they
are or with equal variance), they choose inside the training rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

STRENGTHS = (0.01, 0.1, 1.0)
ALPHAS = tuple(10.0**power for power in range(-1, 5))
NEIGHBOURS = (5, 15, 51, 151)
MOST_ASKED = 2_500
"""Training rows whose own neighbours tell how many to take."""
MANY = 5_000
"""Rows of which a fifth is enough to choose by."""
WIDE = 400
"""Columns from which second derivatives cost more than they save."""

Matrix = Any


def score(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    """Area under the ROC curve of a binary target, root mean squared error of a number."""
    if task == "binary":
        return float(roc_auc_score(y, predicted))
    return float(root_mean_squared_error(y, predicted))


def linear(task: str, train: Matrix, y: np.ndarray, test: Matrix, seed: int) -> np.ndarray:
    """Ridge, chosen by leave-one-out; or logistic regression, chosen by folds, one of them for many rows."""
    if task == "continuous":
        return _ridge(train, y, test)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(y, y))
    folds = folds[:1] if len(y) > MANY else folds
    found = []
    for ours, theirs in scalings(train, test):
        for strength in STRENGTHS:
            values = [
                score(task, y[held_out], _logistic(strength, ours[rows], y[rows], ours[held_out]))
                for rows, held_out in folds
            ]
            found.append((np.mean(values), strength, ours, theirs))
    _, strength, ours, theirs = max(found, key=lambda one: one[0])
    return _logistic(strength, ours, y, theirs)


def _ridge(train: Matrix, y: np.ndarray, test: Matrix) -> np.ndarray:
    found = []
    for ours, theirs in scalings(dense(train, float), dense(test, float)):
        model = RidgeCV(ALPHAS).fit(ours, y)
        found.append((model.best_score_, model, theirs))
    _, model, theirs = max(found, key=lambda one: one[0])
    return model.predict(theirs)


def _logistic(strength: float, train: Matrix, y: np.ndarray, test: Matrix) -> np.ndarray:
    solver = "newton-cholesky" if train.shape[1] < WIDE else "lbfgs"
    model = LogisticRegression(C=strength, solver=solver, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 200 steps are near enough for a ranking
        model.fit(train, y)
    return model.decision_function(test)


def neighbours(task: str, train: Matrix, y: np.ndarray, test: Matrix, seed: int) -> np.ndarray:
    """Mean target of the nearest rows; how many, by leaving out training rows one at a time."""
    asked = np.random.default_rng(seed).permutation(len(y))[:MOST_ASKED]
    sizes = [size for size in NEIGHBOURS if size < len(y)]
    found = []
    for ours, theirs in scalings(train, test):
        ours, theirs = dense(ours, np.float32), dense(theirs, np.float32)
        index = NearestNeighbors(algorithm="brute").fit(ours)
        others = y[_others(index, ours, asked, sizes[-1])]
        for size in sizes:
            value = score(task, y[asked], others[:, :size].mean(axis=1))
            found.append((value if task == "binary" else -value, size, index, theirs))
    _, size, index, theirs = max(found, key=lambda one: one[0])
    return y[index.kneighbors(theirs, size, return_distance=False)].mean(axis=1)


def _others(index: NearestNeighbors, train: np.ndarray, asked: np.ndarray, size: int) -> np.ndarray:
    """The nearest of every row that is asked, the nearest first, without itself."""
    found = index.kneighbors(train[asked], size + 1, return_distance=False)
    itself = found == asked[:, None]
    itself[~itself.any(axis=1), -1] = True  # equal rows crowded it out: the last goes instead
    return found[~itself].reshape(len(asked), size)


def boosting(task: str, train: Matrix, y: np.ndarray, test: Matrix, seed: int) -> np.ndarray:
    """Boosted trees with scikit-learn's settings, always all of the 100 trees."""
    train, test = dense(train, np.float32), dense(test, np.float32)
    if task == "continuous":
        model = HistGradientBoostingRegressor(early_stopping=False, random_state=seed)
        return model.fit(train, y).predict(test)
    model = HistGradientBoostingClassifier(early_stopping=False, random_state=seed)
    return model.fit(train, y).decision_function(test)


MODELS: dict[str, Callable[[str, Matrix, np.ndarray, Matrix, int], np.ndarray]] = {
    "linear": linear,
    "neighbours": neighbours,
    "boosting": boosting,
}


def scalings(train: Matrix, test: Matrix) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The columns as they are, and with equal variance: what suits one encoding spoils another.

    Zeros and ones with equal variance would make the rarest category weigh most, so one-hot is left as it is.
    """
    yield (train, test)
    if not sparse.issparse(train):
        scaler = StandardScaler().fit(train)
        yield scaler.transform(train), scaler.transform(test)


def dense(matrix: Matrix, dtype: Any) -> np.ndarray:
    filled = matrix.toarray() if sparse.issparse(matrix) else matrix
    return np.asarray(filled, dtype=dtype)
