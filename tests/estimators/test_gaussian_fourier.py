from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import reference
import torch
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator
from sklearn_checks import PRIVATE_CHECKS

from tabembed import GaussianFourierProjection, GaussianFourierTransformer
from tabembed.nn import LinearEmbedding, PerColumn


@pytest.fixture
def X():
    return pd.DataFrame(np.random.RandomState(0).randn(50, 2), columns=["age", "km"])


@pytest.mark.filterwarnings("ignore:Can't check dok sparse")
@pytest.mark.parametrize(
    "transformer",
    [GaussianFourierTransformer(), GaussianFourierTransformer(3, log=True, epsilon=1e-6, order="cos_sin")],
)
def test_check_estimator(transformer):
    results = check_estimator(transformer, on_fail=None, on_skip=None)
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []
    assert sum(r["status"] == "passed" for r in results) >= 40


@pytest.mark.parametrize("check", PRIVATE_CHECKS)
def test_checks_that_scikit_learn_keeps_to_itself(check):
    getattr(estimator_checks, check)("GaussianFourierTransformer", GaussianFourierTransformer())


@pytest.mark.parametrize("order", ["sin_cos", "cos_sin"])
@pytest.mark.parametrize("log", [False, True])
def test_matches_the_scalar_loops(X, log, order):
    X = X.to_numpy()
    X = np.exp(X) if log else X
    transformer = GaussianFourierTransformer(3, log=log, order=order, random_state=0).fit(X)
    expected = [
        [z for x, f in zip(row, transformer.frequencies_.tolist(), strict=True)
         for z in reference.gaussian_projection(x, f, order, log)]
        for row in X.tolist()
    ]  # fmt: skip
    np.testing.assert_allclose(transformer.transform(X), expected, atol=1e-14)
    assert transformer.transform(X).shape == (50, 12)


def test_float64_and_integers_keep_their_phases():
    X = np.array([[2_000_000_000], [1_700_000_001], [-3]])
    transformer = GaussianFourierTransformer(5, scale=16.0, random_state=0).fit(X)
    frequencies = transformer.frequencies_[0].tolist()
    rows = [reference.gaussian_projection(Fraction(x), frequencies, "sin_cos") for x in X[:, 0].tolist()]
    np.testing.assert_allclose(transformer.transform(X), rows, atol=1e-12)


def test_float32_is_kept(X):
    transformer = GaussianFourierTransformer(random_state=0).fit(X)
    narrow = transformer.transform(X.astype("float32"))
    assert narrow.dtype == np.float32
    assert transformer.transform(X).dtype == np.float64
    np.testing.assert_allclose(narrow, transformer.transform(X), atol=1e-5)


def test_names_and_frames(X):
    transformer = GaussianFourierTransformer(2, random_state=0).fit(X)
    names = ["age_sin0", "age_sin1", "age_cos0", "age_cos1", "km_sin0", "km_sin1", "km_cos0", "km_cos1"]
    assert transformer.get_feature_names_out().tolist() == names
    plain = transformer.transform(X)
    pandas = clone(transformer).set_output(transform="pandas").fit(X).transform(X)
    assert isinstance(pandas, pd.DataFrame)
    assert pandas.columns.tolist() == names
    np.testing.assert_array_equal(pandas.to_numpy(), plain)
    polars = clone(transformer).set_output(transform="polars").fit(X).transform(X)
    assert isinstance(polars, pl.DataFrame)
    np.testing.assert_array_equal(polars.to_numpy(), plain)
    np.testing.assert_allclose(
        pandas["km_cos1"], np.cos(2 * np.pi * X["km"] * transformer.frequencies_[1, 1])
    )
    swapped = GaussianFourierTransformer(1, order="cos_sin").fit(X).get_feature_names_out()
    assert swapped.tolist() == ["age_cos0", "age_sin0", "km_cos0", "km_sin0"]


def test_frequencies_follow_scale_and_random_state():
    X = np.zeros((1, 2))
    one = GaussianFourierTransformer(4000, scale=[0.5, 3.0], random_state=0).fit(X)
    np.testing.assert_allclose(one.frequencies_.std(1), [0.5, 3.0], rtol=0.05)
    again, other = (
        GaussianFourierTransformer(4000, scale=0.5, random_state=seed).fit(X).frequencies_ for seed in (0, 1)
    )
    np.testing.assert_array_equal(one.frequencies_[0], again[0])
    assert not np.isclose(again[0], again[1]).any()
    assert not np.isclose(again, other).any()
    state = torch.get_rng_state()
    GaussianFourierTransformer().fit(X)
    assert torch.equal(torch.get_rng_state(), state)


def test_partial_fit_is_the_fit(X):
    whole = GaussianFourierTransformer(random_state=0).fit(X)
    parts = GaussianFourierTransformer(random_state=0)
    for start in range(0, 50, 20):
        parts.partial_fit(X[start : start + 20])
    np.testing.assert_array_equal(parts.frequencies_, whole.frequencies_)
    with pytest.raises(ValueError, match="feature names should match"):
        parts.partial_fit(X.rename(columns={"km": "miles"}))


