from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from tabembed import GaussianFourierTransformer, LearnedFourierTransformer, RandomFourierTransformer
from tabembed.estimators.tables import check_names, check_rows

X = np.random.RandomState(0).randn(30, 2)
Y = X[:, 0] + X[:, 1] ** 2
TRANSFORMERS = [
    GaussianFourierTransformer(2),
    RandomFourierTransformer(4),
    LearnedFourierTransformer(3, n_frequencies=4, cv=2, max_iter=1),
]
FRAMES = {
    "numpy": lambda dtype: X.astype(dtype),
    "pandas": lambda dtype: pd.DataFrame(X.astype(dtype), columns=["a", "b"]),
    "polars": lambda dtype: pl.DataFrame(X.astype(dtype), schema=["a", "b"]),
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda t: type(t).__name__)
def test_float32_stays_float32_in_every_frame(transformer, dtype, frame):
    rows = FRAMES[frame](dtype)
    assert transformer.fit_transform(rows, Y).dtype == dtype
    found = transformer.fit(rows, Y).transform(rows[:7])
    assert found.dtype == dtype
    plain = X.astype(dtype)[:7]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an array has no names
        np.testing.assert_array_equal(found, transformer.transform(plain))


@pytest.mark.parametrize(
    ("rows", "dtype"),
    [
        (np.ones((2, 2), np.float16), "float64"),
        (np.ones((2, 2), np.int32), "float64"),
        (np.ones((2, 2), bool), "float64"),
        (np.array([[1, 2.5], [3, 4]], dtype=object), "float64"),
        ([[1, 2], [3, 4]], "float64"),
        (pd.DataFrame({"a": [1.5, 2.0], "b": [1, 2]}).astype({"a": "float32"}), "float64"),
        (
            pd.DataFrame({"a": [1.5, 2.0]}, dtype="Float32"),
            "float64",
        ),  # so scikit-learn reads pandas' nullable
        (pl.DataFrame({"a": [1, 2]}), "float64"),
        (sparse.csr_matrix(np.eye(2, dtype=np.float32)), "float32"),
        (sparse.csc_matrix(np.eye(2, dtype=np.int64)), "float64"),
    ],
    ids=str,
)
def test_rows_are_float32_or_float64(rows, dtype):
    found = check_rows(BaseEstimator(), rows, reset=True, accept_sparse="csr")
    assert found.dtype == dtype
    assert not sparse.issparse(rows) or found.format == "csr"


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        ([[1.0, np.nan]], ValueError, "Input X contains NaN"),
        ([[1.0, np.inf]], ValueError, "Input X contains infinity"),
        ([["a", "b"]], ValueError, "dtype='numeric' is not compatible|could not convert"),
        ([[1j, 2]], ValueError, "Complex data not supported"),
        (sparse.csr_matrix(np.eye(2)), TypeError, "Sparse data was passed"),
        ([[1.0, 2.0, 3.0]], ValueError, "X has 3 features, but BaseEstimator is expecting 2"),
    ],
    ids=str,
)
def test_what_is_no_row(rows, error, text):
    estimator = BaseEstimator()
    check_rows(estimator, X, reset=True)
    with pytest.raises(error, match=text):
        check_rows(estimator, rows, reset=False)


def test_names_are_those_of_the_fit():
    estimator = BaseEstimator()
    check_rows(estimator, pd.DataFrame(X, columns=["a", "b"]), reset=True)
    check_names(estimator, None)
    check_names(estimator, ["a", "b"])
    with pytest.raises(ValueError, match=r"equal to number of features \(2\), got 1"):
        check_names(estimator, ["a"])
    with pytest.raises(
        ValueError, match=r"input_features is not equal to feature_names_in_, got \['b', 'a'\]"
    ):
        check_names(estimator, ["b", "a"])
    with pytest.raises(ValueError, match="feature names should match"):
        check_rows(estimator, pd.DataFrame(X, columns=["a", "c"]), reset=False)
