from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from tabembed import (
    CategoricalList,
    EntityEmbedding,
    MultiCategoricalEmbedding,
    PiecewiseLinearEmbedding,
    SequenceEmbedding,
    SequenceEncoder,
    TableEmbedding,
    TableEncoder,
)
from tabembed.nn.grow import grow_rows
from tabembed.schema import UNKNOWN

OPTIMISERS = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1),
    "AdamW fused": lambda p: torch.optim.AdamW(p, lr=0.05, fused=True),
    "Adam amsgrad": lambda p: torch.optim.Adam(p, lr=0.05, amsgrad=True),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.05, momentum=0.9, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
}


def steps(module, optimiser, batches):
    for ids in batches:
        optimiser.zero_grad()
        (module(ids) - 1).square().mul(torch.arange(1, ids.numel() + 1).view(*ids.shape, 1)).sum().backward()
        optimiser.step()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_goes_on_as_over_a_table_that_had_the_rows_from_the_start(name):
    """A row that no step has met has moments of zero: that is what a new row gets."""
    draw = torch.Generator().manual_seed(0)
    before = [torch.randint(0, 7, (5,), generator=draw) for _ in range(6)]
    after = [torch.randint(0, 10, (5,), generator=draw) for _ in range(6)]
    grown, whole = EntityEmbedding(7, 3, seed=0), EntityEmbedding(10, 3, seed=0)
    with torch.no_grad():
        whole.weight[:7] = grown.weight
    optimisers = [OPTIMISERS[name](module.parameters()) for module in (grown, whole)]
    for module, optimiser in zip((grown, whole), optimisers, strict=True):
        steps(module, optimiser, before)
    assert torch.equal(grown.weight, whole.weight[:7])
    parameter, groups = grown.weight, optimisers[0].param_groups
    grown.grow(10, like=UNKNOWN, optimizer=optimisers[0])
    with torch.no_grad():
        whole.weight[7:] = whole.weight[UNKNOWN]
    assert grown.weight is parameter
    assert groups[0]["params"][0] is parameter
    assert torch.equal(grown.weight, whole.weight)
    for module, optimiser in zip((grown, whole), optimisers, strict=True):
        steps(module, optimiser, after)
    assert torch.equal(grown.weight, whole.weight)
    for kept, theirs in zip(*(o.state_dict()["state"].get(0, {}).values() for o in optimisers), strict=True):
        assert kept is theirs is None or torch.equal(kept, theirs)


def test_an_optimiser_that_was_not_told_does_not_fit():
    module = EntityEmbedding(7, 3)
    optimiser = torch.optim.AdamW(module.parameters())
    steps(module, optimiser, [torch.tensor([1, 2])])
    module.grow(9)
    with pytest.raises(RuntimeError):
        steps(module, optimiser, [torch.tensor([1, 8])])


def test_pending_gradients_stay():
    module, whole = EntityEmbedding(4, 2, seed=0), EntityEmbedding(6, 2, seed=0)
    for one in (module, whole):
        one(torch.tensor([1, 3, 3])).sum().backward()
    module.grow(6)
    assert torch.equal(module.weight.grad, whole.weight.grad)
    module(torch.tensor([5])).sum().backward()
    whole(torch.tensor([5])).sum().backward()
    assert torch.equal(module.weight.grad, whole.weight.grad)


def test_new_rows_start_with_the_mean_or_like_an_id():
    module = EntityEmbedding(5, 3, padding_idx=0, seed=0)
    rows = module.weight.detach().clone()
    like, mean = copy.deepcopy(module), copy.deepcopy(module)
    like.grow(7, like=4)
    mean.grow(7)
    assert torch.equal(like.weight[:5], rows)
    assert torch.equal(like.weight[5:], rows[[4, 4]])
    torch.testing.assert_close(mean.weight[5:].detach(), rows[1:].mean(0).expand(2, -1))
    assert mean.num_categories == 7
    assert torch.equal(mean(torch.tensor([6])), mean.weight[[6]])
    with pytest.raises(ValueError, match="ids must be from 0 to 6, got 7"):
        mean(torch.tensor([7]))
    module.grow(5)
    assert torch.equal(module.weight, rows)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_growing_keeps_dtype_and_what_is_frozen(dtype):
    module = EntityEmbedding(5, 3).to(dtype).requires_grad_(False)
    module.grow(6)
    assert (module.weight.dtype, module.weight.requires_grad) == (dtype, False)


