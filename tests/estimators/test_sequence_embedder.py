"""``check_estimator`` feeds arrays, which name no entity and no time: what makes sense of it stands here."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

import tabembed
from tabembed import (
    ArtifactError,
    Categorical,
    SequenceEmbedder,
    SequenceEncoder,
    TableEmbedder,
    TableEncoder,
)
from tabembed.estimators import saved_embedder
from tabembed.nn import CyclicEmbedding, PeriodicEmbedding
from tabembed.sequence import check_no_leak

pytestmark = pytest.mark.filterwarnings("ignore:SequenceEmbedder.transform got the table")
OBSERVED = ["paid", "late"]


def make_events(n_entities=23, seed=0):
    """Rows of events in no order, with odd labels and some rows twice under one label."""
    draw = np.random.default_rng(seed)
    counts = draw.integers(1, 12, n_entities)
    n = counts.sum()
    X = pd.DataFrame(
        {
            "who": np.repeat([f"card {i}" for i in range(n_entities)], counts),
            "when": pd.Timestamp("2024-01-01", tz="UTC")
            + pd.to_timedelta(draw.integers(0, 5000, n), unit="h"),
            "shop": draw.choice(["Oslo", "Rome", "Lima", None], n),
            "price": np.where(draw.random(n) < 0.1, np.nan, draw.normal(size=n)),
            "paid": np.where(draw.random(n) < 0.1, np.nan, draw.normal(size=n)),
            "late": draw.random(n) < 0.4,
        }
    )
    X.index = draw.integers(0, n // 2, n)
    before = X.set_axis(range(n)).sort_values("when", kind="stable").groupby("who")["paid"].shift()
    y = (before.reindex(range(n)).fillna(0) + 0.3 * draw.normal(size=n) > 0).to_numpy()
    return X, y


@pytest.fixture(scope="module")
def events():
    return make_events()


def make_embedder(**params):
    encoder = params.pop("encoder", None) or SequenceEncoder("who", "when", observed=OBSERVED)
    small = {
        "d_model": 16,
        "num_layers": 1,
        "max_iter": 2,
        "cv": 3,
        "learning_rate_init": 0.003,
        "random_state": 0,
    }
    return SequenceEmbedder(encoder, **{**small, **params})


@pytest.fixture(scope="module")
def fitted(events):
    return make_embedder().fit(*events)


SCHEMES = [
    (position, "time") for position in ("rotary", "alibi", "decay", "sinusoidal", "learned", None, "gru")
]


@pytest.mark.parametrize(("position", "clock"), [*SCHEMES, ("rotary", "index"), ("gru", "index")])
def test_a_rows_vector_knows_no_future(events, position, clock):
    embedder = make_embedder(position=position, clock=clock, max_iter=1).fit(*events)
    check_no_leak(embedder.transform, events[0], entity="who", time="when", observed=OBSERVED)


def test_an_estimator_that_looks_at_its_own_observed_cells_is_found(events):
    embedder = make_embedder(encoder=SequenceEncoder("who", "when", observed=["late"])).fit(*events)
    with pytest.raises(AssertionError, match="own observed cells"):
        check_no_leak(embedder.transform, events[0], entity="who", time="when", observed=OBSERVED)


def test_noise_is_not_found_out_of_fold_and_is_within_the_fit():
    X, _ = make_events(60)
    noise = np.random.default_rng(1).random(len(X)) < 0.5
    embedder = make_embedder(
        max_iter=60, batch_size=50, learning_rate_init=0.02, validation_fraction=0, dropout=0
    )
    score = partial(cross_val_predict, LogisticRegression(), cv=5, method="decision_function")
    groups = pd.factorize(X["who"])[0]
    folds = list(GroupKFold(5).split(X, groups=groups))
    honest = embedder.fit_transform(X, noise)
    seen = embedder.transform(X)
    assert 0.38 < roc_auc_score(noise, score(honest, noise, cv=folds)) < 0.62
    assert roc_auc_score(noise, score(seen, noise, cv=folds)) > 0.8


def test_the_order_of_the_table_does_not_matter_and_labels_survive(events, fitted):  # H16
    X, _ = events
    order = np.random.default_rng(3).permutation(len(X))
    expected = fitted.transform(X)
    frame = copy.deepcopy(fitted).set_output(transform="pandas").transform(X.iloc[order])
    assert np.array_equal(frame.to_numpy(), expected[order])
    assert frame.index.equals(X.index[order])
    assert not frame.index.is_unique
    three = pd.DataFrame(
        {
            "who": "a",
            "when": pd.to_datetime([30, 10, 20], unit="h", utc=True),
            "shop": ["Lima", "Oslo", "Rome"],
        },
        index=[7, 7, 2],
    ).assign(price=0.0, paid=1.0, late=False)
    found = copy.deepcopy(fitted).set_output(transform="pandas").transform(three)
    assert found.index.tolist() == [7, 7, 2]
    assert np.array_equal(found.to_numpy()[[1, 2, 0]], fitted.transform(three.iloc[[1, 2, 0]]))


def test_new_rows_have_the_past_that_they_are_given(events, fitted):
    X, _ = events
    new = X["when"] > X["when"].quantile(0.7)
    past, late = X[~new], X[new]
    expected = fitted.transform(X)[new.to_numpy()]
    assert np.array_equal(fitted.transform(pd.concat([past, late]))[len(past) :], expected)
    assert not np.allclose(fitted.transform(late), expected)


def test_frames_of_every_library(events, fitted):
    X, _ = events
    expected = fitted.transform(X)
    plain = X.reset_index(drop=True)
    columns = {name: plain[name].tolist() for name in plain if name != "when"} | {"when": plain["when"]}
    for other in (pl.from_pandas(plain), pa.Table.from_pandas(plain), {n: columns[n] for n in X}):
        assert np.array_equal(fitted.transform(other), expected)


@pytest.mark.parametrize("cv", [2, "time"])
def test_frames_of_every_library_are_fitted_alike(events, cv):
    X, y = events
    plain = X.reset_index(drop=True)
    with warnings.catch_warnings(action="ignore"):
        expected = make_embedder(cv=cv).fit_transform(X, y)
        for other in (pl.from_pandas(plain), {name: plain[name] for name in plain}):
            assert np.array_equal(make_embedder(cv=cv).fit_transform(other, y), expected)


@pytest.mark.parametrize(
    "rows", [np.zeros((3, 2)), [[1, 2], [3, 4]], torch.zeros(3, 2)], ids=["array", "list", "t"]
)
def test_an_array_names_no_entity(rows, fitted):
    text = f"X must be a table with named columns, got {type(rows).__name__}: an array does not say which"
    for act in (lambda: make_embedder().fit(rows), lambda: copy.deepcopy(fitted).transform(rows)):
        with pytest.raises(TypeError, match=text):
            act()


def test_the_table_and_the_encoder_stay_as_they_were(events):
    X, y = events
    before, target = X.copy(), y.copy()
    columns = TableEncoder({"shop": Categorical()}, min_frequency=2)
    encoder = SequenceEncoder("who", "when", columns, observed=OBSERVED)
    embedder = make_embedder(encoder=encoder)
    embedder.fit_transform(X, y)
    embedder.transform(X)
    pd.testing.assert_frame_equal(X, before)
    assert np.array_equal(y, target)
    assert embedder.encoder is encoder
    assert encoder.columns is columns
    assert not [name for part in (encoder, columns) for name in vars(part) if name.endswith("_")]


@pytest.mark.parametrize("kind", ["continuous", "binary", "multiclass"])
@pytest.mark.parametrize("output", ["row", "entity"])
def test_every_kind_of_target(events, kind, output):
    X, y = events
    number = X["price"].fillna(0).to_numpy() + y
    classes = np.array(["a", "b", "c"])[np.digitize(number, [0, 1])]
    target = {"continuous": number, "binary": y, "multiclass": classes}[kind]
    embedder = make_embedder(output=output)
    vectors = embedder.fit_transform(X, target)
    assert embedder.target_type_ == kind
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(X) if output == "row" else X["who"].nunique(), 16)
    assert np.isfinite(vectors).all()
    expected = None if kind == "continuous" else np.unique(target)
    assert (embedder.classes_ is None) if expected is None else (embedder.classes_ == expected).all()
    assert len(embedder.validation_losses_) == embedder.n_iter_ + 1


def test_row_vectors_come_out_of_fold_by_entity(events):
    """Changing the target of a fold's entities leaves their vectors where they were, but for the one map."""
    X, y = events
    codes = pd.factorize(X["who"])[0]
    rows = [np.flatnonzero(codes % 2 == half) for half in (0, 1)]
    embedder = make_embedder(cv=[(rows[1], rows[0]), (rows[0], rows[1])], validation_fraction=0.0)
    before = embedder.fit_transform(X, y)
    changed = np.where(codes % 2 == 0, y[::-1], y)  # all of them flipped would give the same vectors
    after = embedder.fit_transform(X, changed)
    assert explained(before[rows[0]], after[rows[0]]) > 0.9999
    assert explained(before[rows[1]], after[rows[1]]) < 0.999
    assert np.array_equal(before, make_embedder(**{**embedder.get_params(deep=False)}).fit_transform(X, y))


