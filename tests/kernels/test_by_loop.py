from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tabembed.functional.exact_phase import in_turns
from tabembed.kernels.gather import gather
from tabembed.kernels.rotary import pair_products, rotate

FREQUENCIES = in_turns(torch.tensor([1.0, 0.1]))


def turned(x, positions):
    return rotate(x, x[:, :1], positions, positions, FREQUENCIES, None, None, False, False)


@pytest.mark.parametrize("n_items", [0, 1, 3])
def test_items_are_stacked_whatever_dimension_they_stand_in(n_items):
    x, positions = torch.randn(2, 2, 3, n_items, 4), torch.arange(3 * n_items).view(n_items, 1, 3)
    got = torch.func.vmap(turned, (3, 0))(x, positions)
    assert [part.shape for part in got] == [(n_items, 2, 2, 3, 4), (n_items, 2, 1, 3, 4)]
    for i in range(n_items):
        for part, truth in zip(got, turned(x[..., i, :], positions[i]), strict=True):
            assert_close(part[i], truth)


def test_one_output_and_an_argument_that_is_shared():
    x = torch.randn(3, 2, 2, 5, 4)
    got = torch.func.vmap(lambda one: pair_products(one, x[0], 2, True))(x)
    assert_close(got, torch.stack([pair_products(one, x[0], 2, True) for one in x]))


def test_lists_of_tensors():
    tables, ids = torch.randn(3, 4, 2), torch.tensor([[0, 1], [3, 2]])
    other = torch.randn(4, 3)
    got = torch.func.vmap(lambda table: gather([table, other], ids))(tables)
    assert_close(got, torch.stack([gather([table, other], ids) for table in tables]))


def test_within_each_other():
    x = torch.randn(2, 3, 1, 1, 3, 4)
    positions = torch.arange(3)[None]
    got, _ = torch.func.vmap(torch.func.vmap(lambda one: turned(one, positions)))(x)
    assert_close(got[1, 2], turned(x[1, 2], positions)[0])