def test_logarithm_and_its_floor():
    X = np.array([[1e-4, 1.0], [1e4, 2.0]])
    log = GaussianFourierTransformer(2, log=True, random_state=0).fit(X)
    plain = GaussianFourierTransformer(2, random_state=0).fit(X)
    np.testing.assert_allclose(log.transform(X), plain.transform(np.log(X)), atol=1e-12)
    floored = GaussianFourierTransformer(2, log=True, epsilon=0.01, random_state=0).fit(X - 1)
    np.testing.assert_allclose(floored.transform(X), log.transform(np.maximum(X, 0.01)), atol=1e-12)
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, -2.0]})
    text = "column 'b': must be above 0 when log=True and epsilon=None, got -2; give epsilon"
    with pytest.raises(ValueError, match=text):
        GaussianFourierTransformer(log=True).fit(frame)
    with pytest.raises(ValueError, match="column 1: must be above 0"):
        log.transform(np.array([[1.0, 0.0]]))
    assert log.__sklearn_tags__().input_tags.positive_only
    assert not floored.__sklearn_tags__().input_tags.positive_only


def test_gaps_are_an_error(X):
    transformer = GaussianFourierTransformer().fit(X)
    X.iloc[3, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        transformer.transform(X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        GaussianFourierTransformer().fit(X)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n_frequencies": 0}, ValueError, "n_frequencies must be at least 1, got 0"),
        ({"scale": 0}, ValueError, "scale must be finite and positive, got 0"),
        ({"scale": [1.0, -2.0]}, ValueError, "scale must be finite and positive, got -2.0"),
        ({"scale": "auto"}, TypeError, "scale must be a number, got 'auto'"),
        (
            {"scale": [1.0]},
            ValueError,
            "scale must be one number, or one for each column, got 1 numbers for 2 columns",
        ),
        ({"epsilon": 0.1}, ValueError, "epsilon must be None when log=False, got 0.1"),
        ({"order": "sin"}, ValueError, "order must be one of sin_cos, cos_sin, got 'sin'"),
    ],
)
def test_bad_arguments(X, arguments, error, text):
    with pytest.raises(error, match=text):
        GaussianFourierTransformer(**arguments).fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("log", [False, True])
def test_round_trip_through_a_module(X, dtype, log):
    X = (np.exp(X) if log else X).to_numpy(dtype)
    transformer = GaussianFourierTransformer(
        3, scale=[0.3, 2.0], log=log, epsilon=0.01 if log else None, order="cos_sin", random_state=0
    ).fit(X)
    module = transformer.to_module(torch.from_numpy(X).dtype)
    expected = transformer.transform(X)
    np.testing.assert_array_equal(module(torch.from_numpy(X)).flatten(1).detach().numpy(), expected)
    again = GaussianFourierTransformer.from_module(module)
    np.testing.assert_array_equal(again.transform(X), expected)
    assert again.get_params() == {**transformer.get_params(), "random_state": None}
    gone = torch.ones(1, 2, dtype=torch.bool)
    assert not module(torch.full((1, 2), torch.nan), gone).any()


def test_a_projection_is_a_transformer_of_one_column():
    projection = GaussianFourierProjection(6, learnable=True, seed=0)
    x = torch.linspace(-2, 2, 9)
    transformer = GaussianFourierTransformer.from_module(projection)
    features = transformer.transform(x[:, None].numpy())
    np.testing.assert_array_equal(features, projection(x).detach().numpy())
    assert transformer.scale == 16.0
    assert transformer.get_feature_names_out().tolist()[:2] == ["x0_sin0", "x0_sin1"]


def test_from_module_takes_columns_alike():
    odd = [GaussianFourierProjection(6), GaussianFourierProjection(6, order="cos_sin")]
    with pytest.raises(ValueError, match="module must have columns alike, got Gaussian"):
        GaussianFourierTransformer.from_module(PerColumn(odd, 6))
    with pytest.raises(TypeError, match="module must be made of GaussianFourierProjection, got LinearEmb"):
        GaussianFourierTransformer.from_module(LinearEmbedding(2, 3))


def test_pickle_and_search(X):
    transformer = GaussianFourierTransformer(random_state=0).fit(X)
    twin = pickle.loads(pickle.dumps(transformer))
    np.testing.assert_array_equal(twin.transform(X), transformer.transform(X))
    y = np.sin(3 * X["age"])
    pipeline = make_pipeline(StandardScaler(), GaussianFourierTransformer(random_state=0), Ridge(1e-3))
    grid = {"gaussianfouriertransformer__scale": [0.001, 0.3]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(X, y)
    assert search.best_params_ == {"gaussianfouriertransformer__scale": 0.3}
    assert search.best_score_ > 0.9


def test_many_rows_are_the_rows_one_by_one():
    X = np.random.RandomState(0).randn(40_000, 2)
    transformer = GaussianFourierTransformer(20, random_state=0).fit(X)
    together = transformer.transform(X)
    for row in (0, 13_106, 13_107, 39_999):
        np.testing.assert_allclose(together[row], transformer.transform(X[row : row + 1])[0], atol=1e-15)
    X.setflags(write=False)
    np.testing.assert_array_equal(transformer.transform(X[::-1]), together[::-1])
