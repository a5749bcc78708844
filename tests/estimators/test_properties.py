"""A row's vector depends on that row alone, and rows in another order give vectors in that order."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from drawn_columns import FLOATS, NANOS, TEXT, drawn
from hypothesis import strategies as st
from torch.testing import assert_close

from tabembed import (
    CategoricalList,
    CyclicTransformer,
    GaussianFourierTransformer,
    LearnedFourierTransformer,
    RandomFourierTransformer,
    TableEmbedder,
    TableEncoder,
)

FEW_OR_MANY = pytest.mark.parametrize(
    "n_examples", [3, pytest.param(60, marks=pytest.mark.slow)], ids=["few", "many"]
)
ROW = st.tuples(
    st.one_of(st.none(), st.sampled_from(["Oslo", "Rome", "Lima"]), TEXT),
    st.one_of(st.none(), FLOATS),
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), NANOS),
    st.one_of(st.none(), st.lists(st.none() | st.sampled_from("abz"), max_size=3)),
)
ROWS = st.lists(ROW, min_size=1, max_size=9)
NUMBERS = st.lists(st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 3), min_size=1, max_size=9)


def frame(rows):
    city, km, code, flag, when, tags = zip(*rows, strict=True)
    times = np.array([np.datetime64("NaT") if t is None else np.datetime64(t, "ns") for t in when], "M8[ns]")
    return pd.DataFrame(
        {
            "city": pd.Series(city, dtype=object),
            "km": pd.Series(km, dtype="Float64"),
            "code": pd.array(code, "Int64"),
            "flag": pd.array(flag, "boolean"),
            "when": times,
            "tags": pd.Series(tags, dtype=object),
        }
    )


@cache
def fitted_embedder():
    draw = np.random.default_rng(0)
    rows = [
        (
            draw.choice(["Oslo", "Rome", "Lima"]),
            float(draw.normal()),
            int(draw.integers(100)),
            bool(draw.random() < 0.5),
            int(draw.integers(10**18)),
            list(draw.choice(list("abc"), draw.integers(3))),
        )
        for _ in range(60)
    ]
    encoder = TableEncoder({"tags": CategoricalList()})
    return TableEmbedder(encoder, output="both", hidden_layer_sizes=(8,), max_iter=2, random_state=0).fit(
        frame(rows), draw.random(60)
    )


def quietly(call, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args)


@FEW_OR_MANY
def test_vectors_of_a_table_are_those_of_its_rows(n_examples):
    @drawn(n_examples, ROWS, st.randoms(use_true_random=False))
    def check(rows, shuffler):
        embedder = fitted_embedder()
        whole = quietly(embedder.transform, frame(rows))
        assert np.isfinite(whole).all()
        alone = np.concatenate([quietly(embedder.transform, frame([row])) for row in rows])
        np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-6)
        order = list(range(len(rows)))
        shuffler.shuffle(order)
        moved = quietly(embedder.transform, frame([rows[i] for i in order]))
        np.testing.assert_allclose(moved, whole[order], rtol=0, atol=1e-6)
        columns = len(embedder.network_.column_names())
        assert np.array_equal(whole[:, :columns], alone[:, :columns])  # looked up and scaled: bit by bit


@FEW_OR_MANY
def test_a_module_gives_a_row_what_it_gives_it_alone(n_examples):
    @drawn(n_examples, ROWS, st.integers(1, 40))
    def check(rows, repeat):
        embedder = fitted_embedder()
        batch = embedder.encoder_.transform(frame(rows * repeat))
        module = embedder.network_.embedding.eval()
        with torch.no_grad():
            whole = module(**batch.tensors())
            alone = torch.cat([module(**batch[[i]].tensors()) for i in range(len(rows))])
        assert_close(whole[: len(rows)], alone, rtol=0, atol=1e-6)
        assert_close(whole[-len(rows) :], whole[: len(rows)], rtol=0, atol=1e-6)


@cache
def fitted_transformer(name):
    X = np.random.default_rng(0).normal(size=(50, 3))
    make = {
        "cycles": lambda: CyclicTransformer(7.5),
        "gaussian fourier": lambda: GaussianFourierTransformer(8, random_state=0),
        "random fourier": lambda: RandomFourierTransformer(8, random_state=0),
        "learned fourier": lambda: LearnedFourierTransformer(4, max_iter=1, random_state=0),
    }
    return make[name]().fit(X, X[:, 0])


@pytest.mark.parametrize("name", ["cycles", "gaussian fourier", "random fourier", "learned fourier"])
@FEW_OR_MANY
def test_features_of_an_array_are_those_of_its_rows(name, n_examples):
    @drawn(n_examples, NUMBERS)
    def check(rows):
        transformer, X = fitted_transformer(name), np.array(rows)
        whole = transformer.transform(X)
        assert np.isfinite(whole).all()
        alone = np.concatenate([transformer.transform(X[i : i + 1]) for i in range(len(X))])
        np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-6)
        np.testing.assert_allclose(transformer.transform(X[::-1]), whole[::-1], rtol=0, atol=1e-6)
