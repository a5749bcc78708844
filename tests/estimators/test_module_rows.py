"""Rows that lie in memory in any way go through a module alike."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from tabembed import GaussianFourierTransformer, RandomFourierTransformer
from tabembed.estimators.module_rows import module_rows


@pytest.mark.parametrize("n_rows", [1, 4])
def test_memory_in_any_order(n_rows):
    X = np.arange(n_rows * 3, dtype=np.float32).reshape(n_rows, 3)
    locked = X.copy()
    locked.setflags(write=False)
    for rows in (X[::-1], X[:, ::-1], X[::-1, ::-1], np.asfortranarray(X), np.repeat(X, 2, 0)[::2], locked):
        assert np.array_equal(module_rows(nn.Identity(), rows, 3), rows)


def test_one_reversed_row_of_every_transformer():
    X = np.random.default_rng(0).normal(size=(9, 3))
    for transformer in (
        GaussianFourierTransformer(4, random_state=0),
        RandomFourierTransformer(4, random_state=0),
        RandomFourierTransformer(4, features="cos", random_state=0),
    ):
        found = transformer.fit(X).transform(X[:1][::-1])
        assert np.array_equal(found, transformer.transform(X[:1]))
