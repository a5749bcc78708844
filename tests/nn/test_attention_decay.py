from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tabembed.nn import RelativeDecay
from tabembed.nn.attention_decay import faster, reach


@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize(("dim", "half_lives"), [(2, 3.0), (10, (0.5, 400.0)), (14, (3.6e12, 2.6e15))])
def test_rates_that_choose_blocks_are_those_of_the_module(dim, half_lives, learnable):
    decay = RelativeDecay(dim, half_lives=half_lives, learnable=learnable)
    known = torch.tensor(decay.known_rates(), dtype=torch.float64)
    assert_close(known, decay.rates().detach(), rtol=1e-6, atol=0)
    assert max(decay.known_rates()) == pytest.approx(decay.largest_rate(), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_a_pair_is_fast_where_a_block_is_longer_than_it_reaches(dtype):
    span = 2 * reach(dtype)
    assert faster([0.51, 0.49, 0.0], span, dtype) == (0,)
