"""``SequenceEmbedding`` in other dtypes, on no device, copied, compiled, exported, differentiated twice."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from slow_sequence import HALF_HOUR, SCHEMES, changed, drawn, net_of, padded, schema_of, some
from torch.testing import assert_close

from tabembed.nn import SequenceEmbedding

SCHEME = pytest.mark.parametrize("position", SCHEMES)
FEW = pytest.mark.parametrize(
    "position", [pytest.param(one, marks=() if one == "rotary" else pytest.mark.slow) for one in SCHEMES]
)
"""Every scheme, one of them in the fast tests."""
SAME = {"rtol": 0.0, "atol": 0.0}


@SCHEME
@torch.no_grad()
def test_double_gives_double_and_halves_keep_positions(position):
    net, (rows, times) = net_of(position, pooling="decay"), drawn(9)
    whole = net(rows, times)
    wide = copy.deepcopy(net).double()(rows, times)
    assert wide.dtype == torch.float64
    assert_close(whole.double(), wide, rtol=0, atol=1e-5)
    for dtype in (torch.bfloat16, torch.float16):
        narrow = copy.deepcopy(net).to(dtype)
        out, near = narrow.rows(rows, times), copy.deepcopy(narrow).double().rows(rows, times)
        assert out.dtype == dtype
        assert_close(out.double(), near, rtol=0, atol=16 * torch.finfo(dtype).eps)
        later = narrow.rows(rows, times + 10**18)
        assert_close(later, out, rtol=0, atol=16 * torch.finfo(dtype).eps)


@SCHEME
@torch.no_grad()
def test_autocast_loses_a_few_roundings(position):
    net, batch = net_of(position, pooling="mean"), padded(some(), "left")
    with torch.autocast("cpu", torch.bfloat16):
        out, vectors = net(**batch), net.rows(**batch)
        first, state = net.step(None, *list(batch.values())[:2], mask=batch["mask"])
    # One dtype whatever the stack: that of the rows, which autocast makes.
    assert {one.dtype for one in (out, vectors, first)} == {torch.bfloat16}
    assert_close(out.float(), net(**batch), rtol=0, atol=0.06)
    assert_close(vectors.float(), net.rows(**batch), rtol=0, atol=0.1)
    assert_close(first, vectors, rtol=0, atol=0.1)
    again, _ = net.step(state, *list(batch.values())[:2], mask=torch.zeros_like(batch["mask"]))
    assert again.eq(0).all()


@SCHEME
def test_copies_state_and_the_meta_device(position):
    arguments = {"d_model": 32, "pooling": "decay", "seed": 3}
    net, (rows, times) = SequenceEmbedding(schema_of(), position, **arguments), drawn(9)
    out = net(rows, times)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert_close(twin(rows, times), out, **SAME)
    other = SequenceEmbedding(schema_of(), position, **{**arguments, "seed": 4})
    assert not torch.allclose(other(rows, times), out, atol=1e-3)
    other.load_state_dict(net.state_dict())
    assert_close(other(rows, times), out, **SAME)
    with torch.device("meta"):
        bare = SequenceEmbedding(schema_of(), position, **arguments)
    assert {p.device.type for p in bare.parameters()} == {"meta"}
    bare = bare.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in bare.parameters():
            parameter.fill_(7)  # as memory may hold
    bare.reset_parameters()
    assert_close(bare(rows, times), out, **SAME)


@SCHEME
def test_a_seed_is_private_and_none_follows_the_global_generator(position):
    state = torch.get_rng_state()
    net_of(position, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        one = net_of(position, seed=None).state_dict()
        two = net_of(position, seed=None).state_dict()
        torch.manual_seed(3)
        again = net_of(position, seed=None).state_dict()
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert any(not torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
@FEW
def test_padded_rows_compile_in_one_graph(position, strict):
    if position == "gru" and strict:
        return
    net = net_of(position, schema=schema_of(strict=strict), pooling="decay")
    batch = padded(some(), "left")
    torch.compiler.reset()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    out, wanted = compiled(**batch), net(**batch)
    assert_close(out, wanted, rtol=0, atol=2e-5)
    weights = list(net.parameters())
    ours = torch.autograd.grad(out.square().sum(), weights)
    for one, other in zip(ours, torch.autograd.grad(wanted.square().sum(), weights), strict=True):
        assert_close(one, other, rtol=1e-3, atol=1e-3)


@FEW
def test_padded_rows_can_be_exported(position):
    net, batch = net_of(position, pooling="last"), padded(some(), "left")
    with torch.no_grad():
        program = torch.export.export(net, (), batch).module()
        other = {**batch, "times": batch["times"] + HALF_HOUR}
        other["rows"] = changed(batch["rows"], "values", slice(None), lambda x: 1 - x)
        assert_close(program(**other), net(**other), rtol=0, atol=2e-5)


@FEW
def test_gradients_of_first_and_second_order(position):
    net, (rows, times) = net_of(position, d_model=4, num_layers=1, pooling="decay").double(), drawn(4)
    names = [name for name, p in net.named_parameters() if "embedd" not in name]
    weights = tuple(dict(net.named_parameters())[name].detach().clone().requires_grad_() for name in names)

    def output_of(*parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(net, given, (rows, times))

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.autograd.gradcheck(output_of, weights, fast_mode=True)
        assert torch.autograd.gradgradcheck(lambda *p: output_of(*p).pow(2), weights, fast_mode=True)