def test_several_columns_at_once():
    module = MultiCategoricalEmbedding([4, 6, 5], [2, 3, 4], padding_idx=0, seed=0)
    optimiser, rows = torch.optim.AdamW(module.parameters()), [w.detach().clone() for w in module.weights]
    module.grow([4, 8, 6], like=2, optimizer=optimiser)
    assert module.embedding_dims() == [(4, 2), (8, 3), (6, 4)]
    for old, new in zip(rows, module.weights, strict=True):
        assert torch.equal(new[: len(old)], old)
        assert torch.equal(new[len(old) :], old[2].expand(len(new) - len(old), -1))
    vectors = module(torch.tensor([[1, 7, 5]]))
    assert torch.equal(vectors, torch.cat([rows[0][1], rows[1][2], rows[2][2]])[None])
    vectors.sum().backward()
    optimiser.step()
    assert not torch.equal(module.weights[1][7], rows[1][2])


TABLE = pd.DataFrame(
    {
        "city": ["Rome", "Oslo", "Rome", None, "Lima", "Lima"],
        "tags": ["a|b", "b", "", None, "c", "a"],
        "km": [1.0, 2.0, None, 4.0, 5.0, 6.0],
    }
)
NEW = pd.DataFrame({"city": ["Paris", "Rome"], "tags": ["z|a", "z"], "km": [3.0, 1.0]})


@pytest.fixture
def encoder():
    return TableEncoder({"tags": CategoricalList("|")}).fit(TABLE)


def test_a_grown_module_gives_what_it_gave(encoder):
    module = TableEmbedding(encoder.schema_, numeric=PiecewiseLinearEmbedding, seed=0)
    before = [module(**encoder.transform(rows).tensors()) for rows in (TABLE, NEW)]
    dims = module.embedding_dims()
    more = encoder.grow({"city": NEW["city"], "tags": ["z", "y"]})
    module.grow(more.schema_)
    for rows, vectors in zip((TABLE, NEW), before, strict=True):
        assert torch.equal(module(**more.transform(rows).tensors()), vectors)
    assert module.embedding_dims() == dims
    assert module.schema is more.schema_
    assert {name: len(module.weight(name)) for name in ("city", "tags")} == {"city": 7, "tags": 8}
    fresh = TableEmbedding(more.schema_, numeric=PiecewiseLinearEmbedding, embed_dims={"city": 2, "tags": 2})
    fresh.load_state_dict(module.state_dict())
    assert torch.equal(fresh(**more.transform(NEW).tensors()), before[1])


def test_a_grown_module_learns_the_new_rows_with_the_old_optimiser(encoder):
    module = TableEmbedding(encoder.schema_, seed=0)
    optimiser = torch.optim.AdamW(module.param_groups(0.01, 0.0))

    def step(batch):
        optimiser.zero_grad()
        (module(**batch.tensors()) - 1).square().sum().backward()
        optimiser.step()

    step(encoder.transform(TABLE))
    more = encoder.grow({"city": ["Paris"], "tags": ["z"]})
    module.grow(more.schema_, optimizer=optimiser)
    rows = {name: module.weight(name).detach().clone() for name in ("city", "tags")}
    step(more.transform(NEW))
    for name, old in rows.items():
        assert not torch.equal(module.weight(name)[-1], old[-1])
        assert optimiser.state[module.weight(name)]["exp_avg"].shape == old.shape


