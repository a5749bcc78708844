from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tabembed.nn import PerColumn


class Powers(nn.Module):
    """x to [w·x, w·x²], or its reciprocal, which 0 · NaN would betray."""

    def __init__(self, width=2):
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.tensor(2.0))

    def reset_parameters(self):
        nn.init.constant_(self.weight, 3.0)

    def forward(self, x):
        return self.weight * torch.cat([x ** (k + 1) for k in range(self.width)], -1)


@pytest.mark.parametrize("leading", [(), (1,), (4,), (0,), (2, 3)])
def test_every_column_meets_its_own_module(leading):
    module = PerColumn([Powers(), nn.Linear(1, 2)], 2)
    x = torch.randn(*leading, 2, generator=torch.Generator().manual_seed(0))
    first, second = module.columns
    expected = torch.stack([first(x[..., :1]), second(x[..., 1:])], -2)
    assert module(x).shape == (*leading, 2, 2)
    assert_close(module(x), expected)


def test_a_module_sees_rows_of_one_number():
    seen = []

    class Spy(nn.Module):
        def forward(self, x):
            seen.append(tuple(x.shape))
            return x

    PerColumn([Spy()], 1)(torch.zeros(1))
    PerColumn([Spy()], 1)(torch.zeros(5, 2, 1))
    assert seen == [(1, 1), (10, 1)]


@pytest.mark.parametrize("under", [0.0, math.nan, math.inf])
def test_missing_gives_the_learned_row_and_nothing_leaks(under):
    module = PerColumn([Powers(), Powers()], 2, seed=0)
    values = torch.tensor([[under, 1.0], [2.0, under], [under, under]], requires_grad=True)
    missing = torch.tensor([[True, False], [False, True], [True, True]])
    output = module(values, missing)
    assert_close(output[missing], module.missing[[0, 1, 0, 1]], rtol=0, atol=0)
    assert_close(output[~missing], torch.tensor([[2.0, 2.0], [4.0, 8.0]]))
    output.sum().backward()
    assert [column.weight.grad.item() for column in module.columns] == [6.0, 2.0]
    assert_close(module.missing.grad, torch.full((2, 2), 2.0))
    assert_close(values.grad[missing], torch.zeros(4))
    assert values.grad[~missing].all()


def test_nan_without_the_flag_stays_visible():
    assert PerColumn([nn.Linear(1, 2)], 2)(torch.tensor([[math.nan]])).isnan().all()


def test_reset_parameters_reaches_every_module_once():
    module = PerColumn([Powers(), nn.Sequential(nn.Linear(1, 3), Powers(1))], 3, seed=4)
    rows, linear = module.missing.detach().clone(), module.columns[1][0].weight.detach().clone()
    with torch.no_grad():
        module.missing.zero_()
    module.reset_parameters()
    assert_close(module.missing, rows, rtol=0, atol=0)
    assert module.columns[0].weight == module.columns[1][1].weight == 3.0
    assert not torch.equal(module.columns[1][0].weight, linear)


def test_first_missing_rows_follow_the_seed_and_fill_their_interval():
    one, two, other = (PerColumn([nn.Identity()] * 200, 16, seed=seed).missing for seed in (0, 0, 1))
    assert_close(one, two, rtol=0, atol=0)
    assert not torch.equal(one, other)
    assert one.abs().max().item() == pytest.approx(0.25, rel=1e-2)


def test_output_is_in_the_dtype_of_the_weights():
    module = PerColumn([nn.Identity()], 1).half()
    assert module(torch.tensor([[1.0]])).dtype == torch.float16


@pytest.mark.parametrize(
    ("modules", "width", "error", "text"),
    [
        ([], 2, ValueError, "n_columns must be at least 1, got 0"),
        ([nn.Identity()], 0, ValueError, "d_embedding must be at least 1, got 0"),
    ],
)
def test_bad_arguments(modules, width, error, text):
    with pytest.raises(error, match=text):
        PerColumn(modules, width)


def test_bad_seed():
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        PerColumn([nn.Identity()], 1, seed=-1)


def test_bad_tensors():
    module = PerColumn([Powers(), Powers(3)], 2)
    with pytest.raises(ValueError, match=r"values must have 2 as its last dimension, got shape \(4, 1\)"):
        module(torch.zeros(4, 1))
    with pytest.raises(TypeError, match="missing must be bool, got torch.int64"):
        module(torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.int64))
    text = r"the output of modules\[1\] must have 2 as its last dimension, got shape \(4, 3\)"
    with pytest.raises(ValueError, match=text):
        module(torch.zeros(4, 2))
