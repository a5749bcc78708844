"""A label that depends on elapsed time: which position schemes learn it, from times and from row numbers.

A sequence is a chain of alarms, each followed by a question: was the alarm less than an hour ago? Between the
two lie other rows, near the alarm and near the question, and they are thinned at random. So neither the
number of rows since the alarm nor the gap before the question says anything; only elapsed time does.

python examples/benchmarks/elapsed_time.py [--quick] [--position rotary] [--clock time]
(With --position and --clock a process runs one scheme and writes a file of its own: two can run at once.)
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
import torch
from measure import report
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from tabembed import Categorical, SequenceEmbedding, SequenceEncoder

HOUR = 3600.0
NEAR = HOUR / 60  # other rows lie this close to an alarm or to a question, at most
FARTHEST = 12  # a question comes between 1/12 and 12 hours after its alarm, evenly in the logarithm
PAIRS = 6
SCHEMES = [
    *((position, clock) for position in ("rotary", "alibi", "decay") for clock in ("time", "index")),
    *(("sinusoidal", clock) for clock in ("time", "index")),
    *(("learned", clock) for clock in ("time", "index")),
    (None, "time"),
    *(("gru", clock) for clock in ("time", "index")),
]
REACH = {(position, "time"): ">= 0.95" for position in ("rotary", "alibi")}
FAIL = {(position, "index"): "< 0.6" for position in ("rotary", "alibi")}


def sequence(rng: np.random.Generator, who: int) -> pd.DataFrame:
    """One sequence: alarms, questions, and the other rows that thinning left."""
    kept = rng.uniform(0.1, 1.0)  # of the other rows
    now, parts = 0.0, []
    for _ in range(PAIRS):
        ago = HOUR * FARTHEST ** rng.uniform(-1, 1)
        asked = now + ago
        near_alarm = now + rng.uniform(0, NEAR, 6)
        near_question = asked - rng.uniform(0, NEAR, 6)
        others = np.concatenate((near_alarm, near_question))
        others = others[rng.random(len(others)) < kept]
        check = asked - rng.uniform(0, NEAR / 6)  # there is always a row just before a question
        times = np.concatenate(([now], others, [check, asked]))
        kinds = ["alarm", *rng.choice(["noise", "status"], len(others)), "status", "question"]
        label = np.full(len(times), np.nan)
        label[-1] = ago < HOUR
        parts.append(pd.DataFrame({"when": times, "kind": kinds, "label": label}))
        now = asked + rng.uniform(NEAR, HOUR)
    return pd.concat(parts).assign(who=who, when=lambda rows: rows["when"] + rng.uniform(0, 1e9))


def sequences(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.concat([sequence(rng, who) for who in range(n)], ignore_index=True)


class Net(nn.Module):
    """A vector a row, and a logit of it."""

    def __init__(self, encoder: SequenceEncoder, position: str | None, clock: str) -> None:
        super().__init__()
        self.embedding = SequenceEmbedding(encoder.schema_, position, clock=clock, d_model=32)
        self.head = nn.Linear(self.embedding.output_dim, 1)

    def forward(self, rows: dict[str, Tensor], times: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.embedding(rows, times, mask=mask)).squeeze(-1)


class Data:
    """Padded sequences, and the labels of their questions (NaN elsewhere)."""

    def __init__(self, encoder: SequenceEncoder, frame: pd.DataFrame) -> None:
        batch = encoder.transform(frame)
        self.batch = batch
        self.label = torch.tensor(frame["label"].to_numpy(), dtype=torch.float32)

    def part(self, places: Tensor) -> tuple[dict[str, Any], Tensor]:
        padded = self.batch[places].padded()
        return padded.tensors(), self.label[padded.row].masked_fill(~padded.mask, torch.nan)


def train(net: Net, data: Data, n_passes: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    size = 64
    n_steps = n_passes * -(-len(data.batch) // size)
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=n_steps)
    net.train()
    for _ in range(n_passes):
        for places in torch.randperm(len(data.batch), generator=generator).split(size):
            tensors, label = data.part(places)
            asked = ~label.isnan()
            loss = nn.functional.binary_cross_entropy_with_logits(net(**tensors)[asked], label[asked])
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            schedule.step()


@torch.no_grad()
def auc(net: Net, data: Data) -> float:
    net.eval()
    found, labels = [], []
    for places in torch.arange(len(data.batch)).split(256):
        tensors, label = data.part(places)
        asked = ~label.isnan()
        found.append(net(**tensors)[asked])
        labels.append(label[asked])
    return float(roc_auc_score(torch.cat(labels), torch.cat(found)))


def fair(frame: pd.DataFrame) -> dict[str, float]:
    """AUC of what must not tell: the gap before a question, and the rows since its alarm."""
    asked = frame["kind"] == "question"
    gap = frame.sort_values(["who", "when"], kind="stable").groupby("who")["when"].diff()
    count = np.arange(len(frame)) - pd.Series(np.where(frame["kind"] == "alarm", frame.index, np.nan)).ffill()
    label = frame.loc[asked, "label"]
    return {
        name: float(roc_auc_score(label, -told[asked])) for name, told in {"gap": gap, "rows": count}.items()
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    names = sorted({str(position).lower() for position, _ in SCHEMES})
    parser.add_argument("--position", choices=names, help="one scheme alone")
    parser.add_argument("--clock", choices=("time", "index"))
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    quick: bool = asked.quick
    schemes = [
        (position, clock)
        for position, clock in SCHEMES
        if asked.position in (None, str(position).lower()) and asked.clock in (None, clock)
    ]
    parts = ("elapsed_time", asked.position, asked.clock, "quick" if quick else None)
    name = "_".join(part for part in parts if part)
    train_frame, test_frame = sequences(400 if quick else 1500, 0), sequences(200 if quick else 500, 1)
    shown = ", ".join(f"by the {name} {found:.3f}" for name, found in fair(test_frame).items())
    print(f"{len(train_frame):,} rows to train; AUC on the test's questions {shown}")
    encoder = SequenceEncoder("who", "when", {"kind": Categorical(), "label": "drop"}).fit(train_frame)
    data, test = Data(encoder, train_frame), Data(encoder, test_frame)
    found = []
    for position, clock in schemes[:2] if quick else schemes:
        torch.manual_seed(0)
        net = Net(encoder, position, clock)
        start = time.perf_counter()
        train(net, data, 2 if quick else 6, seed=0)
        value = auc(net, test)
        scheme = (position, clock)
        promised = REACH.get(scheme, FAIL.get(scheme, ""))
        reached = value >= 0.95 if scheme in REACH else value < 0.6 if scheme in FAIL else True
        seconds = time.perf_counter() - start
        print(f"{position}, {clock}: AUC {value:.3f} in {seconds:.0f} s", flush=True)
        found.append(
            {
                "position": str(position),
                "clock": clock,
                "AUC": value,
                "seconds": seconds,
                "promised": "" if quick else promised,
                "reached": quick or reached,
            }
        )
    report(name, found, what="{position} by {clock}", value="AUC", unit="AUC")


if __name__ == "__main__":
    main()
