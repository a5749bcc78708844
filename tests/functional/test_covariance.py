from __future__ import annotations

import pytest
import reference
import torch
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from torch.testing import assert_close

from tabembed.functional.covariance import KERNELS, covariance

X = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
SCALES = torch.tensor([0.5, 1.5, 3.0], dtype=torch.float64)


@pytest.mark.parametrize("kernel", KERNELS)
def test_matches_the_scalar_loops(kernel):
    expected = [[reference.kernel(kernel, x, y, SCALES.tolist()) for y in Y.tolist()] for x in X.tolist()]
    expected = torch.tensor(expected, dtype=torch.float64)
    assert_close(covariance(kernel, X, Y, SCALES), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "theirs"),
    [
        ("rbf", RBF(1.7)),
        ("matern12", Matern(1.7, nu=0.5)),
        ("matern32", Matern(1.7, nu=1.5)),
        ("matern52", Matern(1.7, nu=2.5)),
        ("laplacian", lambda x, y: laplacian_kernel(x, y, gamma=1 / 1.7)),
        ("rbf", lambda x, y: rbf_kernel(x, y, gamma=0.5 / 1.7**2)),
    ],
)
def test_means_what_scikit_learn_means(kernel, theirs):
    expected = torch.from_numpy(theirs(X.numpy(), Y.numpy()))
    assert_close(covariance(kernel, X, Y, 1.7), expected, rtol=1e-10, atol=1e-12)


def test_leading_dimensions_broadcast():
    x, y = X.expand(2, 1, 7, 3), Y.expand(4, 5, 3)
    assert_close(covariance("matern32", x, y), covariance("matern32", X, Y).expand(2, 4, 7, 5))


@pytest.mark.parametrize(
    ("x", "y", "dtype"),
    [
        (X.half(), Y.half(), torch.float32),
        (X.float(), Y, torch.float64),
        ((4 * X).long(), Y.float(), torch.float64),
    ],
)
def test_never_narrower_than_float32(x, y, dtype):
    found = covariance("rbf", x, y)
    assert found.dtype == dtype
    assert_close(found.double(), covariance("rbf", x.double(), y.double()), rtol=1e-5, atol=1e-6)


def test_close_rows_far_from_zero_keep_their_distance():
    x = torch.tensor([[1e6], [1e6 + 1]])
    assert_close(covariance("rbf", x, x)[0, 1], torch.tensor(-0.5).exp())


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients(kernel):
    x, y, scale = (t[:3].clone().requires_grad_() for t in (X, Y, SCALES))
    assert torch.autograd.gradcheck(lambda *given: covariance(kernel, *given), (x, y, scale))
    same = covariance(kernel, x, x).sum()
    assert torch.autograd.grad(same, x)[0].isfinite().all()


def test_unknown_kernel():
    with pytest.raises(ValueError, match=f"kernel must be one of {', '.join(KERNELS)}, got 'gauss'"):
        covariance("gauss", X, Y)
