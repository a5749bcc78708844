from __future__ import annotations

import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.functional.gather import columns, columns_outside, gather, look_up


def drawn(shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def some_ids(shapes, *leading, beyond=2):
    generator = torch.Generator().manual_seed(1)
    ends = [(-beyond, n + beyond) for n, _ in shapes]
    return torch.stack([torch.randint(*pair, leading, generator=generator) for pair in ends], -1)


SHAPES = [(5, 1), (12, 3), (1, 4)]


@pytest.mark.parametrize("kind", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("leading", [(), (0,), (7,), (2, 3)], ids=str)
@pytest.mark.parametrize("beyond", [0, 2])  # all inside, and not
def test_equals_the_loop(beyond, leading, kind):
    weights, ids = drawn(SHAPES), some_ids(SHAPES, *leading, beyond=beyond).to(kind)
    tables = [weight.tolist() for weight in weights]
    by_hand = [reference.multi(row, tables) for row in ids.reshape(-1, 3).tolist()]
    expected = torch.tensor(by_hand, dtype=torch.float64).reshape(*leading, 8)
    assert torch.equal(gather(weights, ids), expected)
    assert torch.equal(torch.cat(columns(weights, ids), -1), expected)


def test_a_row_outside_gives_zeros_and_takes_no_gradient_whatever_stands_there():
    weight = torch.full((3, 2), torch.nan).requires_grad_()
    output = gather([weight], torch.tensor([[-1], [3], [2**63 - 1], [-(2**63)]]))
    assert torch.equal(output, torch.zeros(4, 2))
    (grad,) = torch.autograd.grad(output, weight, torch.full((4, 2), torch.nan))
    assert torch.equal(grad, torch.zeros(3, 2))


def test_gradients_are_the_sums_of_the_rows():
    weights = [weight.requires_grad_() for weight in drawn(SHAPES)]
    ids = some_ids(SHAPES, 30)
    direction = torch.linspace(-1, 1, 240, dtype=torch.float64).view(30, 8)
    got = torch.autograd.grad(gather(weights, ids), weights, direction)
    parts = direction.split([1, 3, 4], 1)
    for j, (n, width) in enumerate(SHAPES):
        sums = torch.zeros(n, width, dtype=torch.float64)
        for i, part in zip(ids[:, j].tolist(), parts[j], strict=True):
            if 0 <= i < n:
                sums[i] += part
        assert_close(got[j], sums)


def test_a_table_without_rows():
    empty, other = torch.zeros(0, 2).requires_grad_(), torch.ones(1, 1)
    for ids in (torch.tensor([[0, 0], [-1, 0]]), torch.zeros(0, 2, dtype=torch.int64)):
        output = gather([empty, other], ids)
        assert torch.equal(output, torch.tensor([0.0, 0.0, 1.0]).repeat(len(ids), 1))
        assert torch.autograd.grad(output.sum(), empty)[0].shape == (0, 2)


def test_derivatives_of_first_and_second_order():
    weights = [weight.requires_grad_() for weight in drawn(SHAPES)]
    ids = some_ids(SHAPES, 4)
    assert torch.autograd.gradcheck(lambda *w: gather(w, ids), weights, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda *w: gather(w, ids).sin(), weights)


def test_vmap_over_ids_over_tables_and_over_both():
    weights, ids = drawn([(3, *shape) for shape in SHAPES]), some_ids(SHAPES, 3, 5)
    one = [weight[0] for weight in weights]
    assert torch.equal(torch.func.vmap(lambda i: gather(one, i))(ids), gather(one, ids))
    each = [gather([w[k] for w in weights], ids[k]) for k in range(3)]
    assert torch.equal(torch.func.vmap(gather)(weights, ids), torch.stack(each))
    same = [gather([w[k] for w in weights], ids[0]) for k in range(3)]
    assert torch.equal(torch.func.vmap(lambda w: gather(w, ids[0]))(weights), torch.stack(same))


@pytest.mark.parametrize("way", ["compile", "export"])
def test_outside_is_seen_where_numbers_cannot_be_read(way):
    class Gather(torch.nn.Module):
        def forward(self, ids, *weights):
            return gather(weights, ids)

    weights, ids = drawn(SHAPES), some_ids(SHAPES, 9)
    if way == "compile":
        torch.compiler.reset()
        function = torch.compile(Gather(), fullgraph=True, backend="aot_eager")
    else:
        function = torch.export.export(Gather(), (ids, *weights)).module()
    assert torch.equal(function(ids, *weights), gather(weights, ids))


def test_as_many_columns_as_tables():
    with pytest.raises(ValueError, match="argument . is (shorter|longer)"):
        gather(drawn(SHAPES), torch.zeros(2, 2, dtype=torch.int64))


def test_columns_outside():
    ids = torch.tensor([[[0, -1, 0, 0]], [[4, 1, 5, 0]]])
    assert columns_outside(ids, [5, 5, 5, 0]) == [False, True, True, True]
    assert columns_outside(ids[:0], [5, 5, 5, 0]) == [False, False, False, True]


def test_one_table():
    weight, ids = drawn([(4, 3)])[0], torch.tensor([3, -1, 4])
    blank = torch.tensor([False, True, True])
    assert torch.equal(look_up(ids, weight, blank), gather([weight], ids[:, None]))
    assert torch.equal(look_up(ids, weight[:0], blank | True), torch.zeros(3, 3).double())


def test_tables_known_to_hold_every_id_are_looked_up_at_once():
    weights, ids = drawn(SHAPES), some_ids(SHAPES, 7, beyond=0)
    ids[2, 1] = -1
    for outside in (None, [True] * 3, columns_outside(ids, [5, 12, 1])):
        assert torch.equal(gather(weights, ids, outside), gather(weights, ids))
        assert torch.equal(torch.cat(columns(weights, ids, outside), -1), gather(weights, ids))
    with pytest.raises(IndexError):
        gather(weights, ids, [False] * 3)
    with pytest.raises(ValueError, match="argument . is (shorter|longer)"):
        gather(weights, ids, [True])
