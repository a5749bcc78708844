from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator
from sklearn_checks import PRIVATE_CHECKS

from tabembed import LearnedFourierFeatures, LearnedFourierTransformer

OUT_OF_FOLD = "fit_transform gives out-of-fold vectors, which differ from those of transform by design"
EXPECTED = {
    "check_transformer_general": OUT_OF_FOLD,
    "check_transformer_data_not_an_array": OUT_OF_FOLD,
}
SEEN = "ignore:LearnedFourierTransformer.transform got the rows"


def waves(n_rows=300, seed=0):
    draw = np.random.RandomState(seed)
    X = pd.DataFrame({"age": 2000 + 7 * draw.randn(n_rows), "km": 0.01 * draw.randn(n_rows)})
    signal = np.sin((X["age"] - 2000) / 3) + 0.5 * np.cos(300 * X["km"])
    return X, (signal + 0.1 * draw.randn(n_rows)).to_numpy()


@pytest.fixture(scope="module")
def table():
    return waves()


@pytest.fixture(scope="module")
def fitted(table):
    return LearnedFourierTransformer(4, cv=3, max_iter=10, random_state=0).fit(*table)


def small(**arguments):
    given = {"n_components": 3, "n_frequencies": 8, "cv": 2, "max_iter": 2, "random_state": 0}
    return LearnedFourierTransformer(**{**given, **arguments})


@pytest.mark.filterwarnings(SEEN, "ignore:Can't check dok sparse")
def test_check_estimator():
    results = check_estimator(small(), on_fail=None, on_skip=None, expected_failed_checks=EXPECTED)
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []
    assert sum(r["status"] == "xfail" for r in results) <= 3
    assert sum(r["status"] == "passed" for r in results) >= 40


@pytest.mark.filterwarnings(SEEN)
@pytest.mark.parametrize("check", PRIVATE_CHECKS)
def test_checks_that_scikit_learn_keeps_to_itself(check):
    getattr(estimator_checks, check)("LearnedFourierTransformer", small())


def test_it_finds_waves_that_a_linear_model_cannot(table):
    pipeline = make_pipeline(LearnedFourierTransformer(cv=3, max_iter=30, random_state=0), Ridge())
    X, y = waves(200, seed=1)
    assert pipeline.fit(*table).score(X, y) > 0.85
    assert make_pipeline(StandardScaler(), Ridge()).fit(*table).score(X, y) < 0.5


@pytest.mark.parametrize("labels", [("no", "yes"), (0, 1, 2)])
def test_classes(table, labels):
    X, y = table
    y = np.array(labels)[
        np.digitize(y, np.quantile(y, [1 / len(labels), 2 / len(labels)][: len(labels) - 1]))
    ]
    transformer = LearnedFourierTransformer(4, cv=2, max_iter=20, random_state=0)
    model = LogisticRegression().fit(transformer.fit_transform(X, y), y)
    assert transformer.classes_.tolist() == list(labels)
    assert transformer.target_type_ == {2: "binary", 3: "multiclass"}[len(labels)]
    fresh, _ = waves(200, seed=1)
    assert model.predict(transformer.transform(fresh)).shape == (200,)
    assert model.score(transformer.fit_transform(X, y), y) > 0.7


