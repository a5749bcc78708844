"""Flights as plain arrays: six numbers, five categories and the label, with nothing missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tabembed import Categorical, TableEncoder
from tabembed.datasets import load_flights
from tabembed.schema import UNKNOWN

NUMBERS = ["sched_dep", "sched_arr", "day", "dep_delay", "air_time", "distance"]  # minutes, days, miles
CATEGORIES = ["carrier", "origin", "dest", "month", "weekday"]
LABEL = "late"


@dataclass(frozen=True)
class Table:
    """Rows of flights: ``numbers (n, 6)`` float, ``codes (n, 5)`` int from 0, ``late (n,)`` 0 or 1."""

    numbers: np.ndarray
    codes: np.ndarray
    late: np.ndarray

    def __len__(self) -> int:
        return len(self.late)

    def __getitem__(self, rows: slice | np.ndarray) -> Table:
        return Table(self.numbers[rows], self.codes[rows], self.late[rows])

    def matrix(self) -> np.ndarray:
        """Numbers, codes and label side by side."""
        return np.column_stack([self.numbers, self.codes, self.late])


def read() -> pd.DataFrame:
    """The columns that are modelled; rows with a missing value are dropped, and their number printed."""
    flights = load_flights()
    frame = flights[["day", "dep_delay", "air_time", "distance", "carrier", "origin", "dest", "month"]].copy()
    frame["sched_dep"] = minutes(flights["sched_dep_time"])
    frame["sched_arr"] = minutes(flights["sched_arr_time"])
    frame["weekday"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.dayofweek
    frame[LABEL] = (flights["arr_delay"] > 15).astype(int)
    complete = frame.notna().all(axis=1) & flights["arr_delay"].notna()
    print(
        f"{len(frame):,} flights, {(~complete).sum():,} dropped for a missing value (cancelled or diverted); "
        f"{frame.loc[complete, LABEL].mean():.1%} of the others are more than 15 minutes late"
    )
    return frame[complete]


def minutes(hhmm: pd.Series) -> pd.Series:
    """Minutes since midnight of local times written as numbers, 1745 for 17:45."""
    return hhmm // 100 * 60 + hhmm % 100


def halves(frame: pd.DataFrame, seed: int) -> tuple[Table, Table, list[int]]:
    """Rows to train on, as many held out, and how many codes each category has.

    Codes come from the rows to train on; categories with under ten of them share code 0 with those
    that never occur there.
    """
    order, half = np.random.default_rng(seed).permutation(len(frame)), len(frame) // 2
    train, held_out = frame.iloc[order[:half]], frame.iloc[order[half : 2 * half]]
    encoder = TableEncoder({name: Categorical(min_frequency=10) for name in CATEGORIES}).fit(
        train[CATEGORIES]
    )
    tables = [
        Table(
            part[NUMBERS].to_numpy(float),
            encoder.transform(part[CATEGORIES]).ids.numpy() - UNKNOWN,
            part[LABEL].to_numpy(),
        )
        for part in (train, held_out)
    ]
    return tables[0], tables[1], [column.n_ids - UNKNOWN for column in encoder.schema_.categorical]


def snap(numbers: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Every number as the nearest one that its column has in ``seen``."""
    return np.column_stack([nearest(*columns) for columns in zip(numbers.T, seen.T, strict=True)])


def nearest(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    known = np.unique(seen)
    return known[np.searchsorted((known[1:] + known[:-1]) / 2, values)]
