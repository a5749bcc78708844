from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tabembed.nn import TimeColumns
from tabembed.schema import MISSING_TIME


class Low(nn.Module):
    """Whether an instant is even, which float32 could not tell, and a weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))

    def reset_parameters(self):
        nn.init.constant_(self.weight, 3.0)

    def forward(self, times):
        return torch.cat((times % 2 * self.weight, self.weight.expand(times.shape)), -1)


NOW = 1_700_000_000 * 10**9


def test_instants_reach_the_modules_as_integers_and_missing_ones_do_not():
    module = TimeColumns([Low(), Low()], 2, seed=0)
    times = torch.tensor([[NOW + 1, NOW], [MISSING_TIME, NOW + 3]])
    output = module(times)
    rows = module.per_column.missing
    assert_close(output[0], torch.tensor([[2.0, 2.0], [0.0, 2.0]]), rtol=0, atol=0)
    assert_close(output[1], torch.stack((rows[0], torch.tensor([2.0, 2.0]))), rtol=0, atol=0)
    output.sum().backward()
    assert rows.grad.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert [column.weight.grad.item() for column in module.per_column.columns] == [2.0, 3.0]
    assert module(times[0]).shape == (2, 2)


def test_reset_reaches_the_modules_and_the_rows():
    module = TimeColumns([Low()], 2, seed=4)
    first = module.per_column.missing.detach().clone()
    nn.init.zeros_(module.per_column.missing)
    module.reset_parameters()
    assert torch.equal(module.per_column.missing, first)
    assert module.per_column.columns[0].weight == 3.0
    assert not torch.equal(TimeColumns([Low()], 2, seed=5).per_column.missing, first)


def test_bad_times_and_arguments():
    module = TimeColumns([Low()], 2)
    with pytest.raises(ValueError, match=r"times must have 1 as its last dimension, got shape \(3, 2\)"):
        module(torch.zeros(3, 2, dtype=torch.int64))
    for times in (torch.zeros(3, 1), torch.zeros(3, 1, dtype=torch.bool)):
        with pytest.raises(TypeError, match=f"times must be integers, got {times.dtype}"):
            module(times)
    with pytest.raises(ValueError, match="n_columns must be at least 1, got 0"):
        TimeColumns([], 2)
