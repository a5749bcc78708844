from __future__ import annotations

import math

import pytest
import reference
import rtdl_num_embeddings
import torch
from torch.testing import assert_close

from tabembed.functional.piecewise import (
    find_bins,
    pad_edges,
    piecewise_code,
    piecewise_linear,
    quantile_edges,
)


def column(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def test_numbers_out_of_range_are_in_the_outer_bins():  # H12 (i)
    edges = quantile_edges(column(2, 3, 4, 5, 6, 7, 8, 9), 5)
    assert_close(edges, column(2, 3.4, 4.8, 6.2, 7.6, 9)[:, 0])
    bins, share = find_bins(column(1, 5, 6, 10), edges[None])
    assert bins.flatten().tolist() == [0, 2, 2, 4]
    assert share.isfinite().all()


def test_the_code_of_every_place_a_number_may_have():  # H12 (ii), open ends
    code = piecewise_code(column(0, 2, 3, 4, -1), torch.tensor([[0.0, 1.0, 3.0]]).double())
    assert code[:, 0].tolist() == [[0, 0], [1, 0.5], [1, 1], [1, 1.5], [-1, 0]]


def test_a_value_that_repeats_takes_no_more_than_one_edge():  # H12 (iii)
    edges = quantile_edges(column(*[0] * 8, 1, 2), 3)
    bins, _ = find_bins(column(0, 2), edges[None])
    assert bins[0] != bins[1]
    many = quantile_edges(torch.cat((torch.zeros(9000), torch.linspace(0, 1, 1001))), 48)
    assert len(many) == 49
    assert (many[0], many[-1]) == (0, 1)
    assert 0 < many[1] < 2 / 48
    assert_close(many[1:].diff(), torch.full((47,), 1 / 47.1), rtol=0.05, atol=0)


def test_frequent_values_count_for_no_less_than_they_must():
    rows = torch.arange(1, 400).repeat_interleave(torch.arange(399, 0, -1))  # 1 is there 399 times, 399 once
    edges = quantile_edges(torch.cat((torch.zeros(rows.numel()), rows)), 48)
    share = torch.stack([(rows <= edge).double().mean() for edge in edges[1:]])
    # Half of the rows are 0 and take one edge; the others share the rest by rows, not by values.
    assert len(edges) == 49
    assert_close(share.diff(), torch.full((47,), 1 / 48, dtype=torch.float64), rtol=0, atol=0.006)


def test_counts_stand_for_rows():
    values, counts = torch.tensor([5.0, 1.0, 2.0, 9.0]), torch.tensor([7, 1, 3, 2])
    rows = values.repeat_interleave(counts)
    assert torch.equal(quantile_edges(values, 2, counts), quantile_edges(rows, 2))
    assert not torch.equal(quantile_edges(values, 2, counts), quantile_edges(values, 2))


@pytest.mark.parametrize("n_bins", [2, 7, 48])
def test_values_that_hardly_repeat_have_the_peers_edges(n_bins):
    x = torch.randn(5003, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:90] = x[90:180]
    theirs = rtdl_num_embeddings.compute_bins(x, n_bins)[0]
    assert_close(quantile_edges(x, n_bins), theirs, rtol=0, atol=1e-6)


def test_one_distinct_value_is_one_edge_with_a_share_of_0():  # H12 (iv)
    edges = quantile_edges(column(3, 3, 3), 5)
    assert edges.tolist() == [3]
    _, share = find_bins(column(3, -7, 1e300), pad_edges([edges], 4))
    assert share.flatten().tolist() == [0, 0, 0]


def test_at_an_edge_a_number_belongs_to_the_bin_above_and_at_the_last_edge_to_the_last():
    edges = pad_edges([torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.0, 2.0])], 4)
    bins, share = find_bins(torch.tensor([[0.0, 0.0], [1.0, 1.0], [3.0, 2.0]]), edges)
    assert bins.tolist() == [[0, 0], [1, 0], [1, 0]]
    assert share.tolist() == [[0, 0], [0, 0.5], [1, 1]]


