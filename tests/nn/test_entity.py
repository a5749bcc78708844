from __future__ import annotations

import copy

import pytest
import reference
import torch
import torchembed
from torch import nn
from torch.testing import assert_close

from tabembed.nn import EntityEmbedding


@pytest.mark.parametrize("n", [1, 2, 3, 10, 50, 1000, 10**5])
def test_automatic_size(n):
    width = EntityEmbedding(n).embed_dim
    assert width == reference.auto_size(n) == torchembed.EntityEmbedding(n).embed_dim


def test_automatic_size_ends_at_600():
    assert EntityEmbedding(10**5).embed_dim == 600
    assert EntityEmbedding(50, 3).embed_dim == 3


@pytest.mark.parametrize("leading", [(), (5,), (2, 3, 4), (0,)])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_equals_torchembed(leading, padding_idx):
    theirs = torchembed.EntityEmbedding(9, 4, padding_idx=padding_idx)
    with torch.no_grad():
        theirs.embedding.weight.normal_(generator=torch.Generator().manual_seed(0))
        if padding_idx is not None:
            theirs.embedding.weight[padding_idx] = 0
    ours = EntityEmbedding(9, 4, padding_idx=padding_idx)
    ours.load_state_dict({"weight": theirs.embedding.weight})
    ids = torch.randint(9, leading, generator=torch.Generator().manual_seed(1))
    assert_close(ours(ids), theirs(ids), rtol=0, atol=0)
    ours(ids).sin().sum().backward()
    theirs(ids).sin().sum().backward()
    assert_close(ours.weight.grad, theirs.embedding.weight.grad)


@pytest.mark.parametrize(
    "dtype",
    [getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)],
    ids=str,
)
def test_every_integer_dtype_reaches_the_last_row(dtype):
    last = min(300, torch.iinfo(dtype).max)
    embedding = EntityEmbedding(301, 2)
    assert_close(embedding(torch.tensor([3, last], dtype=dtype)), embedding.weight[[3, last]])


def test_largest_unsigned_id_is_out_of_range():
    with pytest.raises(ValueError, match="ids must be from 0 to 4, got -1"):
        EntityEmbedding(5)(torch.tensor(2**64 - 1, dtype=torch.uint64))


@pytest.mark.parametrize("ids", [torch.tensor([0.0]), torch.tensor([True])])
def test_ids_are_integers(ids):
    with pytest.raises(TypeError, match=f"ids must be integers, got {ids.dtype}"):
        EntityEmbedding(5)(ids)


@pytest.mark.parametrize("bad", [-1, 5, 10**12, -(2**63)])
def test_id_out_of_range_is_an_error_where_it_can_be_seen(bad):
    with pytest.raises(ValueError, match=f"column 0: ids must be from 0 to 4, got {bad}"):
        EntityEmbedding(5)(torch.tensor([[1, bad], [7, 0]]))


@pytest.mark.parametrize("way", ["compile", "export", "vmap"])
def test_id_out_of_range_gives_zeros_elsewhere(way):
    embedding = EntityEmbedding(5, 3, init_std=1.0)
    good, bad = torch.tensor([1, 4, 0]), torch.tensor([1, -1, 5])
    if way == "compile":
        torch.compiler.reset()
        function = torch.compile(embedding, fullgraph=True, backend="aot_eager")
    elif way == "export":
        function = torch.export.export(embedding, (good,)).module()
    else:
        function = torch.func.vmap(embedding)
    expected = torch.stack((embedding.weight[1], torch.zeros(3), torch.zeros(3)))
    assert_close(function(bad), expected, rtol=0, atol=0)
    assert_close(function(good), embedding(good), rtol=0, atol=0)


def test_meta_device_gives_a_shape():
    assert EntityEmbedding(5, 3).to("meta")(torch.zeros(2, 2, dtype=torch.int64, device="meta")).shape == (
        2,
        2,
        3,
    )


def test_fake_tensors_give_a_shape():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert EntityEmbedding(5, 3)(torch.zeros(2, dtype=torch.int64)).shape == (2, 3)


@pytest.mark.parametrize("row", [0.1, float("nan"), float("inf")])
def test_padding_gives_zeros_whatever_stands_in_its_row(row):
    embedding = EntityEmbedding(5, 3, padding_idx=2)
    with torch.no_grad():
        embedding.weight[2] = row
    output = embedding(torch.tensor([2, 1, 2]))
    output.pow(2).sum().backward()
    assert_close(output[[0, 2]], torch.zeros(2, 3), rtol=0, atol=0)
    assert embedding.weight.grad.isfinite().all()
    assert not embedding.weight.grad[2].any()
    assert embedding.weight.grad[1].all()


def test_padding_through_custom_init_decaying_step_and_reload():
    """Case H07: padding stays exactly zero, the row of missing (1) is trained."""
    embedding = EntityEmbedding(6, 4, padding_idx=0)
    assert not embedding.weight[0].any()
    nn.init.normal_(embedding.weight, 0, 0.1)
    ids = torch.tensor([1, 3, 4, 5, 1, 0])
    before = embedding.weight.detach().clone()
    optimizer = torch.optim.AdamW(embedding.parameters(), lr=0.1, weight_decay=0.5)
    embedding(ids).sum().backward()
    assert embedding.weight.grad[1].all()
    optimizer.step()
    assert (embedding.weight[1] != before[1]).all()
    fresh = EntityEmbedding(6, 4, padding_idx=0)
    fresh.load_state_dict(copy.deepcopy(embedding.state_dict()))
    for module in (embedding, fresh):
        assert not module(ids)[5].any()
        assert module(ids)[:5].all()


def test_init_std_and_padding_of_the_start():
    weight = EntityEmbedding(5000, 20, init_std=0.5, padding_idx=1, seed=0).weight
    assert weight.std().item() == pytest.approx(0.5, rel=0.02)
    assert not weight[1].any()
    assert EntityEmbedding(5000, 20, seed=0).weight.std().item() == pytest.approx(0.01, rel=0.02)


def test_dropout_is_for_training_alone():
    embedding = EntityEmbedding(4, 1000, dropout=0.25, init_std=1.0)
    ids = torch.tensor([1, 2])
    dropped = embedding(ids)
    assert (dropped == 0).double().mean().item() == pytest.approx(0.25, abs=0.06)
    kept = dropped != 0
    assert_close(dropped[kept], embedding.weight[ids][kept] / 0.75)
    assert_close(embedding.eval()(ids), embedding.weight[ids])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"num_categories": 0}, ValueError, "num_categories must be at least 1, got 0"),
        ({"num_categories": 2.5}, TypeError, "num_categories must be an integer, got 2.5"),
        ({"embed_dim": 0}, ValueError, "embed_dim must be at least 1, got 0"),
        ({"embed_dim": True}, TypeError, "embed_dim must be an integer, got True"),
        ({"padding_idx": -1}, ValueError, "padding_idx must be at least 0, got -1"),
        ({"padding_idx": 5}, ValueError, "padding_idx must be below 5, got 5"),
        ({"init_std": -0.1}, ValueError, "init_std must be finite and at least 0, got -0.1"),
        ({"init_std": float("nan")}, ValueError, "init_std must be finite and at least 0, got nan"),
        ({"init_std": "1"}, TypeError, "init_std must be a number, got '1'"),
        ({"dropout": 1.0}, ValueError, r"dropout must be at least 0 and below 1, got 1\.0"),
        ({"dropout": None}, TypeError, "dropout must be a number, got None"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
        ({"seed": "a"}, TypeError, "seed must be an integer, got 'a'"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        EntityEmbedding(**{"num_categories": 5, **arguments})