def explained(a, b):
    """Share of ``b`` that the best affine map of ``a`` explains."""
    a = np.hstack([a, np.ones((len(a), 1))]).astype(np.float64)
    rest = b - a @ np.linalg.lstsq(a, b.astype(np.float64), rcond=None)[0]
    return 1 - (rest**2).sum() / ((b - b.mean(0)) ** 2).sum()


def test_a_target_by_entity(events):
    X, _ = events
    entities = sorted(X["who"].unique())
    y = {entity: i % 3 == 0 for i, entity in enumerate(entities)}
    by_dict = make_embedder(output="entity").fit_transform(X, y)
    series = pd.Series(y).sample(frac=1, random_state=0)
    assert np.array_equal(by_dict, make_embedder(output="entity").fit_transform(X, series))
    rows = make_embedder().fit_transform(X, y)
    assert rows.shape == (len(X), 16)
    with pytest.raises(ValueError, match="got 1 others, such as 'card 99'"):
        make_embedder().fit(X, {**y, "card 99": True})


@pytest.mark.parametrize("pooling", ["last", "mean", "decay"])
def test_entities_are_sorted_and_are_the_index(events, pooling):
    X, y = events
    embedder = make_embedder(output="entity", pooling=pooling).fit(X, y)
    frame = embedder.set_output(transform="pandas").transform(X)
    assert frame.index.tolist() == sorted(X["who"].unique())
    assert frame.index.name == "who"
    assert frame.columns.tolist() == [f"entity_e{i}" for i in range(16)]
    assert embedder.fit_transform(X, y).index.equals(frame.index)
    assert isinstance(embedder.set_output(transform="polars").transform(X), pl.DataFrame)
    assert isinstance(embedder.set_output(transform="default").transform(X), np.ndarray)
    rows = embedder.set_params(output="row").transform(X)
    of_one = (X["who"] == "card 3").to_numpy()
    own = rows[of_one][np.argsort(X["when"][of_one], kind="stable")]
    expected = {"last": own[-1], "mean": own.mean(0)}
    if pooling in expected:
        np.testing.assert_allclose(frame.loc["card 3"], expected[pooling], atol=1e-6)


