"""A fitted embedder goes to production: its network compiled, exported, and as ONNX in onnxruntime.

python examples/serving.py [--quick]
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

import tabembed
from tabembed import Categorical, TableEmbedder, TableEncoder
from tabembed.datasets import load_flights

quick = "--quick" in sys.argv
flights = load_flights().dropna(subset=["arr_delay"])[: 3000 if quick else None]
X = flights[["carrier", "flight", "tailnum", "origin", "dest", "sched_dep_time", "distance"]]
encoder = TableEncoder({"flight": Categorical()}, min_frequency=5)
embedder = TableEmbedder(encoder, output="row", max_iter=2 if quick else 20, random_state=0)
embedder.fit(X, flights["arr_delay"] > 15)


class Row(nn.Module):
    """What ``transform`` runs once a table is tensors; ``.columns`` stands for output="columns"."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: Tensor, values: Tensor, missing: Tensor) -> Tensor:
        return self.network.row(ids=ids, values=values, missing=missing)


# Two things are served: the encoder, which makes tensors of a row, and the network, which makes its vector.
here = TemporaryDirectory()
folder = Path(here.name)
embedder.encoder_.save(folder / "encoder")
row, tensors = Row(embedder.network_).eval(), embedder.encoder_.transform(X[:100]).tensors()

# Any number of rows; 100 of them are enough to see what happens. Times and lists would be further inputs.
any_rows = dict.fromkeys(tensors, {0: torch.export.Dim.DYNAMIC})
program = torch.export.export(row, (), tensors, dynamic_shapes=any_rows)
torch.onnx.export(program, f=folder / "row.onnx", dynamo=True, verbose=False)
compiled = torch.compile(row, dynamic=True, backend="aot_eager" if quick else "inductor")

# Elsewhere: no embedder, no target, one new row, whose carrier nobody has seen and whose aircraft is missing.
encoder = tabembed.load(folder / "encoder")
session = onnxruntime.InferenceSession(folder / "row.onnx")
new = X[:1].assign(carrier="a new one", tailnum=None)
tensors = encoder.transform(new).tensors()
served = {
    "onnxruntime": session.run(None, {name: tensor.numpy() for name, tensor in tensors.items()})[0],
    "torch.export": program.module()(**tensors).detach().numpy(),
    "torch.compile": compiled(**tensors).detach().numpy(),
}
expected = embedder.transform(new)
for name, vector in served.items():
    print(f"{name:14}{vector.shape} {vector.dtype}, off by at most {np.abs(vector - expected).max():.0e}")
