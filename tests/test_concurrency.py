"""One fitted object, many threads or processes at once: what each gets is what one alone gets."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from event_tables import events
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from tabembed import (
    Categorical,
    CategoricalList,
    CyclicTransformer,
    GaussianFourierTransformer,
    LearnedFourierTransformer,
    RandomFourierTransformer,
    SequenceEmbedder,
    SequenceEncoder,
    TableBatch,
    TableEmbedder,
    TableEncoder,
    load,
)

THREADS, ROUNDS = 8, 3
pytestmark = pytest.mark.filterwarnings("ignore:.*not out-of-fold:UserWarning")


@pytest.fixture
def _switching():
    """Threads take turns two hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(2.5e-5)
    yield
    sys.setswitchinterval(before)


@cache
def rows(n=300):
    """Rows of every kind, and whose they are and when."""
    rng = np.random.default_rng(1)
    frame = events(n, n_entities=20).assign(
        code=rng.integers(0, 10**12, n), name=[f"name {i % 130}" for i in range(n)]
    )
    return frame.assign(flag=rng.random(n) < 0.5, share=rng.random(n).round(2))


def numbers():
    return rows()[["size", "share"]].astype(float)


SMALL = {"max_iter": 1, "random_state": 0}
TABLE = TableEncoder({"tags": CategoricalList(), "share": "drop", "who": "drop"})
MAKE = {
    "table": lambda: (TABLE.fit(rows()), rows()),
    "sequence": lambda: (SequenceEncoder("who", "when", observed=["paid"]).fit(rows()), rows()),
    "table embedder": lambda: (
        TableEmbedder(TABLE, hidden_layer_sizes=(8,), output="both", **SMALL).fit(rows(), rows()["flag"]),
        rows(),
    ),
    "sequence embedder": lambda: (
        SequenceEmbedder(SequenceEncoder("who", "when"), d_model=16, num_layers=1, **SMALL).fit(
            rows().drop(columns="paid"), rows()["flag"]
        ),
        rows().drop(columns="paid"),
    ),
    "cycles": lambda: (CyclicTransformer(7.5).fit(numbers()), numbers()),
    "gaussian fourier": lambda: (GaussianFourierTransformer(8, random_state=0).fit(numbers()), numbers()),
    "random fourier": lambda: (RandomFourierTransformer(8, random_state=0).fit(numbers()), numbers()),
    "learned fourier": lambda: (
        LearnedFourierTransformer(4, **SMALL).fit(numbers(), rows()["share"]),
        numbers(),
    ),
}


@cache
def saved(name):
    """A fitted object as bytes, from which everything is built anew, and the table it gets."""
    fitted, table = MAKE[name]()
    return pickle.dumps(fitted), table


def exact(out):
    """Every number of an output as bytes."""
    if isinstance(out, np.ndarray):
        return out.tobytes(), out.shape
    batch = getattr(out, "rows", out)
    flat = [
        batch.ids,
        batch.values,
        batch.missing,
        batch.times,
        *(t for r in batch.lists.values() for t in r),
    ]
    flat += [] if batch is out else [out.cu_seqlens, out.times, out.elapsed, out.gap, out.row]
    return [tensor.contiguous().numpy().tobytes() for tensor in flat]


def at_once(call):
    """What eight threads get that start a call at one moment."""
    start = Barrier(THREADS, timeout=60)

    def run(i):
        start.wait()
        return call(i)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


@pytest.mark.usefixtures("_switching")
@pytest.mark.parametrize("name", MAKE)
def test_threads_get_what_one_alone_gets(name):
    fitted, table = saved(name)
    parts = [table.iloc[i : i + (5 if i % 2 else 90)] for i in range(THREADS)]  # few rows go another way
    alone = [exact(pickle.loads(fitted).transform(part)) for part in parts]
    for _ in range(ROUNDS):
        shared = pickle.loads(fitted)  # no index is built yet: all threads want it first
        assert at_once(lambda i, shared=shared: exact(shared.transform(parts[i]))) == alone