def test_pooling_is_that_of_the_fit(events):
    fitted = make_embedder(output="entity", pooling="mean").fit(*events)
    before = fitted.transform(events[0])
    assert np.array_equal(fitted.set_params(pooling="last").transform(events[0]), before)


def test_without_a_target_it_learns_by_the_next_row(events):
    X, _ = events
    embedder = make_embedder(max_iter=6, learning_rate_init=0.01)
    vectors = embedder.fit_transform(X)
    assert (embedder.target_type_, embedder.classes_) == ("next_row", None)
    assert min(embedder.validation_losses_) < embedder.validation_losses_[0]
    assert np.isfinite(vectors).all()
    check_no_leak(embedder.transform, X, entity="who", time="when", observed=OBSERVED)


def test_a_target_of_the_wrong_length_says_both_readings(events):
    X, y = events
    text = f"y must have one value for every row of X, which has {len(X)}, or be a dict or a series with one"
    with pytest.raises(ValueError, match=re.escape(text)):
        make_embedder().fit(X, y[:-1])


@pytest.mark.parametrize("output", ["row", "entity"])
@pytest.mark.parametrize("cv", [3, "time"])
def test_rows_that_the_encoder_leaves_out(events, output, cv):
    X, y = events
    X = X.copy()
    X.iloc[[0, 5], 0] = None
    X.iloc[[9], 1] = pd.NaT
    gaps = np.array(y, dtype=object)
    gaps[[0, 5, 9]] = None
    encoder = SequenceEncoder("who", "when", observed=OBSERVED, on_missing="drop")
    embedder = make_embedder(encoder=encoder, output=output, cv=cv)
    if (output, cv) == ("entity", "time"):
        with pytest.raises(ValueError, match="cv='time' must have output='row', got 'entity'"):
            embedder.fit_transform(X, gaps)
        return
    with pytest.warns(UserWarning, match="left out") as said:
        vectors = embedder.fit_transform(X, gaps)
    texts = " ".join(str(warning.message) for warning in said)
    assert "3 rows are left out: column 'who' is missing in 2, column 'when' is missing in 1" in texts
    if output == "row":
        assert f"no vector (NaN) to 3 of {len(X)} rows, which its encoder leaves out" in texts
        assert np.flatnonzero(np.isnan(vectors).all(1)).tolist() == [0, 5, 9]
        assert np.isnan(vectors).sum() == 3 * 16
    else:
        assert np.isfinite(vectors).all()


