"""How good are made rows? Four questions, all asked against rows that no method has seen.

Single columns and linear classifiers are not asked: independent columns, which keep no relation at
all, come out of both as well as the best models do.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from diffusion.tables import CATEGORIES, NUMBERS, Table
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import OneHotEncoder, StandardScaler

N_BINS = 10


def trend(made: Table, real: Table) -> float:
    """Mean likeness of the relations between two columns, over all pairs; 1 is alike.

    Two numbers: 1 − |ρ − ρ̂| / 2. Otherwise 1 − the total variation distance of the two
    contingency tables, numbers cut into ten bins of equal counts (of the real rows).
    """
    likeness = [
        1 - abs(correlation(made, i, j) - correlation(real, i, j)) / 2
        for i, j in combinations(range(len(NUMBERS)), 2)
    ]
    edges = [np.unique(np.quantile(column, np.linspace(0, 1, N_BINS + 1)[1:-1])) for column in real.numbers.T]
    made_codes, real_codes = in_bins(made, edges), in_bins(real, edges)
    for i, j in combinations(range(real_codes.shape[1]), 2):
        if j >= len(NUMBERS):
            likeness.append(1 - total_variation(made_codes[:, [i, j]], real_codes[:, [i, j]]))
    return float(np.mean(likeness))


def correlation(table: Table, i: int, j: int) -> float:
    return np.corrcoef(table.numbers[:, i], table.numbers[:, j])[0, 1]


def in_bins(table: Table, edges: list[np.ndarray]) -> np.ndarray:
    """All columns as small integers."""
    bins = [
        np.searchsorted(e, column, side="right") for e, column in zip(edges, table.numbers.T, strict=True)
    ]
    return np.column_stack([*bins, table.codes, table.late])


def total_variation(made: np.ndarray, real: np.ndarray) -> float:
    """Half the absolute differences between the shares of all pairs of codes."""
    shape = np.maximum(made.max(0), real.max(0)) + 1
    shares = [
        np.bincount(np.ravel_multi_index(tuple(codes.T), shape), minlength=shape.prod()) / len(codes)
        for codes in (made, real)
    ]
    return np.abs(shares[0] - shares[1]).sum() / 2


def boosting(seed: int, n_columns: int) -> HistGradientBoostingClassifier:
    """The judge: gradient boosting that knows which columns are categories."""
    categories = range(len(NUMBERS), len(NUMBERS) + len(CATEGORIES))
    is_category = [column in categories for column in range(n_columns)]
    return HistGradientBoostingClassifier(categorical_features=is_category, random_state=seed)


def not_told_apart(made: Table, real: Table, seed: int) -> float:
    """1 − (2 · AUC − 1) of boosting that tells made rows from real ones; 1 when it cannot (C2ST)."""
    X = np.concatenate([made.matrix(), real.matrix()])
    y = np.repeat([0, 1], [len(made), len(real)])
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    auc = cross_val_score(boosting(seed, X.shape[1]), X, y, cv=folds, scoring="roc_auc").mean()
    return float(2 - 2 * max(0.5, auc))


def train_on_made_test_on_real(made: Table, real: Table, seed: int) -> float:
    """AUC on real rows of boosting that learned the label from made ones."""
    model = boosting(seed, len(NUMBERS) + len(CATEGORIES)).fit(made.matrix()[:, :-1], made.late)
    return float(roc_auc_score(real.late, model.predict_proba(real.matrix()[:, :-1])[:, 1]))


def share_copied(made: Table, train: Table) -> float:
    """Share of made rows that stand, cell by cell, in the rows trained on."""
    known = set(map(tuple, train.matrix()))
    return float(np.mean([tuple(row) in known for row in made.matrix()]))


def share_nearer_to_train(made: Table, train: Table, real: Table, n_made: int = 2000) -> float:
    """Share of made rows nearer to a row trained on than to any of as many held-out ones.

    A half when nothing was copied. Numbers are standardised, each differing category counts 2.
    """
    to_train, to_real = (distances(made[:n_made], reference, train) for reference in (train, real))
    return float(np.mean((to_train < to_real) + (to_train == to_real) / 2))


def distances(made: Table, reference: Table, train: Table) -> np.ndarray:
    """Distance of every made row to its nearest of the reference."""
    scaler, one_hot = StandardScaler().fit(train.numbers), OneHotEncoder(sparse_output=False)
    one_hot.fit(np.concatenate([made.codes, reference.codes]))
    vectors = [
        np.hstack([scaler.transform(t.numbers), one_hot.transform(t.codes)]).astype(np.float32)
        for t in (made, reference)
    ]
    return NearestNeighbors(n_neighbors=1, algorithm="brute").fit(vectors[1]).kneighbors(vectors[0])[0][:, 0]
