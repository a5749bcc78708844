from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tabembed.nn import Dropout, UnknownDropout


def test_without_a_generator_it_is_torch_dropout():
    x = torch.ones(1000)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ours = Dropout(0.3)(x)
        torch.manual_seed(0)
        theirs = nn.Dropout(0.3)(x)
    assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("x", [torch.ones(20_000), torch.full((20_000,), 7)], ids=["float", "ids"])
def test_own_generator_decides_and_the_global_one_rests(x):
    module = (Dropout if x.is_floating_point() else UnknownDropout)(0.3)
    state = torch.get_rng_state()
    module.generator = torch.Generator().manual_seed(1)
    first, second = module(x), module(x)
    module.generator.manual_seed(1)
    assert torch.equal(module(x), first)
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)
    changed = first == (0 if x.is_floating_point() else 2)
    assert changed.double().mean().item() == pytest.approx(0.3, abs=0.02)
    assert first[~changed].unique().tolist() == pytest.approx(
        [x[0].item() / (0.7 if x.is_floating_point() else 1)]
    )


def test_gradient_follows_what_was_kept():
    module = Dropout(0.5)
    module.generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, requires_grad=True)
    output = module(x)
    output.sum().backward()
    assert_close(x.grad, (output != 0) * 2.0)


@pytest.mark.parametrize(
    "module", [Dropout(0.0), Dropout(0.5).eval(), UnknownDropout(0.0), UnknownDropout(0.5).eval()]
)
def test_at_rest_nothing_is_drawn(module):
    module.generator = torch.Generator().manual_seed(0)
    state, x = module.generator.get_state(), torch.arange(9.0)
    assert torch.equal(module(x), x)
    assert torch.equal(module.generator.get_state(), state)


def test_reserved_ids_are_never_replaced():
    ids = torch.arange(6).repeat(2000, 1)
    replaced = UnknownDropout(0.5)(ids)
    assert torch.equal(replaced[:, :3], ids[:, :3])
    share = (replaced[:, 3:] == 2).double().mean(0)
    assert_close(share, torch.full((3,), 0.5, dtype=torch.float64), rtol=0, atol=0.06)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_carry_the_generator(copied):
    module = Dropout(0.5)
    module.generator = torch.Generator().manual_seed(3)
    twin = copied(module)
    assert torch.equal(twin(torch.ones(50)), module(torch.ones(50)))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.uint16, torch.uint64], ids=str)
def test_every_integer_dtype(dtype):
    replaced = UnknownDropout(0.5)(torch.full((200,), 100, dtype=dtype))
    assert replaced.unique().tolist() == [2, 100]


def test_bad_probability():
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1, got 1"):
        Dropout(1)
    with pytest.raises(ValueError, match="unknown_dropout must be at least 0 and below 1, got -1"):
        UnknownDropout(-1)
    with pytest.raises(TypeError, match="unknown_dropout must be a number, got 'x'"):
        UnknownDropout("x")