@pytest.mark.parametrize(
    ("output", "y", "cv"),
    [("row", "row", 3), ("row", "entity", 3), ("row", None, 3), ("row", "row", "time"),
     ("entity", "row", 3), ("entity", None, 3)],
)  # fmt: skip
def test_max_events_would_tell_rows_how_many_follow(events, output, y, cv):
    X, row = events
    target = {"row": row, "entity": {e: i % 2 for i, e in enumerate(X["who"].unique())}, None: None}[y]
    encoder = SequenceEncoder("who", "when", observed=OBSERVED, max_events=3)
    embedder = make_embedder(encoder=encoder, output=output, cv=cv)
    text = "encoder.max_events must be None where rows have vectors or targets, got 3: it counts from the end"
    with warnings.catch_warnings(action="ignore"):
        for act in (embedder.fit, embedder.fit_transform):
            with pytest.raises(ValueError, match=text):
                act(X, target)


def test_max_events_is_for_one_vector_and_one_target_an_entity(events):
    X, _ = events
    y = {e: i % 2 for i, e in enumerate(sorted(X["who"].unique()))}
    encoder = SequenceEncoder("who", "when", observed=OBSERVED, max_events=3)
    embedder = make_embedder(encoder=encoder, output="entity")
    with pytest.warns(UserWarning, match="early rows") as said:
        vectors = embedder.fit_transform(X, y)
    assert len(said) == 1
    assert np.isfinite(vectors).all()
    assert vectors.shape == (len(y), 16)
    with pytest.raises(ValueError, match=r"max_length cuts training; max_events is for output='entity'"):
        embedder.set_params(output="row").transform(X)


def test_merged_rows_share_a_vector(events):
    X, y = events
    twice = pd.concat([X, X.assign(price=1.0)])
    encoder = SequenceEncoder("who", "when", observed=OBSERVED, ties="merge")
    vectors = make_embedder(encoder=encoder).fit_transform(twice, np.tile(y, 2))
    assert np.array_equal(vectors[: len(X)], vectors[len(X) :])


def test_blocks_of_time_are_fitted_on_earlier_blocks(events):
    """Later rows reach the vectors of earlier blocks through the map to the full fit alone."""
    X, y = make_events(40)
    embedder = make_embedder(cv="time", validation_fraction=0.0)
    with pytest.warns(
        UserWarning, match=r"for the first (\d+) of (\d+) rows in time: their vectors come from an untrained"
    ) as said:
        before = embedder.fit_transform(X, y)
    first, n = map(int, re.search(r"first (\d+) of (\d+)", str(said[0].message)).groups())
    assert n == len(X)
    assert n / 5 - 2 < first < n / 5 + 2
    assert [warning.filename for warning in said] == [__file__]
    order = np.argsort(X["when"].to_numpy(), kind="stable")
    later = order[round(0.6 * n) + 2 :]
    changed, target = X.copy(), y.copy()
    target[later] = ~target[later]
    for name in ("price", "paid"):
        changed.iloc[later, X.columns.get_loc(name)] = 5.0
    changed.iloc[later, X.columns.get_loc("shop")] = "Atlantis"
    with pytest.warns(UserWarning, match="untrained"):
        after = embedder.fit_transform(changed, target)
    assert np.flatnonzero(embedder.untrained_).tolist() == sorted(order[:first])
    blocks = [
        order[:first],
        order[first : round(0.4 * n) - 2],
        order[round(0.4 * n) + 2 : round(0.6 * n) - 2],
    ]
    assert np.array_equal(before[blocks[0]], after[blocks[0]])
    for block in blocks[1:]:
        assert explained(before[block], after[block]) > 0.9999
    assert explained(before[later], after[later]) < 0.9


def test_blocks_of_time_and_no_target(events):
    X, _ = events
    with pytest.warns(UserWarning, match="untrained"):
        assert np.isfinite(make_embedder(cv="time").fit_transform(X)).all()


