"""A plain PyTorch training loop on a TableEmbedding, with the ordinary DataLoader.

python examples/pytorch_training.py [--quick]
"""

import sys

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from tabembed import Categorical, TableEmbedding, TableEncoder
from tabembed.datasets import load_flights

quick = "--quick" in sys.argv
torch.manual_seed(0)
flights = load_flights().dropna(subset=["arr_delay"])
if quick:
    flights = flights.sample(6000, random_state=0)

columns = ["carrier", "flight", "tailnum", "origin", "dest", "hour", "sched_dep_time", "distance"]
past = (flights["month"] < 10).to_numpy()
X, late = flights[columns], torch.tensor((flights["arr_delay"] > 15).to_numpy(), dtype=torch.float32)

encoder = TableEncoder({"flight": Categorical(), "hour": Categorical()}, min_frequency=10).fit(X[past])
train, test = encoder.transform(X[past]), encoder.transform(X[~past])
late_train, late_test = late[torch.tensor(past)], late[torch.tensor(~past)]


class Rows(torch.utils.data.Dataset):
    """Rows and targets; an index is a list of positions, so that a batch is cut in one step."""

    def __len__(self) -> int:
        return len(train)

    def __getitem__(self, rows: list[int]) -> tuple:
        return train[rows].tensors(), late_train[rows]


class Net(nn.Module):
    """Embedding, one hidden layer, one logit."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = TableEmbedding(encoder.schema_, unknown_dropout=0.02)
        self.head = nn.Sequential(nn.Linear(self.embedding.output_dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, **tensors: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(**tensors)).squeeze(-1)


net = Net()
groups = net.embedding.param_groups(learning_rate=3e-3, weight_decay=1e-3)
optimiser = torch.optim.AdamW([*groups, {"params": net.head.parameters(), "lr": 1e-3}])
loss_of = nn.BCEWithLogitsLoss()
sampler = BatchSampler(RandomSampler(Rows()), batch_size=512, drop_last=False)
loader = DataLoader(Rows(), sampler=sampler, batch_size=None)  # the sampler already makes the batches

for epoch in range(1 if quick else 3):
    net.train()
    for tensors, target in loader:
        optimiser.zero_grad()
        loss_of(net(**tensors), target).backward()
        optimiser.step()
    net.eval()
    with torch.no_grad():
        print(f"epoch {epoch + 1}: loss on the later months {loss_of(net(**test.tensors()), late_test):.4f}")
share = late_train.mean().logit().expand(len(test))
print(f"for comparison, always the share of the training months: {loss_of(share, late_test):.4f}")
