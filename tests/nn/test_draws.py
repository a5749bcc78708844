from __future__ import annotations

import numpy as np
import pytest
import torch

from tabembed.nn import GaussianFourierProjection, LearnedFourierFeatures, LinearEmbedding
from tabembed.nn.draws import generator_of, split_seed
from tabembed.schema import ContinuousColumn

COLUMN = ContinuousColumn("x", 1, 0, 0.0, 1.0, 0.0, 1.0, 0.5, 0.5, (0.0, 1.0), (0.0, 1.0), (1, 0))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32])
def test_numpy_integers_are_seeds(kind):
    assert torch.equal(LinearEmbedding(2, seed=kind(3)).weight, LinearEmbedding(2, seed=3).weight)
    assert split_seed(kind(3), 4) == split_seed(3, 4)


@pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1, np.uint64(2**64 - 1)])
def test_seeds_up_to_the_largest(seed):
    assert generator_of(seed).initial_seed() == seed
    assert len(set(split_seed(seed, 3))) == 3


def test_no_seed_is_no_generator():
    assert generator_of(None) is None
    assert split_seed(None, 2) == [None, None]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: LinearEmbedding(2, seed=seed),
        lambda seed: split_seed(seed, 2),
        lambda seed: GaussianFourierProjection.from_columns([COLUMN], seed=seed),
        lambda seed: LearnedFourierFeatures.from_columns([COLUMN], seed=seed),
    ],
)
@pytest.mark.parametrize(
    ("seed", "error", "text"),
    [
        (2**64, ValueError, "seed must be below 2\\*\\*64, got 18446744073709551616"),
        (-1, ValueError, "seed must be at least 0, got -1"),
        (1.5, TypeError, "seed must be an integer, got 1.5"),
        (True, TypeError, "seed must be an integer, got True"),
    ],
)
def test_bad_seeds(make, seed, error, text):
    with pytest.raises(error, match=text):
        make(seed)
