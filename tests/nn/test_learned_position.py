from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torchembed
from torch.testing import assert_close

from tabembed.functional.position import row_positions
from tabembed.nn.learned_position import LearnedPositionalEmbedding


def test_equals_torchembed_where_it_is_right():
    ours, theirs = (
        LearnedPositionalEmbedding(20, 6),
        torchembed.LearnedPositionalEmbedding(20, 6, dropout=0.0),
    )
    (table,) = theirs.parameters()
    with torch.no_grad():
        ours.weight.copy_(table)
    x = torch.randn(3, 5, 6)
    assert_close(ours(x), theirs(x), rtol=0, atol=0)
    assert_close(ours(x, offset=7), theirs(x, offset=7), rtol=0, atol=0)


def test_adds_the_row_of_each_position():
    module, x = LearnedPositionalEmbedding(10, 4, init_std=1.0, seed=0), torch.randn(2, 3, 4)
    rows = module.weight
    assert_close(module(x), x + rows[:3], rtol=0, atol=0)
    assert_close(module(x[0], offset=7), x[0] + rows[7:], rtol=0, atol=0)
    at = torch.tensor([[5, 5, 0], [9, 1, 2]], dtype=torch.uint8)
    assert_close(module(x, positions=at), x + rows[at.long()], rtol=0, atol=0)
    assert_close(module(x, positions=at[1]), x + rows[at[1].long()], rtol=0, atol=0)
    offset = torch.tensor([7, 2])
    assert_close(module(x, offset=offset), x + torch.stack((rows[7:], rows[2:5])), rtol=0, atol=0)
    assert_close(module(x[:, None].expand(2, 3, 3, 4), offset=offset)[:, 2], module(x, offset=offset))
    assert module(x[:, :0]).shape == (2, 0, 4)


def test_streaming_equals_the_full_pass():
    module, x = LearnedPositionalEmbedding(10, 4, seed=0), torch.randn(2, 6, 4)
    parts = [module(x[:, :4]), module(x[:, 4:5], offset=4), module(x[:, 5:], offset=torch.tensor([5, 5]))]
    assert_close(torch.cat(parts, 1), module(x), rtol=0, atol=0)


def test_padding_on_either_side_changes_nothing():
    module, events = LearnedPositionalEmbedding(5, 4, seed=0), torch.randn(3, 4)
    for mask in ([False, False, True, True, True], [True, True, True, False, False]):
        mask = torch.tensor(mask)
        padded = torch.full((5, 4), math.nan)
        padded[mask] = events
        assert_close(module(padded, positions=row_positions(mask))[mask], module(events), rtol=0, atol=0)