def test_edges_of_few_and_of_many_values():
    assert quantile_edges(torch.tensor([[4, 1], [1, 9]]), 2).tolist() == [1, 4, 9]
    assert quantile_edges(torch.tensor([1, 2, 3, 4]), 1).tolist() == [1, 4]
    assert quantile_edges(torch.tensor([1, 2, 3, 4]), 2).tolist() == [1, 2.5, 4]
    x = torch.randn(5001, generator=torch.Generator().manual_seed(0))
    assert_close(quantile_edges(x, 100), x.quantile(torch.linspace(0, 1, 101)), rtol=0, atol=1e-6)


def drawn():
    generator = torch.Generator().manual_seed(0)
    edges = pad_edges(
        [torch.randn(n, generator=generator, dtype=torch.float64).sort().values for n in (7, 2, 5)], 6
    )
    x = 2 * torch.randn(2, 40, 3, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, 6, 5, generator=generator, dtype=torch.float64)
    return x, edges, weight


def test_code_and_linear_map_are_those_of_the_scalar_loop():
    x, edges, weight = drawn()
    code, looked_up = piecewise_code(x, edges), piecewise_linear(x, edges, weight)
    for row in range(40):
        for j, n_bins in enumerate((6, 1, 4)):
            expected = reference.piecewise_code(x[1, row, j].item(), edges[j, : n_bins + 1].tolist())
            assert_close(code[1, row, j], torch.tensor([*expected, *[0.0] * (6 - n_bins)]).double())
            assert code[1, row, j, n_bins:].tolist() == [0.0] * (6 - n_bins)
    assert_close(looked_up, torch.einsum("...jt,jtd->...jd", code, weight))
    assert_close(piecewise_linear(x, edges, weight, weight[:, 0]), looked_up + weight[:, 0])


def test_gradients_are_those_of_the_dense_product():
    x, edges, weight = drawn()
    grads = []
    for function in (
        piecewise_linear,
        lambda x, e, w: torch.einsum("...jt,jtd->...jd", piecewise_code(x, e), w),
    ):
        given = x.clone().requires_grad_(), edges, weight.clone().requires_grad_()
        grads.append(torch.autograd.grad(function(*given).sin().sum(), (given[0], given[2])))
    for own, other in zip(*grads, strict=True):
        assert_close(own, other)


@pytest.mark.parametrize("leading", [(), (0,), (2, 0), (3, 2)])
def test_any_leading_dimensions(leading):
    _, edges, weight = drawn()
    x = torch.zeros(*leading, 3, dtype=torch.float64)
    assert piecewise_linear(x, edges, weight).shape == (*leading, 3, 5)
    assert piecewise_code(x, edges).shape == (*leading, 3, 6)


def test_nan_stays_visible():
    assert (
        piecewise_linear(column(math.nan), torch.tensor([[0.0, 1.0]]).double(), torch.ones(1, 1, 2).double())
        .isnan()
        .all()
    )


@pytest.mark.parametrize(
    ("values", "n_bins", "text"),
    [
        ([], 3, "n_values must be at least 1, got 0"),
        ([1.0], 0, "n_bins must be at least 1, got 0"),
        ([1.0, math.nan], 3, "values must be finite, got nan"),
        ([1.0, -math.inf], 3, "values must be finite, got -inf"),
    ],
)
def test_bad_arguments(values, n_bins, text):
    with pytest.raises(ValueError, match=text):
        quantile_edges(torch.tensor(values), n_bins)


def test_a_device_that_is_in_force_moves_no_values():
    with torch.device("meta"):
        edges = quantile_edges(torch.arange(9.0, device="cpu"), 4)
    assert edges.tolist() == quantile_edges(range(9), 4).tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ([1, 2], "counts must be one for each of 3 values, got 2"),
        ([1, -2, 3], r"counts must be integers of at least 0, got \[1, -2, 3\]"),
        ([0.5, 1.0, 2.0], r"counts must be integers of at least 0, got \[0.5, 1.0, 2.0\]"),
    ],
)
def test_counts_that_count_no_rows(counts, text):
    with pytest.raises(ValueError, match=text):
        quantile_edges([1.0, 2.0, 3.0], 2, counts)
