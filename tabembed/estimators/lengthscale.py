"""How far apart rows are: the lengthscale of a kernel, chosen from a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances
from sklearn.preprocessing import StandardScaler

_MEDIAN_ROWS = 1000


def median_distance(X: Any, kernel: str, random_state: np.random.RandomState) -> float:
    """Median distance of two of at most 1000 rows drawn from a table, in the kernel's own norm.

    Where more than half of the pairs are equal rows, the median of the others; 1 if there are none.
    """
    if X.shape[0] > _MEDIAN_ROWS:
        X = X[random_state.choice(X.shape[0], _MEDIAN_ROWS, replace=False)]
    if sparse.issparse(X):  # pdist would fill in the zeros
        of_sparse = manhattan_distances if kernel == "laplacian" else euclidean_distances
        distances = of_sparse(X.astype(np.float64))[np.triu_indices(X.shape[0], 1)]
    else:
        rows = torch.from_numpy(np.array(X, dtype=np.float64))
        distances = torch.pdist(rows, 1.0 if kernel == "laplacian" else 2.0).numpy()
    if distances.size and np.median(distances) == 0:
        distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 1.0


def all_numbers(X: Any) -> Any:
    """All numbers of a table as one float64 column, sparse where the table is."""
    return X.astype(np.float64).reshape(-1, 1)


def scale_lengthscale(numbers: StandardScaler, n_features: int) -> float:
    """ℓ = √(d · variance / 2): scikit-learn's gamma = "scale" as 1/(2ℓ²); 1 where nothing varies.

    Args:
        numbers: fitted on ``all_numbers`` of the rows, at once or in parts.
        n_features: d.
    """
    variance = float(numbers.var_[0])
    constant = numbers.scale_[0] == 1 and variance < 0.5  # scikit-learn tells rounding from spread so
    return 1.0 if constant else float(np.sqrt(n_features * variance / 2))
