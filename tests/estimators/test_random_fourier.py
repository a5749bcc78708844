from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pandas as pd
import polars
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator
from sklearn_checks import PRIVATE_CHECKS

from tabembed import RandomFourierFeatures, RandomFourierTransformer, TableEmbedder, load

X = np.random.RandomState(0).normal(size=(60, 5))
X32 = X.astype(np.float32)
EVEN = "the checks set n_components = 1, and sines and cosines come in pairs"
PARTS = "the median distance needs all rows at once"
SAYS = {
    EVEN: "n_components must be even for features='sincos', got 1",
    PARTS: "lengthscale must be 'scale', a number or an array for partial_fit, got 'median'",
}
ODD_CHECKS = [
    "check_dont_overwrite_parameters",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
]
PART_CHECKS = ["check_fit_score_takes_y", "check_n_features_in_after_fitting"]
FAILURES_OF_THE_DEFAULTS = dict.fromkeys(ODD_CHECKS, EVEN) | dict.fromkeys(PART_CHECKS, PARTS)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, FAILURES_OF_THE_DEFAULTS),
        ({"lengthscale": "scale"}, dict.fromkeys(ODD_CHECKS, EVEN)),
        ({"n_components": 8, "features": "cos", "lengthscale": "scale", "kernel": "laplacian"}, {}),
        ({"n_components": 8, "features": "cos", "lengthscale": 2.0, "sampler": "sobol"}, {}),
    ],
)
@pytest.mark.filterwarnings("ignore:Can't check dok sparse")
def test_check_estimator(arguments, expected):
    transformer = RandomFourierTransformer(**arguments)
    results = check_estimator(transformer, on_fail=None, on_skip=None, expected_failed_checks=expected)
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "xfail"}
    assert set(failed) == set(expected)
    for name, reason in expected.items():
        assert SAYS[reason] in failed[name]
    # It skips itself without the environment variable SCIPY_ARRAY_API.
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert sum(r["status"] == "passed" for r in results) >= 46 - len(expected)


@pytest.mark.parametrize("check", [*PRIVATE_CHECKS, "check_transformer_preserve_dtypes"])
def test_checks_that_scikit_learn_keeps_to_itself(check):
    transformer = RandomFourierTransformer(8, lengthscale="scale")
    getattr(estimator_checks, check)("RandomFourierTransformer", transformer)


@pytest.mark.parametrize("features", ["sincos", "cos"])
def test_inner_products_approximate_the_kernel(features):
    Z = RandomFourierTransformer(20_000, lengthscale=2.0, features=features, random_state=0).fit_transform(X)
    assert_allclose(Z @ Z.T, rbf_kernel(X, gamma=0.5 / 4), atol=0.025)
    Z = RandomFourierTransformer(
        20_000, kernel="laplacian", lengthscale=2.0, features=features, random_state=0
    ).fit_transform(X)
    assert_allclose(Z @ Z.T, laplacian_kernel(X, gamma=0.5), atol=0.04)


