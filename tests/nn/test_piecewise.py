from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import reference
import rtdl_num_embeddings
import torch
from torch.testing import assert_close

from tabembed import TableEncoder
from tabembed.nn import PiecewiseLinearEmbedding

# Columns with different numbers of bins, one of them with a single bin.
EDGES = [
    torch.tensor([-2.0, -1.1, -0.3, 0.2, 0.9, 2.5]),
    torch.tensor([-1.0, 1.0]),
    torch.tensor([-0.5, 0.1, 0.4, 3.0]),
]


def pair(version, activation, d=7):
    """The peer and ours, with one set of weights; the peer keeps a column's last bin in the last place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = rtdl_num_embeddings.PiecewiseLinearEmbeddings(
            EDGES, d, activation=activation, version=version
        )
    torch.nn.init.normal_(theirs.linear.weight)
    ours = PiecewiseLinearEmbedding(EDGES, d, version=version, activation=activation)
    linear = theirs.linear if version == "A" else theirs.linear0
    state = {"edges": ours.edges, "weight": in_order(theirs.linear.weight), "bias": linear.bias}
    state |= {"slope": theirs.linear0.weight} if version == "B" else {}
    ours.load_state_dict({**state, "missing": torch.full((3, d), 9.0)})
    return theirs.double(), ours.double()


def in_order(weight):
    weight = weight.clone()
    for j, edges in enumerate(EDGES):
        weight[j, len(edges) - 2] = weight[j, -1].clone()
        weight[j, len(edges) - 1 :] = 0  # bins that the column does not have
    return weight


@pytest.mark.parametrize("activation", [False, True])
@pytest.mark.parametrize("version", ["A", "B"])
def test_equals_rtdl(version, activation):
    torch.manual_seed(0)
    theirs, ours = pair(version, activation)
    x = 2 * torch.randn(65, 3, dtype=torch.float64)
    x, y = x.clone().requires_grad_(), x.clone().requires_grad_()
    assert x.max() > 3  # beyond the edges, too
    assert_close(ours(x), theirs(y), rtol=1e-6, atol=1e-6)
    assert_close(ours.float()(x.float()), theirs.float()(y.float()), rtol=1e-5, atol=1e-5)
    theirs, ours = theirs.double(), ours.double()
    ours(x).sin().sum().backward()
    theirs(y).sin().sum().backward()
    pairs = [(ours.weight.grad, in_order(theirs.linear.weight.grad)), (x.grad, y.grad)]
    if version == "B":
        pairs += [(ours.slope.grad, theirs.linear0.weight.grad), (ours.bias.grad, theirs.linear0.bias.grad)]
    else:
        pairs += [(ours.bias.grad, theirs.linear.bias.grad)]
    for own, other in pairs:
        assert other.abs().max() > 0.1
        assert_close(own, other, rtol=1e-6, atol=1e-6)


def test_version_b_starts_as_a_linear_embedding_and_learns_its_bins():
    module = PiecewiseLinearEmbedding(EDGES, 4, seed=0)
    x = torch.randn(8, 3)
    assert_close(module(x), x.unsqueeze(-1) * module.slope + module.bias)
    module(x).sum().backward()
    assert module.weight.grad.abs().max() > 0
    with_relu = PiecewiseLinearEmbedding(EDGES, 4, activation=True, seed=0)
    with_relu(x).sum().backward()
    assert with_relu.weight.grad.abs().max() > 0  # at 0 there would be none


@pytest.mark.parametrize(("extrapolation", "outside"), [("linear", (4.0, -1.0)), ("clip", (3.0, 0.0))])
@pytest.mark.parametrize("version", ["A", "B"])
def test_beyond_the_edges(version, extrapolation, outside):
    module = PiecewiseLinearEmbedding([[0, 1, 3]], 2, version=version, extrapolation=extrapolation, seed=0)
    torch.nn.init.normal_(module.weight, generator=torch.Generator().manual_seed(0))
    found = module(torch.tensor([[4.0], [-1.0]]))[:, 0]
    weight, bias = module.weight[0].tolist(), module.bias[0].tolist()
    for row, x in zip(found.tolist(), outside, strict=True):
        if version == "A":
            expected = reference.piecewise_a(x, [0, 1, 3], weight, bias)
        else:
            expected = reference.piecewise_b(x, [0, 1, 3], weight, module.slope[0].tolist(), bias)
        assert row == pytest.approx(expected, abs=1e-6)


def test_bins_that_a_column_lacks_change_nothing():
    torch.manual_seed(0)
    small, large = (PiecewiseLinearEmbedding(EDGES[:1], 4, n_bins=n, version="A", seed=0) for n in (None, 9))
    assert (small.n_bins, large.n_bins) == (5, 9)
    with torch.no_grad():
        large.weight.normal_()
        small.weight.copy_(large.weight[:, :5])
        large.bias.copy_(small.bias)
    x = 3 * torch.randn(50, 1)
    assert_close(large(x), small(x), rtol=0, atol=1e-6)
    large(x).sum().backward()
    assert (large.weight.grad[:, 5:] == 0).all()


@pytest.mark.parametrize("version", ["A", "B"])
def test_a_column_of_one_value_is_finite_and_constant_in_its_code(version):  # H12 (iv)
    module = PiecewiseLinearEmbedding([[5.0]], 3, version=version, seed=0)
    torch.nn.init.ones_(module.weight)
    x = torch.tensor([[5.0], [7.0], [-1e30]])
    line = 0 if version == "A" else x.unsqueeze(-1) * module.slope
    assert_close(module(x), (line + module.bias).expand(3, 1, 3))
    module(x).sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters() if p is not module.missing)


@pytest.mark.parametrize("under", [0.0, math.nan, math.inf])
def test_missing_gives_the_learned_row_and_nothing_leaks(under):
    module = PiecewiseLinearEmbedding(EDGES[:2], 3, version="A", seed=0)
    values = torch.tensor([[under, 0.5], [0.6, under], [under, under]], requires_grad=True)
    missing = torch.tensor([[True, False], [False, True], [True, True]])
    output = module(values, missing)
    assert_close(output[missing], module.missing[[0, 1, 0, 1]], rtol=0, atol=0)
    output.sum().backward()
    assert_close(module.bias.grad, torch.ones(2, 3))
    share = (0.6 - 0.2) / 0.7
    expected = torch.tensor([1.0, 1.0, 1.0, share, 0.0])
    assert_close(module.weight.grad[0], expected[:, None].expand(5, 3))
    assert_close(module.missing.grad, torch.full((2, 3), 2.0))
    assert_close(values.grad[missing], torch.zeros(4))
    assert values.grad[~missing].all()


def test_nan_without_the_flag_stays_visible():
    assert PiecewiseLinearEmbedding([[0, 1]], 2)(torch.tensor([[math.nan]])).isnan().all()


def test_whole_numbers_and_float64_are_taken():
    module = PiecewiseLinearEmbedding([[0, 1, 9]], 2, version="A", seed=0)
    assert_close(module(torch.tensor([[5]])), module(torch.tensor([[5.0]])))
    assert module(torch.tensor([[5.0]], dtype=torch.float64)).dtype == torch.float32


def test_half_precision_leaves_the_edges_and_takes_float32_values():
    edges = [[1.0, 1.0 + 2**-12, 2.0]]
    module = PiecewiseLinearEmbedding(edges, 4, version="A", seed=0).half()
    assert (module.edges.dtype, module.weight.dtype) == (torch.float32, torch.float16)
    x = torch.tensor([[1.0 + 2**-13]])  # half of the first bin, which float16 cannot tell from 1
    expected = module.bias[0].float() + 0.5 * module.weight[0, 0].float()
    assert_close(module(x)[0, 0], expected.half(), rtol=0, atol=0)


def test_weights_fit_modules_with_other_edges_and_bring_their_own():
    one = PiecewiseLinearEmbedding([[0, 1, 3], [5.0]], 2, n_bins=4, version="A", seed=0)
    two = PiecewiseLinearEmbedding([[1, 2, 3, 4, 5], [0, 9]], 2, n_bins=4, version="A", seed=1)
    x = torch.tensor([[0.5, 4.0], [2.5, 6.0]])
    assert (one(x) - two(x)).abs().min() > 1e-3
    two.load_state_dict(one.state_dict(), strict=True)
    assert_close(two(x), one(x), rtol=0, atol=0)


def test_set_edges_moves_them_for_good():
    module = PiecewiseLinearEmbedding([[0, 1, 3]], 2, n_bins=3, version="A", seed=0)
    weight = module.weight.clone()
    module.set_edges([torch.tensor([0.0, 2.0, 4.0, 6.0])])
    assert module.edges.tolist() == [[0, 2, 4, 6]]
    assert_close(module.weight, weight, rtol=0, atol=0)
    module.set_edges([[1, 2]])
    module.reset_parameters()
    assert module.edges.tolist() == [[1, 2, 2, 2]]


@pytest.mark.parametrize("how", ["copy", "meta", "assign"])
def test_loaded_edges_stay_when_weights_are_drawn_anew(how):
    source = PiecewiseLinearEmbedding([[1, 2, 4]], 2, seed=1)
    with torch.device("cpu" if how == "copy" else "meta"):
        module = PiecewiseLinearEmbedding([[0, 5]], 2, n_bins=2, seed=1)
    module.load_state_dict(source.state_dict(), assign=how != "copy")
    if how == "meta":  # loaded, then moved by hand, as a wrapper may do
        module = module.to("meta").to_empty(device="cpu")
    with torch.no_grad():
        source.edges.zero_()  # what was loaded is no view of it
        module.edges.fill_(7)
    module.reset_parameters()
    assert module.edges.tolist() == [[1, 2, 4]]
    with pytest.raises(RuntimeError, match="size mismatch for edges"):
        module.load_state_dict(PiecewiseLinearEmbedding([[0, 1, 2, 3]], 2).state_dict())
    module.reset_parameters()
    assert module.edges.tolist() == [[1, 2, 4]]


def test_more_bins_than_points_of_a_schema_are_never_used():
    columns = columns_of(x=np.arange(5000.0)).schema_.continuous
    module = PiecewiseLinearEmbedding.from_columns(columns, 2, n_bins=1500)
    assert module.n_bins == 1500
    assert len(module.edges[0].unique()) <= 1002


@pytest.mark.parametrize("version", ["A", "B"])
def test_first_weights_fill_their_intervals(version):
    edges = [torch.arange(17.0)] * 300
    module = PiecewiseLinearEmbedding(edges, 25, version=version, seed=0)
    bounds = {"bias": 1 / 4 if version == "A" else 1 / 5, "missing": 1 / 5}
    bounds |= {"weight": 1 / 4} if version == "A" else {"slope": 1 / 5}
    for name, bound in bounds.items():
        weight = getattr(module, name)
        assert weight.abs().max().item() == pytest.approx(bound, rel=1e-3)
        assert weight.mean().item() == pytest.approx(0, abs=0.01)
    assert (module.slope is None) == (version == "A")
    assert version == "A" or (module.weight == 0).all()


def columns_of(scaler="squash", **columns):
    return TableEncoder(scaler=scaler).fit(columns)


def test_edges_from_the_schema_are_those_of_the_peer():
    x = np.random.default_rng(0).normal(size=(900, 2))
    encoder = columns_of(a=x[:, 0], b=np.exp(x[:, 1]))
    values = encoder.transform({"a": x[:, 0], "b": np.exp(x[:, 1])}).values
    module = PiecewiseLinearEmbedding.from_columns(encoder.schema_.continuous, n_bins=16)
    theirs = torch.stack(rtdl_num_embeddings.compute_bins(values, 16))
    assert_close(module.edges, theirs, rtol=0, atol=1e-6)
    assert (module.n_bins, module.d_embedding, module.version) == (16, 12, "B")


def test_many_values_give_edges_close_to_the_peers():
    x = np.random.default_rng(0).normal(size=20_000)
    encoder = columns_of(x=x)
    module = PiecewiseLinearEmbedding.from_columns(encoder.schema_.continuous, n_bins=48)
    values = encoder.transform({"x": x}).values
    theirs = rtdl_num_embeddings.compute_bins(values, 48)[0]
    below, theirs_below = ((values <= edges).double().mean(0) for edges in (module.edges[0], theirs))
    assert_close(below, theirs_below, rtol=0, atol=1.1e-3)  # a schema knows a thousand points


@pytest.mark.filterwarnings("ignore:column 'empty'")
def test_columns_that_break_peers():
    draw = np.random.default_rng(0)
    table = {
        "zeros": np.where(np.arange(500) % 10, 0.0, draw.exponential(size=500)),
        "constant": np.full(500, 3.0),
        "empty": np.full(500, np.nan),
        "infinite": np.where(np.arange(500) == 7, np.inf, draw.normal(size=500)),
        "flag": (np.arange(500) % 2).astype(float),
    }
    encoder = columns_of(**table)
    module = PiecewiseLinearEmbedding.from_columns(
        encoder.schema_.continuous, 4, n_bins=20, version="A", seed=0
    )
    n_edges = [len(set(edges.tolist())) for edges in module.edges]
    assert n_edges == [21, 1, 1, 21, 2]
    batch = encoder.transform(table)
    output = module(batch.values, batch.missing)
    assert output.isfinite().all()
    assert_close(output[:, 2], module.missing[2].expand(500, 4))
    assert len(output[:, 0].unique(dim=0)) == len(np.unique(table["zeros"]))
    with pytest.raises(ValueError, match="at least two distinct values"):
        rtdl_num_embeddings.compute_bins(batch.values, 20)


@pytest.mark.parametrize("scaler", ["none", "standard", "squash", "quantile"])
def test_half_of_the_values_lie_below_the_middle_edge_whatever_the_scaler(scaler):
    x = np.random.default_rng(0).lognormal(size=999)
    encoder = columns_of(scaler, x=x)
    edges = PiecewiseLinearEmbedding.from_columns(encoder.schema_.continuous, n_bins=2).edges[0]
    values = encoder.transform({"x": x}).values[:, 0]
    assert_close(edges, torch.stack((values.min(), values.median(), values.max())))


def test_from_columns_passes_everything_on():
    columns = columns_of(x=np.arange(30.0)).schema_.continuous
    own = {"version": "A", "activation": True, "extrapolation": "clip", "seed": 3}
    module = PiecewiseLinearEmbedding.from_columns(columns, 5, n_bins=7, bins="tree", **own)
    assert (module.d_embedding, module.n_bins, module.bins) == (5, 7, "tree")
    assert {name: getattr(module, name) for name in own} == own


def test_adapt_asks_for_trees_only_where_they_are_wanted():
    columns = columns_of(x=np.arange(30.0)).schema_.continuous
    values, missing = torch.randn(6, 1), torch.zeros(6, 1, dtype=torch.bool)
    asked = []

    def edges(*given):
        asked.append(given)
        return [torch.tensor([-1.0, 0.5, 1.0])]

    for bins, expected in (("quantile", 0), ("tree", 1)):
        module = PiecewiseLinearEmbedding.from_columns(columns, n_bins=3, bins=bins)
        module.adapt(values, missing, edges)
        assert len(asked) == expected
    assert module.edges.tolist() == [[-1.0, 0.5, 1.0, 1.0]]
    assert asked[0][0] is values
    assert asked[0][1] is missing
    assert asked[0][2] == 3


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"edges": []}, ValueError, "n_columns must be at least 1, got 0"),
        ({"edges": [[0, 1], []]}, ValueError, r"edges\[1\] must be 1 to 2 numbers, got shape \(0,\)"),
        ({"edges": [[[0, 1]]]}, ValueError, r"edges\[0\] must be 1 to 2 numbers, got shape \(1, 2\)"),
        ({"n_bins": 1}, ValueError, r"edges\[0\] must be 1 to 2 numbers, got shape \(3,\)"),
        ({"edges": [[0, 1], [0, math.nan]]}, ValueError, r"edges\[1\] must be finite, got nan"),
        ({"edges": [[0, 2, 1]]}, ValueError, r"edges\[0\] must rise, got 1 after 2"),
        ({"edges": [[0, 1, 1 + 1e-12]]}, ValueError, r"edges\[0\] must rise, got 1 after 1"),
        ({"activation": "relu"}, TypeError, "activation must be True or False, got 'relu'"),
        ({"d_embedding": 0}, ValueError, "d_embedding must be at least 1, got 0"),
        ({"n_bins": 0}, ValueError, "n_bins must be at least 1, got 0"),
        ({"version": "C"}, ValueError, r"version must be one of A, B, got 'C'"),
        ({"extrapolation": "no"}, ValueError, r"extrapolation must be one of linear, clip, got 'no'"),
        ({"seed": -3}, ValueError, "seed must be at least 0, got -3"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        PiecewiseLinearEmbedding(**{"edges": [[0, 1, 3]], **arguments})


def test_bad_edges_later_and_bad_bins():
    module = PiecewiseLinearEmbedding([[0, 1, 3]])
    with pytest.raises(ValueError, match="edges must be of 1 columns, got 2"):
        module.set_edges([[0, 1], [0, 1]])
    with pytest.raises(ValueError, match=r"edges\[0\] must be 1 to 3 numbers, got shape \(4,\)"):
        module.set_edges([[0, 1, 2, 3]])
    with pytest.raises(ValueError, match=r"bins must be one of quantile, tree, got 'trees'"):
        PiecewiseLinearEmbedding.from_columns(columns_of(x=[1.0, 2.0]).schema_.continuous, bins="trees")


def test_bad_tensors():
    module = PiecewiseLinearEmbedding([[0, 1]] * 2)
    with pytest.raises(ValueError, match=r"values must have 2 as its last dimension, got shape \(4, 1\)"):
        module(torch.zeros(4, 1))
    with pytest.raises(TypeError, match="missing must be bool, got torch.int64"):
        module(torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.int64))


@pytest.mark.parametrize("version", ["A", "B"])
@pytest.mark.parametrize("extrapolation", ["linear", "clip"])
def test_an_infinite_number_counts_as_the_outer_edge(version, extrapolation):
    own = {"version": version, "extrapolation": extrapolation}
    module = PiecewiseLinearEmbedding([[0.0, 1.0, 3.0], [5.0]], 4, **own, seed=0)
    torch.nn.init.normal_(module.weight)
    got = module(torch.tensor([[math.inf, math.inf], [-math.inf, -math.inf]]))
    assert_close(got, module(torch.tensor([[3.0, 5.0], [0.0, 5.0]])), rtol=0, atol=0)
    got.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in module.parameters() if weight.grad is not None)