def test_rows_without_a_past_to_learn_from_belong_to_the_first_block():
    """Five rows of every entity, at the same five moments: the first block has one row of each."""
    draw = np.random.default_rng(0)
    X = pd.DataFrame({"who": np.tile(np.arange(30), 5), "when": np.repeat(np.arange(5) * 100, 30)})
    X = X.assign(shop=draw.choice(["Oslo", "Rome"], 150), price=draw.normal(size=150))
    embedder = make_embedder(encoder=SequenceEncoder("who", "when"), cv="time")
    with pytest.warns(UserWarning, match="for the first 60 of 150 rows"):
        vectors = embedder.fit_transform(X)
    assert np.isfinite(vectors).all()
    assert embedder.untrained_.tolist() == (X["when"] <= 100).tolist()
    with pytest.warns(UserWarning, match="for the first 30 of 150 rows"):
        embedder.fit_transform(X, X["price"] > 0)
    assert embedder.untrained_.tolist() == (X["when"] == 0).tolist()
    assert not hasattr(embedder.fit(X), "untrained_")


def test_nothing_to_learn_from_earlier_rows_is_said_before_the_work(monkeypatch):
    X = pd.DataFrame({"who": [*range(40), 0], "when": range(41), "price": np.arange(41) % 7.0})
    monkeypatch.setattr("tabembed.estimators.sequence_embedder.fit_sequences", None)
    with pytest.raises(ValueError, match="cv='time' must have something to predict in the earlier blocks"):
        make_embedder(encoder=SequenceEncoder("who", "when"), cv="time").fit_transform(X)


@pytest.mark.parametrize("output", ["row", "entity"])
def test_rows_without_a_target_are_history(events, output):
    """Their target does not matter, their cells do; they have vectors, too."""
    X, y = events
    codes = pd.factorize(X["who"])[0]
    first = X.set_axis(range(len(X))).sort_values("when", kind="stable").groupby("who").head(2).index
    gone = np.isin(np.arange(len(X)), first) & (codes % 2 == 0)
    labels = np.where(gone, np.nan, y.astype(float))
    embedder = make_embedder(output=output)
    with pytest.warns(
        UserWarning, match=f"y is missing in {gone.sum()} of {len(X)} rows: they are his"
    ) as said:
        vectors = embedder.fit_transform(X, labels)
    assert [warning.filename for warning in said] == [__file__]
    assert embedder.target_type_ == "binary"
    assert np.isfinite(vectors).all()
    as_objects = np.where(gone, None, y.astype(object))
    with pytest.warns(UserWarning, match="they are history"):
        assert np.array_equal(make_embedder(output=output).fit_transform(X, as_objects), vectors)
    with pytest.warns(UserWarning, match="they are history"):
        other = make_embedder(output=output).fit_transform(X.assign(paid=X["paid"] + 9 * gone), labels)
    assert not np.allclose(other, vectors)


