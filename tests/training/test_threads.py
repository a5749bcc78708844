"""A training does not know how many threads there are, and leaves them as they were."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pandas as pd
import pytest
import torch

from tabembed import LearnedFourierTransformer, SequenceEmbedder, SequenceEncoder, TableEmbedder
from tabembed.training.modes import one_thread

N_ROWS = 3000
"""Enough that PyTorch parts sums, and what is held out, between threads."""


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_one_inside_and_the_callers_own_afterwards():
    torch.set_num_threads(3)

    @one_thread()
    def fail():
        raise KeyError(torch.get_num_threads())

    with pytest.raises(KeyError, match="1"):
        fail()
    assert torch.get_num_threads() == 3


def test_a_nested_one_changes_nothing():
    torch.set_num_threads(3)
    with one_thread():
        with one_thread():
            pass
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_threads_that_start_meanwhile_keep_the_number():
    torch.set_num_threads(3)
    with one_thread(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3


def test_several_at_once_leave_in_any_order():
    torch.set_num_threads(3)
    both, first_is_out = Barrier(2, timeout=30), Event()

    def first():
        with one_thread():
            both.wait()
        first_is_out.set()
        return torch.get_num_threads()

    def second():
        torch.get_num_threads()
        torch.set_num_threads(2)
        with one_thread():
            both.wait()
            first_is_out.wait(30)
            inside = torch.get_num_threads()
        return inside, torch.get_num_threads()

    with ThreadPoolExecutor(2) as pool:
        a, b = pool.submit(first), pool.submit(second)
        assert a.result() in (2, 3)  # what a thread starts with is what was last set
        assert b.result() == (1, 2)
    assert torch.get_num_threads() == 3


def _table():
    draw = np.random.RandomState(0)
    X = pd.DataFrame({"shop": draw.randint(0, 40, N_ROWS).astype(str), "km": draw.randn(N_ROWS)})
    X["who"], X["when"] = (
        np.arange(N_ROWS) // 6,
        pd.Timestamp("2024-01-01") + pd.to_timedelta(draw.randint(0, 10**6, N_ROWS), unit="s"),
    )
    y = X["shop"].astype(int) % 7 - 3 + X["km"] + draw.randn(N_ROWS) > 0
    return X, y.to_numpy()


def _with_target():
    X, y = _table()
    embedder = TableEmbedder(max_iter=6, cv=2, batch_size=1024, learning_rate_init=0.1, random_state=0)
    return embedder.fit_transform(X[["shop", "km"]], y)


def _sequences():
    X, y = _table()
    small = {"d_model": 16, "num_layers": 1, "max_iter": 4, "batch_size": 1024, "learning_rate_init": 0.03}
    encoder = SequenceEncoder("who", "when")
    return SequenceEmbedder(encoder, **small, cv=2, random_state=0).fit_transform(X, y)


def _fourier():
    X, y = _table()
    own = {"max_iter": 12, "batch_size": 1024, "learning_rate_init": 0.1, "cv": 2, "random_state": 0}
    return LearnedFourierTransformer(4, **own).fit_transform(
        X[["km"]].assign(y=y * 1.0), X["km"] ** 2 + X["km"]
    )


@pytest.mark.parametrize("vectors", [_with_target, _sequences, _fourier])
def test_the_number_of_threads_does_not_matter(vectors):
    # Rates so large that a rounding grows: sums shared by threads would differ by 5e-6 to 3e-3.
    found = []
    for n_threads in (1, 3):
        torch.set_num_threads(n_threads)
        found.append(vectors())
        assert torch.get_num_threads() == n_threads
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=0, atol=1e-6)
