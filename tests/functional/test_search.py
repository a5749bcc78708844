from __future__ import annotations

import pytest
import torch
from torch import nn

from tabembed.functional.search import edges_passed


class Passed(nn.Module):
    def forward(self, edges, x):
        return edges_passed(edges, x)


NUMBERS = torch.tensor([[-torch.inf, -1, 0, 0.5, 1, 3, torch.inf, torch.nan], [0, 2, 2.5, -3, 2, 9, 1, 0]])
EDGES = torch.tensor([[0, 1, 1, torch.inf], [-3, 0, 2, 2]])
CASES = {
    "a row of edges each": (EDGES, NUMBERS),
    "one row of edges": (EDGES[0], NUMBERS.reshape(2, 4, 2)),
    "integers": (torch.tensor([2**62, 2**62 + 1]), torch.tensor([2**62 - 1, 2**62, 2**62 + 1])),
    "no edges": (EDGES[:, :0], NUMBERS),
}


@pytest.mark.parametrize("case", CASES)
def test_an_export_compares_and_finds_the_same(case):
    edges, x = CASES[case]
    expected = torch.tensor(
        [sum(not edge > number for edge in row) for row, number in pairs(edges, x)]
    ).reshape(x.shape)
    assert torch.equal(edges_passed(edges, x), expected)
    program = torch.export.export(Passed(), (edges, x))
    assert "searchsorted" not in str(program.graph)
    assert torch.equal(program.module()(edges, x), expected)


def pairs(edges, x):
    rows = edges.tolist() if edges.ndim == 2 else [edges.tolist()] * len(x)
    return [(row, number) for row, part in zip(rows, x, strict=True) for number in part.flatten().tolist()]