def test_rows_without_a_target_and_blocks_of_time(events):
    X, y = events
    order = np.argsort(X["when"].to_numpy(), kind="stable")
    labels = y.astype(float)
    labels[order[: len(X) // 3]] = np.nan
    embedder = make_embedder(cv="time")
    with pytest.warns(UserWarning, match="they are history"):
        assert np.isfinite(embedder.fit_transform(X, labels)).all()
    assert 0.35 < embedder.untrained_.mean() < 0.45


def test_the_order_of_a_target_by_entity_is_spoken_of(events):
    X, _ = events
    entities = sorted(X["who"].unique())
    y = pd.Series([i % 2 for i in range(len(entities))], index=entities)
    embedder = make_embedder(output="entity")
    with warnings.catch_warnings(action="error"):
        expected = embedder.fit_transform(X, y)
        embedder.fit(X, y[::-1])
    for turned in (y[::-1], y[::-1].to_dict()):
        with pytest.warns(
            UserWarning, match=r"in the order of the sorted entities.*y\.sort_index\(\)"
        ) as said:
            assert np.array_equal(embedder.fit_transform(X, turned), expected)
        assert [warning.filename for warning in said] == [__file__]


@pytest.mark.parametrize("cv", [2, "time"])
def test_everything_is_said_once_at_the_callers_line(events, cv):
    X, y = events
    X = X.assign(nothing=None)
    X.iloc[[0, 5], 0] = None
    columns = TableEncoder({"nothing": Categorical(), "shop": Categorical()})
    encoder = SequenceEncoder("who", "when", columns, on_missing="drop")
    embedder = make_embedder(encoder=encoder, cv=cv)
    with warnings.catch_warnings(record=True, action="always") as said:
        embedder.fit_transform(X, y)
    texts = [str(warning.message) for warning in said]
    assert len(set(texts)) == len(texts) == (3 if cv == 2 else 4)
    assert {warning.filename for warning in said} == {__file__}
    with warnings.catch_warnings(record=True, action="always") as said:
        embedder.transform(X)
    texts = [str(warning.message) for warning in said]
    assert len(set(texts)) == len(texts)
    assert {warning.filename for warning in said} == {__file__}


@pytest.mark.parametrize(
    ("cv", "y", "text"),
    [
        ("time", "entity", "cv='time' must have one value of y for every row, got one for every entity"),
        (
            "times",
            "row",
            "cv must be a number of folds, 'time', a splitter or an iterable of splits, got 'times'",
        ),
        (True, "row", "cv must be a number of folds, 'time', a splitter or an iterable of splits, got True"),
        (1, "row", "cv must be at least 2, got 1"),
        (24, "row", "cv must be at most the number of entities, got 24 folds for 23"),
        (KFold(3, shuffle=True, random_state=0), "row", "cv must keep the rows of an entity together, got"),
        ("once", "row", "cv must test every entity exactly once, got 12 entities never and 0 more than once"),
        ("both", "row", "cv must keep the rows of an entity together, got 12 of 23 entities in parts"),
    ],
    ids=str,
)
def test_folds_that_are_none(events, cv, y, text):
    X, target = events
    even = pd.factorize(X["who"])[0] % 2 == 0
    odd, even = np.flatnonzero(~even), np.flatnonzero(even)
    cv = {"once": [(even, odd)], "both": [(np.append(odd, even), even), (even, odd)]}.get(str(cv), cv)
    by_entity = {entity: i % 2 for i, entity in enumerate(X["who"].unique())}
    with pytest.raises(ValueError, match=re.escape(text)):
        make_embedder(cv=cv).fit_transform(X, target if y == "row" else by_entity)


class Seen(GroupKFold):
    """Remembers what it was called with."""

    def split(self, X=None, y=None, groups=None):
        self.seen = X, y, groups
        return super().split(X, y, groups)


def test_a_splitter_is_given_the_rows_of_the_table_and_their_entities(events):
    X, y = events
    vectors = make_embedder(cv=(cv := Seen(3))).fit_transform(X, y)
    rows, target, groups = cv.seen
    assert rows[:, 0].tolist() == list(range(len(X)))
    assert np.array_equal(target, y)
    assert groups.tolist() == X["who"].tolist()
    same = make_embedder(cv=list(GroupKFold(3).split(rows, y, groups))).fit_transform(X, y)
    assert np.array_equal(vectors, same)


def test_set_output_and_names(events, fitted):
    X, _ = events
    embedder = copy.deepcopy(fitted)
    frame = embedder.set_output(transform="pandas").transform(X)
    assert (
        frame.columns.tolist()
        == embedder.get_feature_names_out().tolist()
        == [f"row_e{i}" for i in range(16)]
    )
    assert frame.index.equals(X.index)
    assert isinstance(embedder.set_output(transform="polars").transform(X), pl.DataFrame)
    assert embedder.feature_names_in_.tolist() == list(X)
    assert embedder.n_features_in_ == X.shape[1]
    with pytest.raises(ValueError, match="input_features is not equal"):
        embedder.get_feature_names_out(["a"] * X.shape[1])


def test_copies_give_the_same_vectors(events, fitted):
    before = torch.get_rng_state()
    expected = fitted.transform(events[0])
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert np.array_equal(other.transform(events[0]), expected)
        assert joblib.hash(other.__getstate__()["network_"]) == joblib.hash(fitted.__getstate__()["network_"])
    assert all(isinstance(weight, np.ndarray) for weight in fitted.__getstate__()["network_"].values())
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(NotFittedError):
        clone(fitted).transform(events[0])


@pytest.mark.parametrize("y", ["row", "entity", None])
def test_saved_and_loaded(events, tmp_path, y):
    X, row = events
    target = {
        "row": np.where(row, "up", "down"),
        "entity": {e: len(e) for e in X["who"].unique()},
        None: None,
    }[y]
    if y == "entity":
        target |= {"card 3": 2.5}
    columns = TableEncoder({"shop": Categorical(min_frequency=2)}, scaler="standard")
    encoder = SequenceEncoder("who", "when", columns, observed=("paid",))
    numeric = partial(PeriodicEmbedding.from_columns, d_embedding=4)
    embedder = make_embedder(encoder=encoder, numeric=numeric, time=CyclicEmbedding, embed_dims={"shop": 3})
    embedder.set_params(pooling="decay", position="gru").fit(X, target).save(tmp_path / "model")
    loaded = tabembed.load(tmp_path / "model")
    assert isinstance(loaded, SequenceEmbedder)
    for output in ("row", "entity"):
        assert np.array_equal(
            loaded.set_params(output=output).transform(X), embedder.set_params(output=output).transform(X)
        )
    for name in ("n_iter_", "validation_losses_", "n_features_in_", "target_type_"):
        assert getattr(loaded, name) == getattr(embedder, name)
    assert (loaded.classes_ is None) == (embedder.classes_ is None)
    assert np.array_equal(loaded.feature_names_in_, embedder.feature_names_in_)
    assert loaded.encoder.columns.columns["shop"] == Categorical(min_frequency=2)
    with pytest.warns(UserWarning, match="not out-of-fold"):
        loaded.transform(X)
    assert np.array_equal(loaded.set_params(output="row").fit_transform(X, target),
                          embedder.set_params(output="row").fit_transform(X, target))  # fmt: skip
    with pytest.raises(ArtifactError, match="class must be one of"):
        TableEmbedder.load(tmp_path / "model")


def test_a_saved_model_of_more_layers_than_it_has_arrays(fitted):
    config, arrays = saved_embedder._to_artifact(fitted)
    config["built"]["sequence"]["num_layers"] = 10**9
    with pytest.raises(
        ArtifactError, match=f"num_layers must be at most .* {len(fitted.network_.state_dict())}"
    ):
        saved_embedder._from_artifact(SequenceEmbedder, config, arrays)


def test_objects_are_not_saved(events, tmp_path):
    for params, text in (
        ({"cv": GroupKFold(2)}, "cv must be plain numbers or text to be saved"),
        (
            {"numeric": lambda columns: PeriodicEmbedding.from_columns(columns)},
            "numeric must be None, a module of",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            make_embedder(**params).fit(*events).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_transform_of_the_fitted_table_warns(events, fitted):
    X, _ = events
    for rows in (X, X[::-1]):
        with pytest.warns(UserWarning, match="got the table of the fit: these vectors have seen") as said:
            fitted.transform(rows)
        assert [warning.filename for warning in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.transform(X[1:])
    alone = make_embedder().fit(X)
    with pytest.warns(UserWarning, match="these vectors have seen these rows and are not out-of-fold"):
        alone.transform(X)


def test_arguments_that_are_set_after_the_fit_change_nothing(events):
    X, y = events
    fitted = make_embedder().fit(X, y)
    before, given = fitted.transform(X[1:]), fitted.get_params(deep=False)
    for name in given.keys() - {"output"}:
        fitted.set_params(**{name: object()})
        assert np.array_equal(fitted.transform(X[1:]), before), name
        fitted.set_params(**{name: given[name]})


def test_random_state_alone_decides(events):
    X, y = events
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = make_embedder().fit_transform(X, y)
    assert np.array_equal(first, make_embedder().fit_transform(X, y))
    assert not np.array_equal(first, make_embedder(random_state=1).fit_transform(X, y))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])


@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.device("meta"),
    ],
    ids=["no_grad", "inference", "autocast", "device"],
)
def test_modes_in_force_change_nothing(events, fitted, mode):
    X, y = events
    expected = make_embedder(cv=2).fit_transform(X, y), fitted.transform(X)
    with mode():
        found = make_embedder(cv=2).fit_transform(X, y), fitted.transform(X)
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a, b)