@pytest.mark.parametrize(
    ("other", "same_draw"),
    [
        ({"n_components": 12}, False),
        ({"kernel": "matern12"}, False),
        ({"sampler": "sobol"}, False),
        ({"features": "cos"}, False),
        ({"random_state": 1}, False),
        ({"lengthscale": 3.0}, True),
    ],
)
def test_every_argument_matters(other, same_draw):
    one = RandomFourierTransformer(8, random_state=0).fit(X)
    two = RandomFourierTransformer(**{"n_components": 8, "random_state": 0, **other}).fit(X)
    assert np.array_equal(one.unit_frequencies_, two.unit_frequencies_) == same_draw
    assert not np.array_equal(one.transform(X), two.transform(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", ["sincos", "cos"])
@pytest.mark.parametrize("scale", ["median", 0.3, [0.1, 0.2, 0.3, 0.7, 1.1]])
def test_round_trip_with_the_module_gives_identical_numbers(dtype, features, scale):
    rows = X.astype(dtype)
    transformer = RandomFourierTransformer(10, lengthscale=scale, features=features, random_state=0).fit(rows)
    module = transformer.to_module(torch.from_numpy(rows).dtype)
    expected = transformer.transform(rows)
    assert expected.dtype == dtype
    assert_array_equal(module(torch.from_numpy(rows)).numpy(), expected)
    back = RandomFourierTransformer.from_module(module)
    assert_array_equal(back.transform(rows), expected)
    assert_array_equal(back.frequencies_, transformer.frequencies_)
    assert back.get_params()["lengthscale"] == np.asarray(transformer.lengthscale_).tolist()
    module.reset_parameters()  # its seed draws the same again
    assert_array_equal(module(torch.from_numpy(rows)).numpy(), expected)


@pytest.mark.parametrize("trainable", ["lengthscale", "frequencies"])
def test_from_a_trained_module(trainable):
    module = RandomFourierFeatures(5, 8, kernel="matern32", lengthscale=2.0, trainable=trainable, seed=3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.3)
        expected = module(torch.from_numpy(X32)).numpy()
    transformer = RandomFourierTransformer.from_module(module)
    assert_array_equal(transformer.transform(X32), expected)
    assert_array_equal(transformer.to_module()(torch.from_numpy(X32)).numpy(), expected)
    assert transformer.get_feature_names_out()[-1] == "randomfouriertransformer7"
    assert transformer.kernel == "matern32"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", ["median", "scale", 2.0])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_sparse_rows(dtype, scale, kernel):
    dense = np.where(X > 0.5, X, 0).astype(dtype)
    rows = sparse.csr_matrix(dense)
    of_dense, of_sparse = (
        RandomFourierTransformer(8, kernel=kernel, lengthscale=scale, random_state=0).fit(given)
        for given in (dense, rows)
    )
    assert of_sparse.lengthscale_ == pytest.approx(of_dense.lengthscale_, rel=1e-6)
    found = of_sparse.transform(rows)
    assert found.dtype == dtype
    assert_allclose(found, of_dense.transform(dense), atol=1e-5)


def test_sparse_rows_are_never_filled_in():
    numbers = np.random.RandomState(0).normal(size=1500)
    rows = sparse.csr_matrix(
        (numbers, (range(1500), range(0, 300_000, 200))), (1500, 300_000)
    )  # 3.6 GB filled
    transformer = RandomFourierTransformer(16, sampler="iid", random_state=0)
    assert transformer.fit_transform(rows).shape == (1500, 16)


@pytest.mark.parametrize("scale", ["scale", 2.0, [1.0, 2.0, 3.0, 4.0, 5.0]])
@pytest.mark.parametrize("made", [np.asarray, sparse.csr_matrix])
def test_partial_fit_is_the_fit_of_all_rows(scale, made):
    rows = np.where(X > 0, X, 0) + 0.0
    whole = RandomFourierTransformer(8, lengthscale=scale, random_state=0).fit(made(rows))
    parts = RandomFourierTransformer(8, lengthscale=scale, random_state=0)
    for part in (rows[:1], rows[1:20], rows[20:]):
        parts.partial_fit(made(part))
    assert_array_equal(parts.unit_frequencies_, whole.unit_frequencies_)
    assert_allclose(parts.lengthscale_, whole.lengthscale_, rtol=1e-7)
    assert_allclose(parts.transform(rows), whole.transform(rows), atol=1e-6)
    more = whole.partial_fit(made(100 * rows))
    both = RandomFourierTransformer(8, lengthscale=scale).fit(np.vstack([rows, 100 * rows]))
    assert_allclose(more.lengthscale_, both.lengthscale_, rtol=1e-6)


def test_partial_fit_needs_no_median():
    text = "lengthscale must be 'scale', a number or an array for partial_fit, got 'median'"
    with pytest.raises(ValueError, match=text):
        RandomFourierTransformer(8).partial_fit(X)


@pytest.mark.parametrize("made", ["module", "rbf_sampler"])
@pytest.mark.parametrize("scale", ["scale", 3.0, [1.0, 2.0, 3.0, 4.0, 5.0]])
def test_partial_fit_of_what_was_taken_from_elsewhere(made, scale):
    """The frequencies stay, and the lengthscale is that of the rows alone: those before were never seen."""
    if made == "module":
        transformer = RandomFourierTransformer.from_module(RandomFourierFeatures(5, 8, seed=0))
    else:
        transformer = RandomFourierTransformer.from_rbf_sampler(RBFSampler(n_components=8).fit(X))
    drawn = transformer.unit_frequencies_.copy()
    transformer.set_params(lengthscale=scale)
    for part in (X[:20], X[20:]):
        transformer.partial_fit(part)
    assert_array_equal(transformer.unit_frequencies_, drawn)
    expected = RandomFourierTransformer(8, lengthscale=scale).fit(X).lengthscale_
    assert_allclose(transformer.lengthscale_, expected, rtol=1e-6)
    assert_array_equal(transformer.frequencies_, drawn / np.reshape(transformer.lengthscale_, (-1, 1)))


@pytest.mark.parametrize(
    ("name", "other"), [("n_components", 6), ("kernel", "matern12"), ("sampler", "iid"), ("features", "cos")]
)
def test_partial_fit_keeps_to_what_was_drawn(name, other):
    fitted = RandomFourierTransformer(8, lengthscale=2.0, random_state=0).fit(X)
    before, given = fitted.transform(X), fitted.get_params()[name]
    text = f"{name} must stay {given!r} for partial_fit, got {other!r}"
    with pytest.raises(ValueError, match=text):
        fitted.set_params(**{name: other}).partial_fit(X)
    assert_array_equal(fitted.transform(X), before)
    assert fitted.set_params(lengthscale=3.0, **{name: given}).partial_fit(X).lengthscale_ == 3.0
    assert fitted.set_params(**{name: other}).fit(X)._law[name] == other


@pytest.mark.parametrize("first", ["median", 2.0])
def test_variance_of_rows_that_were_not_counted_is_an_error(first):
    fitted = RandomFourierTransformer(8, lengthscale=first).fit(X)
    text = "lengthscale must be 'scale' from the first rows on for partial_fit, got it after rows fitted with"
    with pytest.raises(ValueError, match=text):
        fitted.set_params(lengthscale="scale").partial_fit(X)
    assert fitted.fit(X).partial_fit(X).lengthscale_ > 0


def test_frames_out():
    transformer = RandomFourierTransformer(4, random_state=0).set_output(transform="pandas")
    frame = pd.DataFrame(X32, columns=list("abcde"), index=range(100, 160))
    found = transformer.fit_transform(frame)
    assert list(found) == [f"randomfouriertransformer{i}" for i in range(4)]
    assert_array_equal(found.index, frame.index)
    assert set(found.dtypes) == {np.dtype(np.float32)}
    of_polars = transformer.set_output(transform="polars").transform(polars.from_pandas(frame))
    assert_array_equal(of_polars.to_numpy(), found.to_numpy())


def test_rows_in_any_memory():
    transformer = RandomFourierTransformer(8, random_state=0).fit(X)
    expected = transformer.transform(X)
    frozen = X.copy()
    frozen.flags.writeable = False
    for same in (np.asfortranarray(X), frozen, X[::-1][::-1], np.repeat(X, 2, 1)[:, ::2]):
        assert_array_equal(transformer.transform(same), expected)
    assert_array_equal(transformer.transform(X[::-1]), expected[::-1])
    before = X.copy()
    transformer.transform(X)
    assert_array_equal(X, before)


def test_several_blocks(monkeypatch):
    transformers = [RandomFourierTransformer(8, features=f, random_state=0).fit(X) for f in ("sincos", "cos")]
    whole = [transformer.transform(X) for transformer in transformers]
    monkeypatch.setattr("tabembed.functional.random_features._BLOCK", 30)
    for transformer, expected in zip(transformers, whole, strict=True):
        assert_allclose(transformer.transform(X), expected, atol=1e-15)
        assert_allclose(transformer.transform(sparse.csr_matrix(X)), expected, atol=1e-14)


def test_copies_and_threads():
    transformer = RandomFourierTransformer(64, random_state=0).fit(X)
    expected = transformer.transform(X)
    assert_array_equal(pickle.loads(pickle.dumps(transformer)).transform(X), expected)
    assert_array_equal(clone(transformer).fit(X).transform(X), expected)
    many = np.tile(X, (100, 1))
    serial = transformer.transform(many)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(transformer.transform, [many] * 16):
            assert_array_equal(found, serial)


def test_random_state_means_what_it_means_to_scikit_learn():
    def draw(state):
        return RandomFourierTransformer(8, random_state=state).fit(X).unit_frequencies_

    assert_array_equal(draw(0), draw(0))
    assert_array_equal(draw(np.random.RandomState(0)), draw(0))
    state = np.random.RandomState(0)
    assert not np.array_equal(draw(state), draw(state))
    numpy_state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state()
    draw(3)
    assert_array_equal(np.random.get_state()[1], numpy_state)
    assert torch.equal(torch.get_rng_state(), torch_state)
    np.random.seed(5)
    one = draw(None)
    np.random.seed(5)
    assert_array_equal(draw(None), one)
    assert not np.array_equal(draw(None), one)
    assert torch.equal(torch.get_rng_state(), torch_state)


@pytest.mark.filterwarnings("ignore:TableEmbedder.transform got the table")
def test_a_map_for_each_column_inside_a_table_embedder(tmp_path):
    draw = np.random.RandomState(0)
    frame = pd.DataFrame({"a": draw.normal(size=200), "b": draw.normal(size=200)})
    frame.loc[::7, "a"] = np.nan
    numeric = partial(RandomFourierFeatures.from_columns, d_embedding=8, kernel="matern52", lengthscale=0.5)
    embedder = TableEmbedder(numeric=numeric, output="row", max_iter=2, random_state=0)
    vectors = embedder.fit(frame, frame["b"] ** 2).transform(frame)
    assert np.isfinite(vectors).all()
    assert [m.kernel_name for m in embedder.network_.embedding.numeric.columns] == ["matern52"] * 2
    embedder.save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").transform(frame), vectors)


@pytest.mark.slow
def test_grid_search_in_two_processes():
    rows, target = load_diabetes(return_X_y=True)
    search = GridSearchCV(
        make_pipeline(RandomFourierTransformer(64, random_state=0), Ridge(1e-3)),
        {"randomfouriertransformer__lengthscale": [0.003, "median"]},
        n_jobs=2,
        cv=3,
    ).fit(rows, target)
    assert search.best_params_ == {"randomfouriertransformer__lengthscale": "median"}
    assert search.best_score_ > 0.35


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1, got 0"),
        ({"n_components": 7}, ValueError, "n_components must be even for features='sincos', got 7"),
        ({"n_components": 8.0}, TypeError, "n_components must be an integer, got 8.0"),
        ({"kernel": "l1"}, ValueError, "kernel must be one of rbf, matern12, matern32, matern52, laplacian"),
        ({"sampler": "qmc"}, ValueError, "sampler must be one of auto, iid, orthogonal, sobol, got 'qmc'"),
        ({"features": "sin"}, ValueError, "features must be one of sincos, cos, got 'sin'"),
        ({"kernel": "laplacian", "sampler": "orthogonal"}, ValueError, "sampler must be auto, iid or sobol"),
        ({"lengthscale": 0}, ValueError, "lengthscale must be finite and positive, got 0"),
        ({"lengthscale": [1.0, 2.0]}, ValueError, "lengthscale must have 5 numbers, one per feature, got 2"),
        (
            {"lengthscale": "mean"},
            ValueError,
            "lengthscale must be 'median', 'scale', a number, or one for each feature, got 'mean'",
        ),
        ({"lengthscale": None}, TypeError, "lengthscale must be a number, or one for each feature, got None"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=re.escape(text)):
        RandomFourierTransformer(**arguments).fit(X)


@pytest.mark.parametrize("made", [np.array, sparse.csr_matrix])
def test_nan_is_refused(made):
    rows = X.copy()
    rows[3, 2] = np.nan
    transformer = RandomFourierTransformer(8, lengthscale=1.0)
    for call in (transformer.fit, transformer.partial_fit, transformer.fit(X).transform):
        with pytest.raises(ValueError, match="contains NaN"):
            call(made(rows))
