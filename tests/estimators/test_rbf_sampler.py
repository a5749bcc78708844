from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline

from tabembed import RandomFourierTransformer

X = np.random.RandomState(0).normal(size=(60, 5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", ["scale", 0.17])
def test_round_trip_with_rbf_sampler(dtype, gamma):
    frame = pd.DataFrame(X.astype(dtype), columns=list("abcde"))
    theirs = RBFSampler(gamma=gamma, n_components=9, random_state=0).fit(frame)
    ours = RandomFourierTransformer.from_rbf_sampler(theirs)
    assert_allclose(
        ours.transform(frame), theirs.transform(frame), atol=1e-6 if dtype == np.float32 else 1e-14
    )
    assert_array_equal(ours.feature_names_in_, frame.columns)
    back = ours.to_rbf_sampler()
    assert_array_equal(back.random_weights_, theirs.random_weights_)
    assert_array_equal(back.random_offset_, theirs.random_offset_)
    assert_array_equal(back.transform(frame), theirs.transform(frame))
    assert_array_equal(back.get_feature_names_out(), theirs.get_feature_names_out())
    assert back.gamma == pytest.approx(theirs._gamma, rel=1e-12)
    module = ours.to_module(torch.float64)
    assert_allclose(
        module(torch.from_numpy(X)).numpy(),
        ours.transform(pd.DataFrame(X, columns=list("abcde"))),
        atol=1e-13,
    )


def test_to_rbf_sampler_of_our_own():
    ours = RandomFourierTransformer(9, features="cos", random_state=0).fit(X)
    theirs = ours.to_rbf_sampler()
    assert_allclose(theirs.transform(X), ours.transform(X), atol=1e-14)
    assert theirs.gamma == pytest.approx(0.5 / ours.lengthscale_**2)
    refitted = clone(theirs).fit(X)
    assert_allclose(refitted.transform(X).std(), theirs.transform(X).std(), rtol=0.1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kernel": "matern12", "features": "cos"}, "kernel must be 'rbf' for an RBFSampler, got 'matern12'"),
        ({}, "features must be 'cos' for an RBFSampler, got 'sincos'"),
        (
            {"features": "cos", "lengthscale": [1.0] * 5},
            "lengthscale must be one number for an RBFSampler, got one for each feature",
        ),
    ],
)
def test_what_an_rbf_sampler_cannot_express(arguments, text):
    transformer = RandomFourierTransformer(8, **arguments).fit(X)
    with pytest.raises(ValueError, match=re.escape(text)):
        transformer.to_rbf_sampler()


def test_both_ways_need_a_fit():
    with pytest.raises(NotFittedError):
        RandomFourierTransformer.from_rbf_sampler(RBFSampler())
    with pytest.raises(NotFittedError):
        RandomFourierTransformer(features="cos").to_rbf_sampler()


def test_what_is_no_sampler():
    with pytest.raises(TypeError, match="sampler must be an RBFSampler, got Pipeline"):
        RandomFourierTransformer.from_rbf_sampler(make_pipeline(RBFSampler()))
