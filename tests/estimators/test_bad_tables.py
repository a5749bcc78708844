"""Tables and targets that nothing, or not everything, can be learned from: what is said of them."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from tabembed import (
    Categorical,
    LearnedFourierTransformer,
    SequenceEmbedder,
    SequenceEncoder,
    TableEmbedder,
    TableEncoder,
)

N = 60
DRAW = np.random.RandomState(0)
TABLE = pd.DataFrame({"city": DRAW.choice(list("abc"), N), "km": DRAW.randn(N)})
HALF = np.arange(N) % 2 == 0
FIRST, LAST = np.arange(N // 2), np.arange(N // 2, N)


def fit_transform(X=TABLE, y=HALF, **params):
    small = {"cv": 2, "max_iter": 1, "hidden_layer_sizes": (8, 4), "random_state": 0}
    return TableEmbedder(**{**small, **params}).fit_transform(X, y)


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize(
    ("cv", "y", "message"),
    [
        (2, np.zeros(N), "y must have at least two distinct values, got one class, 0.0"),
        (KFold(2), np.arange(N) < 30, "got False alone in fold 1 of 2"),
        (
            KFold(2),
            np.where(np.arange(N) < 30, 0.5, DRAW.rand(N)),
            "y to train on, got one value in fold 2 of 2",
        ),
        (2, np.arange(N) == 7, "two distinct values of y to train on, got False alone in fold . of 2"),
        ([(FIRST[:0], np.arange(N))], HALF, "two distinct values of y to train on, got none in fold 1 of 1"),
        (
            [(FIRST, np.arange(40)), (LAST, LAST)],
            HALF,
            "exactly once, got 0 rows never and 10 more than once",
        ),
        ([(LAST, FIRST), (np.arange(20, N), LAST)], HALF, "got 30 such rows in fold 2 of 2"),
        (100, HALF, "n_splits=100 greater than the number of samples: n_samples=60"),
        (40, HALF, "n_splits=40 cannot be greater than the number of members in each class"),
        ("time", HALF, "Expected `cv` as an integer, a cross-validation object"),
    ],
)
def test_folds_that_cannot_be_learned_from(cv, y, message):
    with pytest.raises(ValueError, match=message):
        fit_transform(y=y, cv=cv)


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_a_class_that_folds_know_nothing_of_is_spoken_of():
    y = np.where(np.arange(N) == 7, "c", np.where(HALF, "a", "b"))
    text = r"y has so few rows of 1 of its classes \(c\) that up to 1 of 2 folds train on none of one: their"
    with pytest.warns(UserWarning, match=text) as said:
        assert np.isfinite(fit_transform(y=y)).all()
    assert {w.filename for w in said if "its classes (c)" in str(w.message)} == {__file__}
    with warnings.catch_warnings(record=True, action="always") as said:
        fit_transform(y=np.where(HALF, "a", "b"))
    assert not said


def test_fewer_rows_of_a_class_than_folds_is_what_it_is_to_scikit_learn():
    with pytest.warns(UserWarning, match="least populated class in y has only 3 members") as said:
        assert np.isfinite(fit_transform(y=np.arange(N) % 20 == 0, cv=5)).all()
    assert not any("know nothing" in str(w.message) for w in said)  # every fold has some to train on


@pytest.mark.parametrize("estimator", ["table", "fourier"])
def test_two_fractions_are_two_classes(estimator):
    y = np.where(HALF, 0.5, 1.25)
    if estimator == "table":
        assert np.isfinite(fit_transform(y=y)).all()
    else:
        transformer = LearnedFourierTransformer(2, max_iter=12, cv=2, random_state=0, validation_fraction=0)
        assert np.isfinite(transformer.fit_transform(TABLE[["km"]], y)).all()
        assert transformer.target_type_ == "binary"


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (np.where(HALF, np.nan, 1.0), ValueError, "y must have no missing value, got NaN in row 0"),
        (np.where(HALF, 1.0, np.inf), ValueError, "y must be finite, got infinity in row 1"),
        (
            np.ma.masked_array(DRAW.randn(N), HALF),
            ValueError,
            "y must have no missing value, got NaN in row 0",
        ),
        (np.array(["a", 1] * 30, dtype=object), TypeError, "y must be of one kind, got int and str"),
        (pd.Series([1, [2]] * 30), TypeError, "y must be numbers, booleans or text, got a list in row 1"),
        (pd.DataFrame({"a": HALF, "b": HALF}), ValueError, "y should be a 1d array, got an array of shape"),
        ("km", ValueError, "y should be a 1d array"),
        (np.ones(N) * 1j, ValueError, "Complex data not supported"),
    ],
)
def test_targets_that_are_none(y, error, message):
    with pytest.raises(error, match=message):
        fit_transform(y=y)


TARGETS = {
    "boolean": pd.Series(HALF).astype("boolean"),
    "Int64": pd.Series(HALF).astype("Int64"),
    "category": pd.Series(np.where(HALF, "u", "v")).astype("category"),
    "string": pd.Series(np.where(HALF, "u", "v")).astype("string"),
    "object": pd.Series([True, False] * 30, dtype=object),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_of_every_dtype_are_read_alike(kind):
    plain = fit_transform(y=np.where(HALF, "v", "u") if TARGETS[kind].iloc[0] == "u" else HALF)
    sign = TARGETS[kind].iloc[0] == "u"
    assert sign or np.array_equal(fit_transform(y=TARGETS[kind]), plain)
    assert fit_transform(y=TARGETS[kind]).shape == plain.shape


def test_a_frame_of_one_column_is_a_target_with_scikit_learns_warning():
    with pytest.warns(UserWarning, match="A column-vector y was passed when a 1d array was expected"):
        found = fit_transform(y=pd.DataFrame({"y": HALF}))
    assert np.array_equal(found, fit_transform())


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (TABLE.set_axis(["x", "x"], axis=1), HALF, "column 'x': must be there once, got it 2 times"),
        (TABLE[:0], HALF[:0], r"Found array with 0 sample\(s\)"),
        (TABLE[:1], HALF[:1], "y must have at least two distinct values, got one class"),
        (TABLE[:2], HALF[:2], "n_splits=2 cannot be greater than the number of members in each class"),
        (TABLE[[]], HALF, "table must have at least one column"),
        (TABLE[["km"]], None, "X must have a column to predict and another to predict it from"),
        (TABLE.assign(km=np.nan)[["km"]], None, "X must have a column to predict"),
    ],
)
@pytest.mark.filterwarnings("ignore:column 'km'.*no value in the fit")
def test_tables_that_are_none(X, y, message):
    with pytest.raises(ValueError, match=message):
        fit_transform(X, y)


def test_columns_without_a_value_are_named():
    with pytest.warns(
        UserWarning, match=r"column 'gone' \(continuous\), column 'none' \(categorical\): no value"
    ):
        vectors = fit_transform(TABLE.assign(gone=np.nan, none=None))
    assert np.isfinite(vectors).all()
    with pytest.warns(UserWarning, match="no value in the fit, so nothing is known of it"):
        vectors = fit_transform(TABLE.assign(city=None, km=np.nan))
    assert np.isfinite(vectors).all()


ODD = {
    "constant": {"one": 1, "x": "x", "day": pd.Timestamp("2024-01-01")},
    "huge and tiny": {"huge": np.where(HALF, 1e300, -1e300), "tiny": 1e-300 * DRAW.randn(N)},
    "infinite": {"inf": np.where(HALF, np.inf, -1.0)},
    "hostile": {
        "text": DRAW.choice(["\x00", "a\x00b", "", " ", "é", "e\u0301", "😀" * 999, "nan", "None"], N)
    },
    "unused": {"cat": pd.Categorical(DRAW.choice(list("pq"), N), categories=list("pqrs"))},
    "one row each": {"id": [f"row {i}" for i in range(N)]},
    "nullable": {"b": pd.Series(HALF).astype("boolean"), "i": pd.Series(range(N)).astype("Int64")},
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_columns_give_finite_vectors(kind):
    X = TABLE.assign(**ODD[kind])
    before = X.copy(deep=True)
    assert np.isfinite(fit_transform(X)).all()
    pd.testing.assert_frame_equal(X, before)


def test_two_rows_and_one_column():
    embedder = TableEmbedder(max_iter=1, random_state=0).fit(TABLE[:2], HALF[:2])
    assert np.isfinite(embedder.transform(TABLE[:1])).all()
    assert np.isfinite(fit_transform(TABLE[["km"]])).all()


def test_a_loss_that_runs_away_names_the_argument():
    events = TABLE.assign(
        who=np.arange(N) // 5, when=pd.Timestamp("2024-01-01") + pd.to_timedelta(range(N), "h")
    )
    own = {"learning_rate_init": 1e20, "random_state": 0}
    message = r"loss must stay finite, got .*; learning_rate_init=1e\+20 may be too large"
    with pytest.raises(ValueError, match=message):
        TableEmbedder(**own).fit(TABLE, TABLE["km"])
    with pytest.raises(ValueError, match=message):
        SequenceEmbedder(SequenceEncoder("who", "when"), d_model=8, num_layers=1, **own).fit(
            events, TABLE["km"]
        )
    with pytest.raises(ValueError, match=message):
        LearnedFourierTransformer(**own).fit(TABLE[["km"]], TABLE["km"])


def test_a_column_of_one_row_a_category_counts_as_unknown():
    ids = pd.DataFrame(
        {
            "id": [f"row {i}" for i in range(1500)],
            "twice": [f"pair {i // 2}" for i in range(1500)],
            "km": np.arange(1500.0),
        }
    )
    y = np.arange(1500) % 2
    embedder = TableEmbedder(max_iter=1, random_state=0, batch_size=1024)
    text = "column 'id': 1,500 of 1,500 categories have one row each.*: they count as unknown"
    for target in (y, None):
        with pytest.warns(UserWarning, match=text) as said:
            embedder.fit(ids, target)
        assert [w.filename for w in said] == [__file__]
        assert {name: len(known) for name, known in embedder.encoder_.categories_.items()} == {
            "id": 0,
            "twice": 750,
        }
        assert np.isfinite(embedder.transform(ids[:9])).all()
    embedder.set_params(encoder=TableEncoder({"id": Categorical(min_frequency=1)}))
    with warnings.catch_warnings(record=True, action="always") as said:
        embedder.fit(ids, y)
    assert not said
    assert len(embedder.encoder_.categories_["id"]) == 1500
