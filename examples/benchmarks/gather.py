"""Many categorical columns looked up: tabembed against one nn.Embedding a column, and against torchembed.

The peers look at no id: one out of range is an IndexError without a column's name, or a wrong row on a GPU; a
padding row is zero until something writes into it.

python examples/benchmarks/gather.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torchembed
from measure import alternate, report
from torch import Tensor, nn

from tabembed.nn import MultiCategoricalEmbedding

CARDINALITIES = [5, 12, 40, 7, 3, 300, 1000, 25, 4000, 60]
BATCHES = {1: 300, 256: 100, 4096: 15}  # rows, and how often they are timed
CATEGORIES = {"known ids": 1, "padding in every column": 0}  # and the first id that is drawn


class Columns(nn.Module):
    """What one would write with PyTorch alone."""

    def __init__(self, sizes: list[tuple[int, int]]) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, width, padding_idx=0) for n, width in sizes)

    def forward(self, ids: Tensor) -> Tensor:
        return torch.cat([table(ids[:, j]) for j, table in enumerate(self.tables)], -1)


def trained(module: nn.Module, ids: Tensor) -> Callable[[], None]:
    """Forward and backward."""

    def step() -> None:
        module.zero_grad()
        module(ids).sum().backward()

    return step


def main() -> None:
    torch.set_num_threads(1)
    ours = MultiCategoricalEmbedding(CARDINALITIES, padding_idx=0)
    modules = {
        "tabembed": ours,
        "nn.Embedding": Columns(ours.embedding_dims()),
        "torchembed": torchembed.MultiCategoricalEmbedding(CARDINALITIES, padding_idx=0),
    }
    rows = []
    for kind, lowest in CATEGORIES.items():
        for n_rows, repeats in BATCHES.items():
            generator = torch.Generator().manual_seed(0)
            columns = [torch.randint(lowest, n, (n_rows,), generator=generator) for n in CARDINALITIES]
            ids = torch.stack(columns, -1)
            ways = {
                "forward": {name: lambda m=module, i=ids: m(i) for name, module in modules.items()},
                "forward + backward": {name: trained(module, ids) for name, module in modules.items()},
            }
            for way, functions in ways.items():
                seconds = alternate(functions, repeats)
                rows.append(
                    {
                        "what": f"{way}, {n_rows} rows, {kind}",
                        "tabembed, s": seconds["tabembed"],
                        **{
                            f"{peer}, times its time": seconds["tabembed"] / seconds[peer]
                            for peer in ("nn.Embedding", "torchembed")
                        },
                        "reached": "none promised",
                    }
                )
    peer = "one nn.Embedding a column"
    report("gather", rows, value="nn.Embedding, times its time", unit="×", against=peer)


if __name__ == "__main__":
    main()
