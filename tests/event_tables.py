"""Tables of events for the tests of encoders of sequences, and batches as exact numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch


def events(n=61, seed=0, n_entities=7):
    """Events with every kind of column and many ties, in no order."""
    rng = np.random.default_rng(seed)
    start = pd.Timestamp("2024-03-01 12:00")
    until = pd.Series(start + pd.to_timedelta(rng.integers(0, 10**6, n), "s"))
    tags = pd.Series([[str(t) for t in rng.integers(0, 3, rng.integers(0, 4))] for _ in range(n)])
    return pd.DataFrame(
        {
            "who": rng.choice([f"e{i}" for i in range(n_entities)], n),
            "when": start + pd.to_timedelta(rng.integers(0, 12, n), "h"),
            "place": pd.Series(rng.choice(["Rome", "Oslo", "Bonn"], n)).where(rng.random(n) < 0.7),
            "size": pd.Series(rng.integers(0, 50, n)),
            "paid": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "until": until.where(rng.random(n) < 0.7),
            "tags": tags.where(rng.random(n) < 0.7),
        }
    )


def plain(batch):
    """A batch as lists of exact numbers."""
    rows = batch.rows
    lists = {name: [part.tolist() for part in ragged] for name, ragged in rows.lists.items()}
    bits = [t.view(torch.int64).tolist() for t in (batch.elapsed, batch.gap)]
    table = [
        rows.ids.tolist(),
        rows.values.view(torch.int32).tolist(),
        rows.missing.tolist(),
        rows.times.tolist(),
    ]
    merged = sorted(batch.merged.tolist())
    keys = [str(key) for key in batch.entities]
    return [
        table,
        lists,
        keys,
        batch.cu_seqlens.tolist(),
        batch.times.tolist(),
        bits,
        batch.row.tolist(),
        merged,
    ]
