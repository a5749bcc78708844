"""What a fit has learned does not change with arguments that are set later."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from tabembed import (
    CyclicTransformer,
    GaussianFourierTransformer,
    LearnedFourierTransformer,
    RandomFourierTransformer,
    TableEmbedder,
    TableEncoder,
)
from tabembed.nn import CyclicEmbedding, PeriodicEmbedding

DRAW = np.random.RandomState(0)
X = pd.DataFrame({"age": DRAW.rand(40) + 0.5, "km": DRAW.rand(40) + 0.5})
Y = X["age"].to_numpy() + DRAW.rand(40)
NEW = X[::-1] + 0.25

TRAINING = {
    "target_type": "multiclass",
    "cv": 4,
    "alpha": 0.5,
    "max_iter": 3,
    "batch_size": 5,
    "learning_rate_init": 0.5,
    "validation_fraction": 0.0,
    "n_iter_no_change": 9,
    "device": "tpu",
    "random_state": 9,
    "verbose": 1,
}
# An estimator, and another value for each of its arguments, some of them wrong: no fitted one reads them.
CASES = [
    (CyclicTransformer({"age": [7, 24], "km": 3}), {"period": "auto", "n_harmonics": 3}),
    (
        GaussianFourierTransformer(3, log=True, epsilon=0.6, random_state=0),
        {
            "n_frequencies": 5,
            "scale": -1,
            "log": False,
            "epsilon": 1.0,
            "order": "cos_sin",
            "random_state": 9,
        },
    ),
    (
        GaussianFourierTransformer(3, random_state=0),
        {"n_frequencies": 0, "scale": 2.0, "log": True, "epsilon": 1.0, "order": "sin", "random_state": 9},
    ),
    (
        RandomFourierTransformer(6, random_state=0),
        {
            "n_components": 5,
            "kernel": "laplacian",
            "lengthscale": "scale",
            "sampler": "iid",
            "features": "cos",
            "random_state": 9,
        },
    ),
    (
        RandomFourierTransformer(5, features="cos", random_state=0),
        {
            "n_components": 6,
            "kernel": "l1",
            "lengthscale": 3.0,
            "sampler": "qmc",
            "features": "sincos",
            "random_state": 9,
        },
    ),
    (
        LearnedFourierTransformer(4, n_frequencies=6, cv=2, max_iter=1, random_state=0),
        {"n_components": 7, "n_frequencies": 3, "hidden_features": 5, "scale": "median", **TRAINING},
    ),
    (
        LearnedFourierTransformer(4, n_frequencies=6, hidden_features=3, max_iter=1, random_state=0),
        {"n_components": 0, "n_frequencies": 3, "hidden_features": None, "scale": 0.0, **TRAINING},
    ),
    (
        TableEmbedder(max_iter=1, cv=2, random_state=0),
        {
            "encoder": TableEncoder(columns={"age": "drop"}),
            "numeric": PeriodicEmbedding,
            "time": CyclicEmbedding,
            "embed_dims": 2,
            "hidden_layer_sizes": (3,),
            "dropout": 0.9,
            "unknown_dropout": 0.9,
            "shrinkage": 1e6,
            "averaging": 0.5,
            **TRAINING,
        },
    ),
]
READ_LATE = {"output"}  # of a TableEmbedder, and said in its docstring


def everything(fitted):
    """All that a fitted estimator gives."""
    found = [fitted.transform(NEW), fitted.get_feature_names_out()]
    for dtype in (torch.float32, torch.float64) if hasattr(fitted, "to_module") else ():
        module = fitted.to_module(dtype)
        found += [repr(module), module(torch.tensor(NEW.to_numpy(), dtype=dtype)).detach().numpy()]
    if getattr(fitted, "offsets_", None) is not None:
        found.append(fitted.to_rbf_sampler().transform(NEW))
    return found


@pytest.mark.parametrize(
    ("estimator", "others"), CASES, ids=[f"{type(e).__name__}{i}" for i, (e, _) in enumerate(CASES)]
)
def test_arguments_that_are_set_after_the_fit_change_nothing(estimator, others):
    fitted = estimator.fit(X, Y)
    before, given = everything(fitted), fitted.get_params(deep=False)
    assert set(others) == set(given) - READ_LATE
    for name, other in others.items():
        assert other is not given[name]
        for value in (other, object()):
            for got, expected in zip(everything(fitted.set_params(**{name: value})), before, strict=True):
                np.testing.assert_array_equal(got, expected, err_msg=f"{name}={value!r}")
        fitted.set_params(**{name: given[name]})
    for got, expected in zip(everything(fitted.set_params(**others)), before, strict=True):
        np.testing.assert_array_equal(got, expected)
