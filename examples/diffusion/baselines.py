"""Two ways to make rows without learning a model. A model that loses to them has learned little."""

from __future__ import annotations

import numpy as np
from diffusion.tables import CATEGORIES, NUMBERS, Table, snap


def independent_columns(train: Table, n_made: int, seed: int) -> Table:
    """Every column drawn by itself: all marginals right, no relation kept."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(column, n_made) for column in train.matrix().T]
    return from_matrix(np.column_stack(columns))


def smotenc(train: Table, n_made: int, seed: int) -> Table:
    """Rows between a row and one of its five nearest of the same label, each label as often as it occurs.

    Chawla et al. 2002, arXiv:1106.1813. The numbers lie between the two; a category is the one that most
    of the five have.
    """
    try:
        from imblearn.over_sampling import SMOTENC
    except ImportError as error:
        raise ImportError("SMOTENC needs imbalanced-learn: pip install 'tabembed[bench]'") from error
    more = [round(n_made * share) for share in (1 - train.late.mean(), train.late.mean())]
    wanted = {label: int((train.late == label).sum()) + more[label] for label in (0, 1)}
    categories = range(len(NUMBERS), len(NUMBERS) + len(CATEGORIES))
    sampler = SMOTENC(list(categories), sampling_strategy=wanted, random_state=seed)
    X, y = sampler.fit_resample(train.matrix()[:, :-1], train.late)
    made = from_matrix(np.column_stack([X, y])[len(train) :])
    snapped = Table(snap(made.numbers, train.numbers), made.codes, made.late)
    return snapped[np.random.default_rng(seed).permutation(len(snapped))]  # they came label by label


def from_matrix(matrix: np.ndarray) -> Table:
    n = len(NUMBERS)
    return Table(matrix[:, :n], matrix[:, n:-1].astype(int), matrix[:, -1].astype(int))
