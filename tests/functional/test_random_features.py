from __future__ import annotations

import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.functional import random_features as waves


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("m", [1, 7, 70])
@pytest.mark.parametrize("offsets", [False, True])
def test_equals_the_loops(m, offsets):
    x, w = drawn(5, 3).double(), drawn(3, m, seed=1).double()
    b = drawn(m, seed=2).double() if offsets else None
    kind, shift, width = ("cos", b.tolist(), m) if offsets else ("sincos", None, 2 * m)
    rows = [reference.random_features(r, w.tolist(), [1.0] * 3, kind, shift, width) for r in x.tolist()]
    assert_close(waves.random_features(x, w, b), torch.tensor(rows, dtype=torch.float64))


@pytest.mark.parametrize(("rows", "m"), [(0, 5), (9, 5), (2000, 70)])
@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_blocks_give_the_same_one_below_the_other(rows, m, offsets, dtype):
    x, w, b = drawn(rows, 3).to(dtype), drawn(3, m, seed=1), drawn(m, seed=2) if offsets else None
    expected = waves.random_features(x, w, b)
    out = torch.full_like(expected, 7.0)
    before = x.clone()
    waves.write_waves(waves.phases_of_blocks(x.split(4), w), b, out)
    assert_close(out, expected)
    assert torch.equal(x, before)


def test_phases_are_those_of_the_wider_dtype_inside_autocast_too():
    x, w = drawn(5, 3), drawn(3, 4, seed=1)
    outside = x @ w
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(waves.phases(x, w), outside)
        assert waves.phases(x.double(), w).dtype == torch.float64
    assert_close(waves.phases(x.half(), w), x.half().float() @ w)


@pytest.mark.parametrize("m", [1, 512, 2**20, 2**21])
def test_a_block_holds_a_million_phases_and_a_row_at_least(m):
    rows = waves.block_size(torch.empty(3, m, device="meta"))
    assert rows == 1 or rows * m == 2**20


@pytest.mark.parametrize("offsets", [None, torch.zeros(50_000)])
def test_mean_square_norm_is_one(offsets):
    codes = waves.random_features(drawn(4, 3), drawn(3, 50_000, seed=1) * 20, offsets)
    assert_close(codes.square().sum(-1), torch.ones(4), rtol=0, atol=0.02)
