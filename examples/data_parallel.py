"""Train one network on two processes, each on its own part of parquet files.

torchrun --nproc-per-node 2 examples/data_parallel.py [--quick]

Started without torchrun it is one process that does it all.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import tabembed
from tabembed import Categorical, ParquetBatches, TableEmbedding, TableEncoder
from tabembed.datasets import load_flights

COLUMNS = ["carrier", "flight", "tailnum", "origin", "dest", "hour", "distance", "time_hour"]


class Net(nn.Module):
    """Embedding, one hidden layer, one logit."""

    def __init__(self, schema: tabembed.TableSchema) -> None:
        super().__init__()
        self.embedding = TableEmbedding(schema)
        self.head = nn.Sequential(nn.Linear(self.embedding.output_dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, **tensors: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(**tensors)).squeeze(-1)


def prepare(folder: str, n_rows: int) -> None:
    """One process writes the files and fits the encoder."""
    flights = load_flights().dropna(subset=["arr_delay"]).head(n_rows)
    flights["late"] = (flights["arr_delay"] > 15).astype("int8")
    flights[[*COLUMNS, "late"]].to_parquet(f"{folder}/flights.parquet", index=False, row_group_size=1000)
    encoder = TableEncoder({"flight": Categorical(), "hour": Categorical(), "late": "drop"}, min_frequency=10)
    encoder.fit_parquet(f"{folder}/flights.parquet").save(f"{folder}/encoder")


def train(folder: str, n_epochs: int) -> None:
    """What every process does; a batch's gradients are the mean of those of all processes."""
    encoder = tabembed.load(f"{folder}/encoder")
    files = f"{folder}/flights.parquet"
    batches = ParquetBatches(files, encoder, batch_size=256, target="late", shuffle=True)
    loader = DataLoader(batches, batch_size=None)
    # Every parameter has a gradient in every step, so that nobody has to look for those without.
    net = DistributedDataParallel(Net(encoder.schema_), find_unused_parameters=False)
    optimiser, loss_of = torch.optim.AdamW(net.parameters(), lr=3e-3), nn.BCEWithLogitsLoss()
    for epoch in range(n_epochs):
        batches.set_epoch(epoch)
        total, n = 0.0, 0
        for rows, late in loader:
            optimiser.zero_grad()
            loss = loss_of(net(**rows.tensors()), late.float())
            loss.backward()
            optimiser.step()
            total, n = total + loss.item() * len(late), n + len(late)
        sums = torch.tensor([total, n], dtype=torch.float64)
        dist.all_reduce(sums)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {sums[0] / sums[1]:.4f} over {int(sums[1]):,} rows")
    check = torch.cat([parameter.detach().flatten() for parameter in net.parameters()]).double().sum()
    least, most = check.clone(), check.clone()
    dist.all_reduce(least, dist.ReduceOp.MIN)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        equal = "equal" if least == most else "not equal"
        print(f"{dist.get_world_size()} process(es), whose networks are {equal}")


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    with tempfile.TemporaryDirectory() as own:
        place = [own]
        dist.broadcast_object_list(place)  # the folder of the first process, on the same machine
        if dist.get_rank() == 0:
            prepare(place[0], 4000 if quick else 40_000)
        dist.barrier()
        train(place[0], 1 if quick else 4)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