def test_threads_do_not_disturb_each_other(events, fitted):
    X, y = events
    expected = fitted.transform(X), make_embedder(cv=2).fit_transform(X, y)
    with ThreadPoolExecutor(4) as pool:
        shared = [pool.submit(fitted.transform, X) for _ in range(4)]
        own = [pool.submit(make_embedder(cv=2).fit_transform, X, y) for _ in range(3)]
    for jobs, vectors in zip((shared, own), expected, strict=True):
        assert all(np.array_equal(job.result(), vectors) for job in jobs)


def test_a_pipeline_and_a_grid_search(events):
    X, y = events
    pipeline = make_pipeline(make_embedder(cv=2), LogisticRegression())
    memory = clone(pipeline).fit(X, y).predict(X)
    assert memory.shape == (len(X),)
    grid = {
        "sequenceembedder__position": ["rotary", "gru"],
        "sequenceembedder__encoder__max_events": [None],
        "sequenceembedder__encoder__ties": ["stable", "strict"],
    }
    grid = [
        {**grid, "sequenceembedder__encoder__ties": ["stable"]},
        {**grid, "sequenceembedder__position": [None]},
    ]
    search = GridSearchCV(pipeline, grid, cv=GroupKFold(2), error_score="raise")
    search.fit(X, y, groups=X["who"])
    again = clone(pipeline).set_params(**search.best_params_).fit(X, y)
    assert np.array_equal(again.predict(X), search.predict(X))
    assert len(set(search.cv_results_["mean_test_score"])) > 1