def test_vectors_of_noise_carry_nothing():
    draw = np.random.RandomState(0)
    X, y = draw.randn(200, 5), draw.randn(200)
    transformer = LearnedFourierTransformer(
        4, cv=5, max_iter=40, learning_rate_init=0.01, validation_fraction=0.0, random_state=0
    )
    out_of_fold = transformer.fit_transform(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = transformer.transform(X)
    assert cross_val_score(Ridge(), seen, y).mean() > 0.2
    assert cross_val_score(Ridge(), out_of_fold, y).mean() < 0.05


def test_folds_share_the_coordinates_of_the_full_fit(table):
    X, y = table
    transformer = LearnedFourierTransformer(4, cv=3, max_iter=20, random_state=0)
    out_of_fold = transformer.fit_transform(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        full = transformer.transform(X)
    for a, b in zip(out_of_fold.T, full.T, strict=True):
        assert np.corrcoef(a, b)[0, 1] > 0.8
    assert not np.allclose(out_of_fold, full)


def test_transform_of_the_rows_of_the_fit_warns(table, fitted):
    with pytest.warns(UserWarning, match="LearnedFourierTransformer.transform got the rows of the fit"):
        fitted.transform(table[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.transform(table[0][::-1])
        fitted.transform(table[0][:-1])


def test_early_stopping_and_its_record(table):
    transformer = small(max_iter=60, n_iter_no_change=2, learning_rate_init=0.1).fit(*table)
    losses = transformer.validation_losses_
    assert transformer.n_iter_ == len(losses) - 1 < 60
    assert len(losses) - 1 - losses.index(min(losses)) == 2
    never = small(max_iter=3, validation_fraction=0.0).fit(*table)
    assert (never.n_iter_, never.validation_losses_) == (3, [])


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_frequencies": 5},
        {"hidden_features": 6},
        {"scale": 0.5},
        {"target_type": "multiclass"},
        {"alpha": 1.0},
        {"max_iter": 3},
        {"batch_size": 50},
        {"learning_rate_init": 0.02},
        {"validation_fraction": 0.3},
        {"random_state": 1},
    ],
    ids=str,
)
def test_every_argument_changes_the_vectors(table, arguments):
    X, y = table[0], np.digitize(table[1], [-0.5, 0.5]).astype(float)
    fresh, _ = waves(5, seed=1)
    one, two = (small(**given).fit(X, y).transform(fresh) for given in ({}, arguments))
    assert not np.allclose(one, two)


def test_cv_changes_the_out_of_fold_vectors(table):
    one, two = (small(cv=cv).fit_transform(*table) for cv in (2, KFold(3)))
    assert not np.allclose(one, two)


def test_random_state_is_all_that_is_random(table):
    state = torch.get_rng_state(), np.random.get_state()[1].copy()
    one, two = (small().fit_transform(*table) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert torch.equal(torch.get_rng_state(), state[0])
    np.testing.assert_array_equal(np.random.get_state()[1], state[1])


def test_dtypes_names_and_frames(table, fitted):
    X, y = table
    names = [f"learnedfouriertransformer{i}" for i in range(3)]
    for dtype in ("float32", "float64"):
        assert small().fit_transform(X.astype(dtype), y).dtype == dtype
        assert fitted.transform(X[:5].astype(dtype)).dtype == dtype
    np.testing.assert_allclose(fitted.transform(X[:5].astype("float32")), fitted.transform(X[:5]), atol=1e-3)
    plain = small().fit_transform(X, y)
    pandas = small().set_output(transform="pandas").fit_transform(X, y)
    assert isinstance(pandas, pd.DataFrame)
    assert pandas.columns.tolist() == names
    np.testing.assert_array_equal(pandas.to_numpy(), plain)
    polars = small().set_output(transform="polars").fit_transform(X, y)
    assert isinstance(polars, pl.DataFrame)
    np.testing.assert_array_equal(polars.to_numpy(), plain)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hidden", [None, 6])
def test_round_trip_through_a_module(table, dtype, hidden):
    transformer = small(hidden_features=hidden, scale=0.3).fit(*table)
    X = table[0][:40].to_numpy(dtype)
    state = torch.get_rng_state()
    module = transformer.to_module(torch.from_numpy(X).dtype)
    assert torch.equal(torch.get_rng_state(), state)
    expected = transformer.transform(X)
    np.testing.assert_array_equal(module(torch.from_numpy(X)).detach().numpy(), expected)
    again = LearnedFourierTransformer.from_module(transformer.to_module())
    np.testing.assert_array_equal(again.transform(X), expected)
    assert (again.n_components, again.n_frequencies, again.hidden_features, again.scale) == (
        3,
        8,
        hidden,
        0.3,
    )


def test_from_module_takes_any_features():
    module = LearnedFourierFeatures(2, 5, n_frequencies=7, seed=0)
    x = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    transformer = LearnedFourierTransformer.from_module(module)
    np.testing.assert_array_equal(transformer.transform(x.numpy()), module(x).detach().numpy())
    assert len(transformer.get_feature_names_out()) == 5
    before = transformer.weights_["bias"].copy()
    with torch.no_grad():
        module.bias.add_(1)
    np.testing.assert_array_equal(transformer.weights_["bias"], before)


def test_constant_columns_and_far_origins(table):
    X = table[0].assign(constant=0.1, when=1.7e9 + np.arange(300))
    vectors = small(max_iter=5).fit(X, table[1])
    assert np.isfinite(vectors.transform(X[:7])).all()


def test_pickle_clone_and_search(table, fitted):
    X, y = table
    twin = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(twin.transform(X[:9]), fitted.transform(X[:9]))
    assert clone(fitted).get_params() == fitted.get_params()
    pipeline = make_pipeline(small(max_iter=8, learning_rate_init=0.01), Ridge())
    grid = {"learnedfouriertransformer__scale": [1e-4, 0.1]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(X, y)
    assert search.best_params_ == {"learnedfouriertransformer__scale": 0.1}


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1, got 0"),
        ({"n_frequencies": 0}, ValueError, "n_frequencies must be at least 1, got 0"),
        ({"hidden_features": 0}, ValueError, "hidden_features must be at least 1, got 0"),
        ({"scale": "median"}, ValueError, "scale must be 'auto' or a number, got 'median'"),
        ({"scale": 0.0}, ValueError, "scale must be finite and positive, got 0.0"),
        ({"cv": 1}, ValueError, "cv must be at least 2, got 1"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1, got 0"),
        (
            {"target_type": "ordinal"},
            ValueError,
            "target_type must be one of auto, continuous, binary",
        ),
        ({"device": "tpu"}, ValueError, "device must be 'auto' or a device of PyTorch, got 'tpu'"),
    ],
)
def test_bad_arguments(table, arguments, error, text):
    with pytest.raises(error, match=text):
        small(**arguments).fit_transform(*table)


def test_bad_tables(table, fitted):
    X, y = table
    with pytest.raises(ValueError, match="LearnedFourierTransformer requires y to be passed"):
        small().fit(X)
    gap = X.copy()
    gap.iloc[3, 1] = np.nan
    for call in (lambda: small().fit(gap, y), lambda: fitted.transform(gap)):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            call()
    with pytest.raises(ValueError, match="y must have no missing value, got NaN in row 3"):
        small().fit(X, np.where(np.arange(300) == 3, np.nan, y))


def test_verbose_shows_a_bar(table, capsys):
    small(verbose=1).fit_transform(*table)
    assert "fold 2 of 2" in capsys.readouterr().out


def ripples(n_rows, speed):
    X = np.random.RandomState(0).uniform(-3, 3, (n_rows, 2))
    return X, np.sin(speed * X[:, 0]) * np.cos(2 * X[:, 1])


def test_auto_takes_a_larger_scale_where_it_must():
    slow, fast = (LearnedFourierTransformer(random_state=0).fit(*ripples(600, speed)) for speed in (0.5, 5))
    assert slow.to_module().scale < fast.to_module().scale
    assert min(fast.validation_losses_) < 0.6 * fast.validation_losses_[0]
    unheld = LearnedFourierTransformer(validation_fraction=0.0, max_iter=1, random_state=0).fit(
        *ripples(90, 5)
    )
    assert unheld.to_module().scale == pytest.approx(1 / (2 * np.pi * 2**0.5))


def test_a_fit_that_learned_nothing_says_so():
    X, _ = ripples(600, 1)
    noise = np.random.RandomState(1).randn(600)
    text = "has hardly learned anything: the loss on held-out rows went from .* from scale=0.11"
    with pytest.warns(ConvergenceWarning, match=text) as caught:
        LearnedFourierTransformer(random_state=0).fit(X, noise)
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LearnedFourierTransformer(random_state=0).fit(*ripples(600, 5))
