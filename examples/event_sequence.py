"""Flights of aircraft, in time: will a flight be late, given how the aircraft's flights before it went?

python examples/event_sequence.py [--quick]
"""

import sys

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from tabembed import SequenceEmbedder, SequenceEmbedding, SequenceEncoder, check_no_leak
from tabembed.datasets import load_flights

quick = "--quick" in sys.argv
n_passes = 8 if quick else 6
torch.manual_seed(0)

# A table of events: a row a flight, in any order. The delays are known only when a flight is over.
flights = load_flights().dropna(subset=["arr_delay"])
if quick:
    flights = flights[flights["tailnum"] < "N3"]
flights["departure"] = flights["time_hour"] + pd.to_timedelta(flights["minute"], "min")
before = ["carrier", "origin", "dest", "sched_dep_time", "sched_arr_time", "distance"]
after = ["dep_delay", "arr_delay"]
flights = flights[["tailnum", "departure", *before, *after]].reset_index(drop=True)
late = (flights["arr_delay"] > 15).to_numpy()
past = (flights["departure"] < pd.Timestamp("2013-10-01", tz="UTC")).to_numpy()

# From the table to sequences. Statistics come from the past alone.
encoder = SequenceEncoder("tailnum", "departure", observed=after).fit(flights[past])
batch = encoder.transform(flights)
print(batch)
print("hours between flights, median:", f"{batch.gap.nanmedian() / 3600:.1f}")

# The same rows, laid out as a model wants them.
padded = batch.padded("left")
print("padded:", padded.rows["ids"].shape, f"{padded.mask.float().mean():.0%} of it real rows")
print("packed, at most 2048 rows:", [part.n_rows for part in batch.packed(2048)][:4], "...")
windows = batch.windows(32, stride=32)
chosen = BatchSampler(RandomSampler(windows), batch_size=64, drop_last=False)
parts = [part.shape for part in DataLoader(windows, sampler=chosen, batch_size=None)]
print("windows of 32 rows, some at a time:", parts[:3], "... | last 8 rows:", batch.last(8).n_rows)


# In plain PyTorch: a module that gives every flight a vector of itself and of its past, and a head.
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = SequenceEmbedding(encoder.schema_, "rotary", d_model=32)
        self.head = nn.Linear(self.embedding.output_dim, 1)

    def forward(self, **tensors) -> torch.Tensor:
        return self.head(self.embedding(**tensors)).squeeze(-1)


net = Net()
groups = net.embedding.param_groups(3e-3, 1e-2)
optimiser = torch.optim.AdamW([*groups, {"params": net.head.parameters(), "lr": 3e-3}])
train, target = encoder.transform(flights[past]), torch.tensor(late[past], dtype=torch.float32)
shuffle = torch.Generator().manual_seed(0)
for _ in range(n_passes):
    net.train()
    for part in train.packed(512, generator=shuffle):  # whole aircraft
        optimiser.zero_grad()
        logits = net(**part.tensors())
        loss = nn.functional.binary_cross_entropy_with_logits(logits, target[part.row])
        loss.backward()
        optimiser.step()
net.eval()
with torch.no_grad():
    scores = batch.to_input_order(net(**batch.tensors()))  # all flights: those of autumn have their past
print(f"AUC of October to December, PyTorch: {roc_auc_score(late[~past], scores[~past]):.3f}")

# Nothing may come from the future: change it, and see whether a vector moves.
some = flights[flights["tailnum"].isin(flights["tailnum"].unique()[:5])]


@torch.no_grad()
def vectors(table: pd.DataFrame) -> np.ndarray:
    rows = encoder.transform(table)
    return rows.to_input_order(net.embedding(**rows.tensors())).numpy()


check_no_leak(vectors, some, entity="tailnum", time="departure", observed=after)
print("no flight's vector moved when later flights, or its own delays, were changed")

# In scikit-learn: the estimator trains such a network and gives every row its vector, out-of-fold.
embedder = SequenceEmbedder(encoder, d_model=32, cv=2, max_iter=n_passes, random_state=0)
model = make_pipeline(embedder, StandardScaler(), LogisticRegression(max_iter=1000))
model.fit(flights[past], late[past])
probability = model.predict_proba(flights)[:, 1]  # the whole table, so that each flight has its past
print(f"AUC of October to December, scikit-learn: {roc_auc_score(late[~past], probability[~past]):.3f}")

# One flight at a time, after all the others. While it is in the air its delays are missing, and the state
# after such a row is dropped. Once it has landed, the whole row steps again from the state before.
order = flights.sort_values("departure", kind="stable")
flown, last = encoder.transform(order[:-1]), order[-1:]
aircraft = last["tailnum"].item()
module = net.embedding  # that of an embedder: embedder.network_.embedding
with torch.no_grad():
    own = flown[flown.entities == aircraft]
    _, state = module.step(None, **own.padded().tensors())
    live = encoder.transform(last.assign(**dict.fromkeys(after, np.nan)))
    vector, _ = module.step(state, **live.padded().tensors())
    _, state = module.step(state, **encoder.transform(last).padded().tensors())
    whole = module(**encoder.transform(order[order["tailnum"] == aircraft]).tensors())
print(f"{aircraft}: late with probability {net.head(vector).sigmoid().item():.2f}, said before it landed;")
far = (vector[0, 0] - whole[-1]).abs().max()
print(f"its vector, made alone, differs by {far:.1e} from that of the whole history")
