"""A batch in the loops people already have: a plain DataLoader, and skorch inside scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from tabembed import TableBatch, TableEmbedding, TableEncoder


def table(n_rows=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Rome", "Oslo", "Bonn", None], n_rows),
            "noise": rng.choice(list("abcdef"), n_rows),
            "age": rng.normal(40, 10, n_rows),
            "joined": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**6, n_rows), "s"),
        }
    )
    target = (frame["city"].isin(["Rome"]) | (frame["age"] > 50)).to_numpy().astype(np.int64)
    return frame, target


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_plain_data_loader(n_workers):
    frame, _ = table(50)
    frame["tags"] = pd.Series([["a"] * (i % 3) for i in range(50)], dtype=object)
    batch = TableEncoder().fit(frame).transform(frame)
    sampler = BatchSampler(SequentialSampler(batch), batch_size=16, drop_last=False)
    parts = list(DataLoader(batch, sampler=sampler, batch_size=None, num_workers=n_workers))
    assert [type(part) for part in parts] == [TableBatch] * 4
    assert [len(part) for part in parts] == [16, 16, 16, 2]
    assert torch.cat([part.ids for part in parts]).equal(batch.ids)
    assert torch.cat([part.values for part in parts]).equal(batch.values)
    assert torch.cat([part.missing for part in parts]).equal(batch.missing)
    assert torch.cat([part.times for part in parts]).equal(batch.times)
    assert torch.cat([part.lists["tags"].ids for part in parts]).equal(batch.lists["tags"].ids)
    assert [int(part.lists["tags"].offsets[-1]) for part in parts] == [15, 16, 17, 1]


def test_a_data_loader_that_shuffles_keeps_rows_together():
    frame = pd.DataFrame({"n": np.arange(40.0), "c": [f"k{i:02}" for i in range(40)]})
    batch = TableEncoder(scaler=None).fit(frame).transform(frame)
    sampler = BatchSampler(
        RandomSampler(batch, generator=torch.Generator().manual_seed(0)), 7, drop_last=False
    )
    parts = list(DataLoader(batch, sampler=sampler, batch_size=None))
    ids, values = torch.cat([p.ids for p in parts])[:, 0], torch.cat([p.values for p in parts])[:, 0]
    assert not ids.equal(batch.ids[:, 0])
    assert (ids - 3).float().equal(values)
    assert sorted(values.tolist()) == list(range(40))


class Classifier(nn.Module):
    """A table's vectors under one linear layer."""

    def __init__(self, schema):
        super().__init__()
        self.table = TableEmbedding(schema, seed=0)
        self.head = nn.Linear(self.table.output_dim, 2)

    def forward(self, ids, values, missing, times=None):
        return self.head(self.table(ids, values, missing, times))


def test_a_skorch_net_in_cross_val_score():
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer
    from skorch import NeuralNetClassifier

    frame, target = table()
    net = NeuralNetClassifier(
        Classifier,
        module__schema=TableEncoder().fit(frame).schema_,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.03,
        max_epochs=20,
        batch_size=32,
        train_split=None,
        verbose=0,
    )
    model = Pipeline(
        [("encode", TableEncoder()), ("tensors", FunctionTransformer(TableBatch.tensors)), ("net", net)]
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        scores = cross_val_score(model, frame, target, cv=3, error_score="raise")
        search = GridSearchCV(clone(model), {"encode__min_frequency": [1, 5]}, cv=2, error_score="raise")
        search.fit(frame, target)
    chance = max(target.mean(), 1 - target.mean())
    assert scores.min() > chance + 0.15
    assert search.predict(frame.iloc[:7]).shape == (7,)