@pytest.mark.parametrize(
    ("params", "error", "text"),
    [
        ({"output": "rows"}, ValueError, "output must be one of row, entity, got 'rows'"),
        ({"encoder": TableEncoder()}, TypeError, "encoder must be a SequenceEncoder, got TableEncoder"),
        ({"position": "spiral"}, ValueError, "position must be one of"),
        ({"pooling": "max"}, ValueError, "pooling must be one of"),
        ({"clock": "sun"}, ValueError, "clock must be"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1, got 0"),
        ({"max_length": 0}, ValueError, "max_length must be at least 1, got 0"),
        (
            {"target_type": "ranks"},
            ValueError,
            "target_type must be one of auto, continuous, binary, multiclass",
        ),
        ({"dropout": 1.5}, ValueError, "dropout must"),
    ],
    ids=str,
)
def test_bad_arguments(events, params, error, text):
    with pytest.raises(error, match=text):
        make_embedder(**params).fit_transform(*events)


def test_bad_tables(events, fitted):
    X, y = events
    with pytest.raises(ValueError, match="column 'who'"):
        make_embedder().fit(X.drop(columns="who"), y)
    with pytest.raises(ValueError, match=r"0 sample\(s\)|0 rows"):
        make_embedder().fit(X.iloc[:0], y[:0])
    with pytest.raises(ValueError, match="now missing:\n- paid"):
        fitted.transform(X.drop(columns="paid"))
    with pytest.raises(ValueError, match="must not be missing, got 1 of"):
        fitted.transform(X.assign(who=[None, *X["who"][1:]]))
    with pytest.raises(ValueError, match="at least one value|two rows"):
        make_embedder(encoder=SequenceEncoder("who", "when", ["shop"])).fit(X.drop_duplicates("who"))


def test_no_rows_and_unknown_entities(events, fitted):
    X, _ = events
    assert fitted.transform(X.iloc[:0]).shape == (0, 16)
    assert copy.deepcopy(fitted).set_params(output="entity").transform(X.iloc[:0]).shape == (0, 16)
    other = X.assign(who="nobody " + X["who"])
    assert np.array_equal(fitted.transform(other), fitted.transform(X))


def test_verbose_shows_a_bar(events, capsys):
    make_embedder(verbose=1).fit_transform(*events)
    shown = capsys.readouterr().out
    assert "all rows" in shown
    assert "fold 3 of 3" in shown


def test_every_argument_is_documented_and_tags_say_what_is_taken():
    names = make_embedder().get_params(deep=False)
    assert all(f"        {name}: " in SequenceEmbedder.__doc__ for name in names)
    tags = get_tags(make_embedder())
    assert (tags.input_tags.two_d_array, tags.input_tags.allow_nan, tags.target_tags.required) == (
        False,
        True,
        False,
    )


@pytest.mark.parametrize("ties", ["stable", "strict", "merge"])
def test_blocks_of_time_give_every_row_a_vector(events, ties):
    X, y = events
    twice, labels = pd.concat([X, X.assign(price=1.0)]), np.tile(y, 2)
    encoder = SequenceEncoder("who", "when", observed=OBSERVED, ties=ties)
    embedder = make_embedder(encoder=encoder, cv="time", max_iter=1)
    with pytest.warns(UserWarning, match="untrained"):
        vectors = embedder.fit_transform(twice, labels)
    assert np.isfinite(vectors).all()
    if ties == "merge":
        assert np.array_equal(vectors[: len(X)], vectors[len(X) :])


def test_every_fold_has_something_to_learn_from(events):
    X, y = events
    known = X["who"].value_counts().index[0]
    y = np.where((X["who"] == known).to_numpy(), np.asarray(y, float), np.nan)
    with pytest.raises(
        ValueError, match=r"cv must leave every fold a row with y to train on, got none in fold"
    ):
        make_embedder(cv=3).fit_transform(X, y)


def test_the_fit_says_whether_sequences_are_cut(events):
    X, _ = events
    entities = sorted(X["who"].unique())
    y = pd.Series([i % 2 for i in range(len(entities))], index=entities)
    encoder = SequenceEncoder("who", "when", observed=OBSERVED, max_events=3)
    embedder = make_embedder(encoder=encoder, output="entity").fit(X, y)
    embedder.encoder_.set_params(max_events=None)
    embedder.set_params(output="row")
    with pytest.raises(ValueError, match=r"encoder\.max_events must be None .* got 3"):
        embedder.transform(X)
