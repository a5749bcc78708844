"""Rows that lie in memory in any way go through a module alike."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from tabembed.estimators.module_rows import module_rows


@pytest.mark.parametrize("n_rows", [1, 4])
def test_memory_in_any_order(n_rows):
    X = np.arange(n_rows * 3, dtype=np.float32).reshape(n_rows, 3)
    locked = X.copy()
    locked.setflags(write=False)
    for rows in (X[::-1], X[:, ::-1], X[::-1, ::-1], np.asfortranarray(X), np.repeat(X, 2, 0)[::2], locked):
        assert np.array_equal(module_rows(nn.Identity(), rows, 3), rows)