def test_sequences_grow_in_both_halves():
    events = pd.DataFrame({"who": [1, 1, 2, 2], "when": [1, 2, 3, 4]})
    events["shop"], events["end"] = ["a", "b", "a", "b"], ["x", "y", "x", "y"]
    encoder = SequenceEncoder("who", "when", ["shop", "end"], observed=["end"]).fit(events)
    module = SequenceEmbedding(encoder.schema_, d_model=16, num_layers=1, seed=0).eval()
    new = events.assign(shop=["q", "b", "r", "q"], end=["z", "z", "x", "z"])
    before = module(**encoder.transform(new).tensors())
    more = encoder.grow({"shop": new["shop"], "end": ["z"]})
    module.grow(more.schema_)
    assert torch.equal(module(**more.transform(new).tensors()), before)
    assert len(module.weight("shop")) == 7
    assert len(module.weight("end")) == 6
    assert module.tokens.schema is module.tokens.parts["known"].schema is more.schema_
    with pytest.raises(ValueError, match="schema must be that of the same fit, grown; got another fit's"):
        module.grow(replace(more.schema_, span=9.0))
    with pytest.raises(
        TypeError, match="schema must be the schema_ of a grown SequenceEncoder, got TableSchema"
    ):
        module.grow(more.schema_.rows)


def test_the_schema_must_be_of_the_same_fit(encoder):
    module = TableEmbedding(encoder.schema_)
    other = TableEncoder({"tags": CategoricalList("|")}).fit(pd.concat([TABLE, NEW]))
    fewer = TableEncoder(["city", "km"]).fit(TABLE)
    with pytest.raises(ValueError, match="column 'city': schema must be that of the same fit, grown"):
        module.grow(other.schema_)
    km = replace(encoder.schema_["km"], centre=0.0)
    columns = tuple(km if column.name == "km" else column for column in encoder.schema_.columns)
    with pytest.raises(ValueError, match="column 'km': schema must be that of the same fit, grown"):
        module.grow(replace(encoder.schema_, columns=columns))
    with pytest.raises(ValueError, match=r"schema must have the columns \['city', 'tags', 'km'\], got"):
        module.grow(fewer.schema_)
    with pytest.raises(
        TypeError, match="schema must be the schema_ of a grown TableEncoder, got TableEncoder"
    ):
        module.grow(encoder)


def test_what_cannot_grow_stays_as_it_is():
    module = MultiCategoricalEmbedding([4, 6])
    with pytest.raises(ValueError, match=r"cardinalities\[1\] must be at least 6, got 5"):
        module.grow([5, 5])
    with pytest.raises(ValueError, match="cardinalities must have 2 entries, one for each column, got 1"):
        module.grow([5])
    with pytest.raises(ValueError, match="like must be below 4, got 4"):
        module.grow([5, 6], like=4)
    with pytest.raises(ValueError, match="num_categories must be at least 4, got 3"):
        EntityEmbedding(4).grow(3)
    assert module.cardinalities == (4, 6)
    assert [len(weight) for weight in module.weights] == [4, 6]


def test_state_that_is_not_kept_by_row_is_refused():
    module = MultiCategoricalEmbedding([4, 6], [3, 2])
    optimiser = torch.optim.LBFGS(module.parameters())

    def closure():
        optimiser.zero_grad()
        loss = module(torch.tensor([[1, 2]])).square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    with pytest.raises(ValueError, match="optimizer must keep its state by row, got LBFGS, whose 'd' has"):
        module.grow([5, 7], optimizer=optimiser)
    assert [len(weight) for weight in module.weights] == [4, 6]


def test_one_row_is_appended_like_a_loop():
    weight = torch.nn.Parameter(torch.arange(6.0).view(3, 2))
    grow_rows(weight, 1, torch.tensor([7.0, 8.0]))
    assert weight.tolist() == [[0, 1], [2, 3], [4, 5], [7, 8]]
    np.testing.assert_array_equal(weight.detach().numpy()[-1], [7, 8])