@pytest.mark.usefixtures("_switching")
@pytest.mark.parametrize("values", ["text", "whole numbers", "hashed"])
def test_no_thread_sees_half_of_an_index(values):
    n = 70_000 if values == "hashed" else 20_000
    known = np.arange(n) if values == "whole numbers" else np.array([f"v{i:05}" for i in range(n)], object)
    fitted = pickle.dumps(TableEncoder({"x": Categorical()}).fit({"x": known}))
    shared = pickle.loads(fitted)
    last = at_once(lambda i: shared.transform({"x": known[-(5 if i % 2 else 90) :]}).ids[:, 0].tolist())
    assert last == [list(range(n + 3 - (5 if i % 2 else 90), n + 3)) for i in range(THREADS)]


@pytest.mark.slow
@pytest.mark.usefixtures("_switching")
def test_threads_over_so_many_rows_that_each_starts_threads_of_its_own():
    table = pd.concat([rows()] * 200, ignore_index=True)
    fitted = pickle.dumps(TABLE.fit(rows()))
    shared, alone = pickle.loads(fitted), exact(pickle.loads(fitted).transform(table))
    assert all(at_once(lambda i: exact(shared.transform(table)) == alone))


@pytest.mark.usefixtures("_switching")
def test_threads_that_encode_decode_and_save_at_once(tmp_path):
    fitted, table = saved("table")
    shared = pickle.loads(fitted)
    calls = [
        lambda i: exact(shared.transform(table)),
        lambda i: shared.inverse_transform(shared.transform(table)).to_csv(),
        lambda i: (shared.save(tmp_path / str(i)), exact(load(tmp_path / str(i)).transform(table)))[1],
        lambda i: shared.grow({"name": [f"new {i}"]}).schema_["name"].n_ids,
    ]
    alone = [call(100 + i) for i, call in enumerate(calls)]
    found = at_once(lambda i: calls[i % 4](i))
    assert found == [alone[i % 4] for i in range(THREADS)]


@pytest.mark.usefixtures("_switching")
def test_threads_through_one_module():
    fitted, table = saved("table embedder")
    embedder = pickle.loads(fitted)
    batch, module = embedder.encoder_.transform(table), embedder.network_.embedding.eval()
    with torch.no_grad():
        alone = module(**batch.tensors())
        assert all(out.equal(alone) for out in at_once(lambda i: module(**batch.tensors()).detach()))


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKE)
def test_two_processes_get_what_one_alone_gets(name):
    fitted, table = saved(name)
    one = pickle.loads(fitted)
    alone = exact(one.transform(table))
    calls = [joblib.delayed(one.transform)(table) for _ in range(4)]
    assert [exact(out) for out in joblib.Parallel(n_jobs=2, backend="loky")(calls)] == [alone] * 4


@pytest.mark.slow
def test_spawned_processes_get_what_one_alone_gets():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for name in MAKE:
            fitted, table = saved(name)
            one = pickle.loads(fitted)
            alone = exact(one.transform(table))
            assert [exact(out) for out in pool.map(one.transform, [table] * 3)] == [alone] * 3, name


class Encoded(torch.utils.data.Dataset):
    """Rows that are encoded where they are read, in a worker."""

    def __init__(self, encoder, table):
        self.encoder, self.table = encoder, table

    def __len__(self):
        return len(self.table)

    def __getitem__(self, places):
        return self.encoder.transform(self.table.iloc[places])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_of_a_loader_encode_and_cut(method):
    fitted, table = saved("table")
    encoder = pickle.loads(fitted)
    whole = encoder.transform(table)
    for data in (Encoded(encoder, table), whole):
        order = BatchSampler(SequentialSampler(range(len(table))), 70, drop_last=False)
        loader = DataLoader(
            data, sampler=order, batch_size=None, num_workers=2, multiprocessing_context=method
        )
        parts = list(loader)
        assert [len(part) for part in parts] == [70] * 4 + [20]
        assert all(isinstance(part, TableBatch) for part in parts)
        assert torch.cat([part.ids for part in parts]).equal(whole.ids)
        assert torch.cat([part.values for part in parts]).equal(whole.values)
        assert torch.cat([part.lists["tags"].ids for part in parts]).equal(whole.lists["tags"].ids)