def test_the_padding_position_adds_nothing_and_learns_nothing():
    module, x = LearnedPositionalEmbedding(6, 4, padding_idx=1, init_std=1.0), torch.randn(2, 3, 4)
    assert module.weight[1].tolist() == [0.0] * 4
    with torch.no_grad():
        module.weight.normal_()
        module.weight[1] = math.nan  # whatever an initialisation or an optimiser did
    encoded = module(x)
    assert_close(encoded[:, 1], x[:, 1], rtol=0, atol=0)
    encoded.sum().backward()
    assert module.weight.grad.sum(1).tolist() == [8.0, 0.0, 8.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("arguments", [{"offset": 4}, {"positions": torch.tensor([0, 6, 1])}])
def test_past_the_end_is_refused_by_name(arguments):
    module = LearnedPositionalEmbedding(6, 4)
    with pytest.raises(ValueError, match="^positions must be from 0 to 5 in a table of 6, got 6$"):
        module(torch.zeros(2, 3, 4), **arguments)
    with pytest.raises(ValueError, match="^positions must be from 0 to 5 in a table of 6, got -1$"):
        module(torch.zeros(2, 3, 4), offset=-1)


def test_where_nothing_can_be_read_what_is_past_the_end_adds_nothing():
    module, x = LearnedPositionalEmbedding(6, 4), torch.randn(2, 3, 4)
    positions = torch.tensor([-1, 2, 6])
    expected = x.clone()
    expected[:, 1] += module.weight[2].detach()
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")(x, positions=positions)
    assert_close(compiled, expected)
    compiled.sum().backward()
    assert module.weight.grad.abs().sum(1).nonzero().flatten().tolist() == [2]
    mapped = torch.func.vmap(lambda p: module(x[0], positions=p))(positions.expand(2, 3))
    assert_close(mapped[1], expected[0])


def test_drops_the_sum_while_training():
    module, x = LearnedPositionalEmbedding(600, 4, dropout=0.5, seed=0), torch.ones(600, 4)
    assert 0.3 < (module(x) == 0).double().mean() < 0.7
    assert_close(module.eval()(x), x + module.weight)


def test_rows_are_drawn_with_the_deviation():
    assert_close(LearnedPositionalEmbedding(2000, 32, seed=0).weight.std().item(), 0.02, rtol=0.02, atol=0)
    wide = LearnedPositionalEmbedding(2000, 32, init_std=1.5, seed=0)
    assert_close(wide.weight.std().item(), 1.5, rtol=0.02, atol=0)


def test_a_state_of_another_length_is_refused():
    state = LearnedPositionalEmbedding(128, 4).state_dict()
    with pytest.raises(RuntimeError, match=r"size mismatch for weight"):
        LearnedPositionalEmbedding(256, 4).load_state_dict(state)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="^num_positions must be at least 1, got 0$"):
        LearnedPositionalEmbedding(0, 4)
    with pytest.raises(ValueError, match="^padding_idx must be below 4, got 7$"):
        LearnedPositionalEmbedding(4, 4, padding_idx=7)
    with pytest.raises(ValueError, match="^init_std must be finite and at least 0, got -1$"):
        LearnedPositionalEmbedding(4, 4, init_std=-1)
    module = LearnedPositionalEmbedding(6, 4)
    with pytest.raises(ValueError, match=r"^x must have 4 as its last dimension, got shape \(2, 1\)$"):
        module(torch.zeros(2, 1))
    for dtype in (torch.float16, torch.float32, torch.float64, torch.bool):
        with pytest.raises(TypeError, match=rf"^positions must be integers, got {dtype}$"):
            module(torch.zeros(2, 4), positions=torch.zeros(2, dtype=dtype))
    with pytest.raises(
        TypeError, match=r"^positions must be a tensor, got list: torch.tensor\(positions\) makes one$"
    ):
        module(torch.zeros(2, 4), positions=[0, 1])
    with pytest.raises(ValueError, match=r"^x must have shape \(\*, n_steps, 4\), got \(4,\)$"):
        module(torch.zeros(4))
    with pytest.raises(ValueError, match="^offset must be 0 where positions are given, got 1"):
        module(torch.zeros(2, 4), positions=torch.arange(2), offset=1)
    with torch.device("meta"):
        module = LearnedPositionalEmbedding(6, 4)
    message = "^LearnedPositionalEmbedding must be materialised, got parameters on meta: "
    with pytest.raises(ValueError, match=message):
        module(torch.zeros(2, 4))
    assert module(torch.zeros(2, 4, device="meta")).is_meta


def test_numpys_integers_are_pythons():
    module = LearnedPositionalEmbedding(np.int64(6), np.int8(4), padding_idx=np.int8(1))
    assert module.extra_repr() == "6, 4, padding_idx=1"


def test_padding_at_0_leaves_the_first_row_to_learn():
    module, mask = LearnedPositionalEmbedding(6, 4, padding_idx=0), torch.tensor([False, True, True])
    places = torch.where(mask, row_positions(mask) + 1, 0)
    module(torch.zeros(3, 4), positions=places).sum().backward()
    assert module.weight.grad.sum(1).tolist() == [0.0, 4.0, 4.0, 0.0, 0.0, 0.0]
