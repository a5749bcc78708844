"""Two processes that train one network each on rows of their own: the cases, and what a process runs.

python -m torch.distributed.run --nproc-per-node 2 tests/ranks.py FOLDER
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tabembed import (
    PeriodicEmbedding,
    PiecewiseLinearEmbedding,
    SequenceEmbedding,
    SequenceEncoder,
    TableEmbedding,
    TableEncoder,
)

N_RANKS, N_STEPS, N_ROWS = 2, 3, 24
COLUMNS = ("city", "airline", "delay", "until", "tags")


def table(seed: int, n_rows: int = N_ROWS) -> pd.DataFrame:
    """Five columns of every kind, some cells missing, and whose row it is when."""
    rng = np.random.default_rng(seed)
    start = pd.Timestamp("2024-03-01", tz="UTC")
    tags = [list(rng.choice(["a", "b", "c"], rng.integers(0, 3))) for _ in range(n_rows)]
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Rome", "Oslo", "Bonn", "Lima"], n_rows),
            "airline": rng.choice(["x", "y"], n_rows),
            "delay": rng.normal(size=n_rows),
            "until": start + pd.to_timedelta(rng.integers(0, 10**6, n_rows), "s"),
            "tags": pd.Series(tags),
        }
    )
    frame = frame.mask(pd.DataFrame(rng.random(frame.shape) < 0.2, columns=frame.columns))
    frame["who"] = rng.choice(["e", "f", "g"], n_rows)
    frame["when"] = start + pd.to_timedelta(np.arange(n_rows), "h")
    return frame


FIT = table(0, 200)


def emptied(frame: pd.DataFrame, column: str | None, rank: int) -> pd.DataFrame:
    """The second process has only missing values in a column."""
    return frame if column is None or rank == 0 else frame.assign(**{column: None})


class Net(nn.Module):
    """An embedding and one number a row, or a sequence, of it."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.head = nn.Linear(embedding.output_dim, 1)

    def forward(self, **tensors: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(**tensors)).squeeze(-1)


class Skipping(Net):
    """What no module of the package may do: leave out a part where its column is missing."""

    def forward(self, **tensors: torch.Tensor) -> torch.Tensor:
        return super().forward(**tensors) if len(tensors["ids"]) > N_ROWS else self.head.bias.expand(3)


class RowsAlone:
    """A case of a table: a column that is only missing in the second process, settings of the embedding."""

    def __init__(self, column: str | None = None, net: type[Net] = Net, **settings) -> None:
        self.column, self.make, self.settings = column, net, settings
        self.encoder = TableEncoder(COLUMNS).fit(FIT)

    def net(self) -> nn.Module:
        return self.make(TableEmbedding(self.encoder.schema_, **self.settings))

    def tensors(self, rank: int, step: int) -> dict:
        frame = table(1 + step * N_RANKS + rank)
        return self.encoder.transform(emptied(frame, self.column, rank)).tensors()


class EmptyLists(RowsAlone):
    """No list of the second process has a value, and none is missing."""

    def tensors(self, rank: int, step: int) -> dict:
        frame = table(1 + step * N_RANKS + rank)
        tags = frame["tags"] if rank == 0 else pd.Series([[] for _ in range(N_ROWS)])
        return self.encoder.transform(frame.assign(tags=tags)).tensors()


class RowsInTime:
    """A case of sequences; those of the second process may have one row each."""

    def __init__(self, column: str | None = None, alone: bool = False, **settings) -> None:
        self.column, self.alone, self.settings = column, alone, {"d_model": 16, **settings}
        observed = () if settings.get("causal") is False else ("delay", "tags")
        self.encoder = SequenceEncoder("who", "when", COLUMNS, observed=observed).fit(FIT)

    def net(self) -> nn.Module:
        return Net(SequenceEmbedding(self.encoder.schema_, num_layers=1, **self.settings))

    def tensors(self, rank: int, step: int) -> dict:
        frame = emptied(table(1 + step * N_RANKS + rank), self.column, rank)
        if self.alone and rank == 1:
            frame = frame.assign(who=[f"e{i}" for i in range(N_ROWS)])
        return self.encoder.transform(frame).tensors()


CASES = {
    **{f"missing {column}": partial(RowsAlone, column) for column in COLUMNS},
    "empty lists": EmptyLists,
    "piecewise": partial(RowsAlone, "delay", numeric=PiecewiseLinearEmbedding),
    **{
        f"periodic {variant}": partial(
            RowsAlone, "delay", numeric=partial(PeriodicEmbedding, variant=variant)
        )
        for variant in ("pl", "plr", "pbld")
    },
    "rotary": partial(RowsInTime, "delay", position="rotary"),
    "alibi": partial(RowsInTime, "city", position="alibi"),
    "decay": partial(RowsInTime, "tags", position="decay"),
    "sinusoidal": partial(RowsInTime, "until", position="sinusoidal"),
    "learned": partial(RowsInTime, "delay", position="learned", clock="index"),
    "no position": partial(RowsInTime, "delay", position=None),
    "both ways": partial(RowsInTime, "delay", causal=False),
    "recurrence": partial(RowsInTime, "delay", position="gru"),
    "rotary, one row each": partial(RowsInTime, alone=True),
    "decay, one row each": partial(RowsInTime, alone=True, position="decay"),
    "recurrence, one row each": partial(RowsInTime, alone=True, position="gru"),
    "pooled by decay": partial(RowsInTime, alone=True, pooling="decay"),
}
"""Makers of a case, by name."""

LEFT_OUT = "a part left out"


def loss_of(out: torch.Tensor) -> torch.Tensor:
    """A smooth loss with a gradient everywhere."""
    return (out - 1).square().mean()


def optimiser_of(net: nn.Module) -> torch.optim.Optimizer:
    """One whose steps show a replica that has gone its own way."""
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def train(case, rank: int) -> dict:
    """Three steps of one process: its last state, and the parameters that had no gradient in a step."""
    torch.manual_seed(rank)  # replicas start from the weights of the first process
    net = DistributedDataParallel(case.net(), find_unused_parameters=False)
    optimiser, without = optimiser_of(net), []
    for step in range(N_STEPS):
        optimiser.zero_grad(set_to_none=True)
        loss_of(net(**case.tensors(rank, step))).backward()
        without += [name for name, p in net.module.named_parameters() if p.grad is None]
        optimiser.step()
    return {"state": net.module.state_dict(), "without": without}


def main(folder: Path) -> None:
    distributed.init_process_group("gloo")
    rank, found = distributed.get_rank(), {}
    for name, make in {**CASES, LEFT_OUT: partial(RowsAlone, net=Skipping)}.items():
        try:
            found[name] = train(make(), rank)
        except RuntimeError as error:  # the same one in every process, so that none waits for another
            found[name] = {"error": str(error)}
    torch.save(found, folder / f"{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
