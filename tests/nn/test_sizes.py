from __future__ import annotations

import pytest
import reference

from tabembed.nn.sizes import embedding_dim, known_dim


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 10, 100, 12_345, 10**6])
def test_rules(n):
    assert embedding_dim(n) == reference.auto_size(n)
    assert known_dim(n) == reference.known_size(n)


def test_known_values_bound_the_width():
    assert [known_dim(n) for n in (0, 1, 2, 3, 4, 5)] == [1, 1, 1, 2, 3, 4]
    assert known_dim(10**9) == 600
