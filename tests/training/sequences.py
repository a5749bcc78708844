"""Generated sequences, encoded without the encoder of sequences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from tabembed.schema import SequenceSchema
from tabembed.sequence.batch import SequenceBatch
from tabembed.table import TableEncoder

OBSERVED = ("late", "delay")


def frame(lengths=(3, 1, 17, 6, 2, 9), seed=0):
    """Rows of entities in time order, one entity after the other, with every kind of column."""
    draw = np.random.RandomState(seed)
    n_rows = sum(lengths)
    kind = draw.choice(list("abc"), n_rows)
    delay = draw.randn(n_rows) + (kind == "a")
    table = pd.DataFrame(
        {
            "entity": np.repeat(np.arange(len(lengths)), lengths),
            "time": np.concatenate([draw.randint(1, 50, n).cumsum() for n in lengths]) * 60,
            "kind": kind,
            "late": np.where(delay > 0.5, "yes", "no").astype(object),
            "km": draw.randn(n_rows),
            "delay": delay,
            "due": pd.Timestamp("2024-01-01") + pd.to_timedelta(draw.randint(0, 900, n_rows), unit="h"),
            "tags": [list(draw.choice(["x", "y", "z"], draw.randint(0, 3))) for _ in range(n_rows)],
        }
    )
    table.loc[draw.rand(n_rows) < 0.1, ["kind", "late"]] = None
    table.loc[draw.rand(n_rows) < 0.1, ["km", "delay"]] = np.nan
    table.loc[draw.rand(n_rows) < 0.1, "due"] = pd.NaT
    return table


def encode(table, observed=OBSERVED, columns=("kind", "late", "km", "delay", "due", "tags"), strict=False):
    """The schema and the batch of a frame whose rows stand in order."""
    rows = table[list(columns)]
    encoder = TableEncoder().fit(rows)
    seconds = torch.tensor(table["time"].to_numpy())
    lengths = np.bincount(table["entity"])
    offsets = torch.tensor([0, *lengths.cumsum()], dtype=torch.int32)
    first = offsets[:-1].long()
    gap = torch.cat((seconds[:1] * torch.nan, seconds.diff())).double()
    gap[first] = torch.nan
    elapsed = (seconds - seconds[first].repeat_interleave(torch.tensor(lengths))).double()
    gaps = gap[gap > 0]
    levels = torch.linspace(0, 1, 101, dtype=torch.float64)
    schema = SequenceSchema(
        encoder.schema_,
        observed,
        strict,
        len(lengths),
        int(lengths.max()),
        float(elapsed.max()),
        tuple(gaps.quantile(levels).tolist()) if len(gaps) else (),
    )
    row = torch.arange(len(table))
    batch = SequenceBatch(
        encoder.transform(rows),
        offsets,
        np.arange(len(lengths)),
        seconds * 10**9,
        elapsed,
        gap,
        row,
        len(table),
    )
    return schema, batch
