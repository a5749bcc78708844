from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from tabembed.plot.plane import on_plane


@pytest.mark.parametrize("shape", [(13, 5), (4, 2), (3, 30)])
def test_pca_is_scikit_learns_up_to_the_signs(shape):
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    points, names = on_plane(vectors, "pca")
    pca = PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
    np.testing.assert_allclose(np.abs(points), np.abs(pca.transform(vectors)), atol=1e-6)
    first, second = (f"{share:.0%}".replace("%", " %") for share in pca.explained_variance_ratio_)
    assert names == (f"component 1 ({first} of the variance)", f"component 2 ({second})")


def test_the_sign_of_a_component_follows_from_its_direction():
    vectors = np.random.default_rng(0).normal(size=(9, 3))
    points, _ = on_plane(vectors, "pca")
    np.testing.assert_allclose(on_plane(-vectors, "pca")[0], -points, atol=1e-12)


@pytest.mark.parametrize("method", ["pca", "tsne"])
@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (3, 2), (5, 1), (6, 4)])
def test_few_vectors_and_narrow_ones(method, shape):
    vectors = np.random.default_rng(0).normal(size=shape)
    points, _ = on_plane(vectors, method)
    assert points.shape == (shape[0], 2)
    assert np.isfinite(points).all()
    if method == "pca" and shape[1] == 1:
        np.testing.assert_allclose(
            points, np.column_stack([vectors - vectors.mean(), 0 * vectors]), atol=1e-12
        )


def test_equal_vectors_are_one_point():
    assert np.abs(on_plane(np.ones((4, 3)), "pca")[0]).max() == 0


def test_tsne_keeps_neighbours_and_follows_from_its_state():
    vectors = np.repeat(np.random.default_rng(0).normal(size=(3, 5)) * 10, 8, axis=0)
    vectors += np.random.default_rng(1).normal(size=vectors.shape) * 0.1
    points, names = on_plane(vectors, "tsne", random_state=3)
    assert names == ("t-SNE 1", "t-SNE 2")
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    nearest = np.argsort(distance, axis=1)[:, 1:8]
    assert (nearest // 8 == np.arange(24)[:, None] // 8).all()
    assert np.array_equal(points, on_plane(vectors, "tsne", random_state=3)[0])


def test_other_methods_are_refused():
    with pytest.raises(ValueError, match="method must be one of pca, tsne, got 'umap'"):
        on_plane(np.ones((3, 2)), "umap")
