"""Vectors as points of a plane."""

from __future__ import annotations

import numpy as np

from tabembed._checks import check_choice

METHODS = ("pca", "tsne")


def on_plane(
    vectors: np.ndarray, method: str, *, random_state: int = 0
) -> tuple[np.ndarray, tuple[str, str]]:
    """Points for vectors, and names of the two axes.

    Args:
        vectors: the vectors.
        method: ``"pca"``, the plane on which they vary most, or ``"tsne"``, which keeps neighbours together
            and does not keep distances.
        random_state: what t-SNE draws follows from it.

    Shape:
        - vectors: ``(n, width)``
        - output: ``(n, 2)``; the second coordinate is 0 where the vectors vary along one line alone

    Raises: ValueError for another method.

    >>> points, names = on_plane(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 3.0], [0.0, 1.0, 2.0]]), "pca")
    >>> points.shape, names
    ((3, 2), ('component 1 (75 % of the variance)', 'component 2 (25 %)'))
    """
    check_choice(METHODS, method=method)
    vectors = vectors.astype(np.float64)
    if method == "tsne" and len(vectors) > 3:
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (len(vectors) - 1) / 3)
        settings = {"init": "pca" if min(vectors.shape) > 1 else "random", "random_state": random_state}
        points = TSNE(2, perplexity=perplexity, **settings).fit_transform(vectors)
        return points.astype(np.float64), ("t-SNE 1", "t-SNE 2")
    centred = vectors - vectors.mean(0)
    left, spread, right = np.linalg.svd(centred, full_matrices=False)
    # A component may point either way: the largest entry of its direction is positive.
    signs = np.sign(np.take_along_axis(right, np.abs(right).argmax(1)[:, None], 1)[:, 0])
    points = np.zeros((len(vectors), 2))
    n_found = min(2, len(spread))
    points[:, :n_found] = (left * (spread * signs))[:, :n_found]
    shares = np.zeros(2)
    shares[:n_found] = (spread**2 / max((spread**2).sum(), np.finfo(float).tiny))[:n_found]
    first, second = (f"{share:.0%}".replace("%", " %") for share in shares)
    return points, (f"component 1 ({first} of the variance)", f"component 2 ({second})")
