"""How far apart rows are: the lengthscale of a kernel, chosen from a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

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


@dataclass(frozen=True)
class Moments:
    """Number, mean, and sum of squares about it, of all numbers of a table."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, X: Any) -> Moments:
        """The moments with these rows added.

        Source: Chan, Golub & LeVeque 1983, equation 2.1.
        """
        stored = np.asarray(X.data if sparse.issparse(X) else X, dtype=np.float64)
        count = X.shape[0] * X.shape[1]
        mean = stored.sum() / count
        squares = np.square(stored - mean).sum() + (count - stored.size) * mean**2
        total, step = self.count + count, mean - self.mean
        return Moments(
            total,
            float(self.mean + step * count / total),
            float(self.squares + squares + step**2 * self.count * count / total),
        )

    def lengthscale(self, n_features: int) -> float:
        """ℓ = √(d · variance / 2): scikit-learn's gamma = "scale" as 1/(2ℓ²); 1 where nothing varies."""
        variance = self.squares / self.count
        if variance <= (4 * np.finfo(np.float64).eps * self.mean) ** 2:  # rounding alone
            return 1.0
        return float(np.sqrt(n_features * variance / 2))
