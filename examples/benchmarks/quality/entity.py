"""Entity embeddings as they are usually made: sizes by rule, a plain network, no cross-fitting.

Every column has a table whose width follows from its number of values; a network of two layers learns them
from the target; then all rows, those it was trained on too, get the vectors of that one network. A value that
was never seen shares the row of missing values.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

LAYERS = (200, 100)
EPOCHS, BATCH, RATE, DECAY = 10, 256, 3e-3, 0.01
MISSING = 0


class Network(nn.Module):
    """Tables of the categories beside the numbers, then two hidden layers."""

    def __init__(self, sizes: list[int], n_numbers: int) -> None:
        super().__init__()
        widths = [min(600, round(1.6 * size**0.56)) for size in sizes]
        tables = [nn.Embedding(size, width) for size, width in zip(sizes, widths, strict=True)]
        self.tables = nn.ModuleList(tables)
        layers: list[nn.Module] = []
        width = sum(widths) + n_numbers
        for size in LAYERS:
            layers += [nn.Linear(width, size), nn.ReLU(), nn.BatchNorm1d(size)]
            width = size
        self.head = nn.Sequential(*layers, nn.Linear(width, 1))

    def columns(self, ids: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        vectors = [table(ids[:, place]) for place, table in enumerate(self.tables)]
        return torch.cat([*vectors, numbers], dim=1)

    def forward(self, ids: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        return self.head(self.columns(ids, numbers)).squeeze(1)


def entity_embeddings(
    train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame, task: str, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of the training rows and of the test rows, from one network that was fitted on the former."""
    names = list(train.select_dtypes(exclude="number"))
    known = {name: pd.Index(train[name].dropna().unique()) for name in names}
    ids = [_ids(rows, known) for rows in (train, test)]
    prepare = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    rest = [rows.drop(columns=names) for rows in (train, test)]
    some = rest[0].shape[1] > 0
    numbers = [prepare.fit_transform(rest[0]), prepare.transform(rest[1])] if some else [*map(_none, rest)]
    tensors = [(i, torch.from_numpy(n.astype(np.float32))) for i, n in zip(ids, numbers, strict=True)]
    target = torch.from_numpy((y if task == "binary" else (y - y.mean()) / y.std()).astype(np.float32))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network([1 + len(values) for values in known.values()], numbers[0].shape[1])
        loss = nn.BCEWithLogitsLoss() if task == "binary" else nn.MSELoss()
        _fit(network, *tensors[0], target, loss)
    with torch.no_grad():
        train_vectors, test_vectors = (network.columns(*part).numpy() for part in tensors)
    return train_vectors, test_vectors


def _fit(
    network: Network, ids: torch.Tensor, numbers: torch.Tensor, target: torch.Tensor, loss: nn.Module
) -> None:
    size = min(BATCH, len(target))
    steps = len(target) // size  # rows that do not fill a batch are left for the next pass
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=EPOCHS * steps)
    for _ in range(EPOCHS):
        order = torch.randperm(len(target))
        for rows in order[: steps * size].split(size):
            optimiser.zero_grad()
            loss(network(ids[rows], numbers[rows]), target[rows]).backward()
            optimiser.step()
            schedule.step()


def _ids(rows: pd.DataFrame, known: dict[str, pd.Index]) -> torch.Tensor:
    columns = [values.get_indexer(rows[name]) + 1 for name, values in known.items()]
    ids = np.column_stack(columns) if columns else _none(rows)
    return torch.from_numpy(ids.astype(np.int64))


def _none(rows: pd.DataFrame) -> np.ndarray:
    return np.zeros((len(rows), 0))
