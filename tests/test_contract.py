"""What every module of ``tabembed.nn`` promises, run over the cases of ``contracts.py``."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from contracts import CASES, Case
from torch.func import functional_call
from torch.testing import assert_close
from torch.utils import _pytree as pytree

import tabembed.nn


def numbers_of(case):
    """The first input that is a number, a time or an id."""
    return pytree.tree_leaves(case.inputs((9,)))[case.follows]


LEARNING = [case for case in CASES if list(case.make(0).parameters())]
STORING = [case for case in CASES if case.make(0).state_dict()]
FLOATING = [case for case in CASES if [*case.make(0).parameters(), *case.make(0).buffers()]]
FOLLOWING = [case for case in CASES if case.follows]
COUNTING = [case for case in FLOATING if len(pytree.tree_leaves(case.inputs((9,)))) > case.follows]
SMALL = [case for case in COUNTING if numbers_of(case).nan_to_num().abs().max() < 255]
FREE = [case for case in CASES if () in case.leading]


def cases(chosen):
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.name)


def on_tensors(function, inputs):
    return pytree.tree_map_only(torch.Tensor, function, inputs)


def widened(inputs):
    return on_tensors(lambda t: t.double() if t.is_floating_point() else t, inputs)


def followed(case, inputs, dtype):
    """The inputs, those whose dtype the output has in some dtype."""
    return tuple(t.to(dtype) if i < case.follows else t for i, t in enumerate(inputs))


def two_dims(case, *leading):
    """Leading dimensions that can change places: one is enough where steps come after it."""
    return leading if any(len(dims) == 2 for dims in case.leading) else leading[:1]


def last_digit(case):
    return dict.fromkeys(("rtol", "atol"), 5e-7 if case.fused else 0.0)


def run_with(module, inputs):
    """Output and gradients of every parameter for a fixed direction."""
    output = module(*inputs)
    direction = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).to(output).view_as(output)
    return output, torch.autograd.grad(output, list(module.parameters()), direction)


def test_every_public_module_has_a_case():
    kinds = {name: getattr(tabembed.nn, name) for name in tabembed.nn.__all__}
    public = {n for n, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, torch.nn.Module)}
    assert public == {case.name.partition("-")[0] for case in CASES}


def test_every_case_makes_what_it_says():
    assert [type(case.make(0)).__name__ for case in CASES] == [c.name.partition("-")[0] for c in CASES]


@pytest.mark.parametrize(
    ("case", "leading"), [(c, d) for c in CASES for d in c.leading], ids=lambda a: getattr(a, "name", str(a))
)
def test_matches_the_scalar_loops(case: Case, leading):
    module, inputs = case.make(0).double(), followed(case, case.inputs(leading), torch.float64)
    output = module(*inputs)
    # Positions in time are rounded to float32 once.
    assert_close(output.double(), case.expected(module, inputs), rtol=1e-6, atol=1e-7)


@cases(FREE)
def test_strided_inputs_give_the_same(case: Case):
    module, inputs = case.make(0), case.inputs(two_dims(case, 2, 3))
    turned = on_tensors(lambda t: t.transpose(0, 1).contiguous().transpose(0, 1), inputs)
    stepped = on_tensors(lambda t: torch.stack((t, t.roll(1, 0)), dim=-1)[..., 0], inputs)
    for strided in (turned, stepped):
        assert not pytree.tree_leaves(strided)[0].is_contiguous()
        assert_close(module(*strided), module(*inputs), **last_digit(case))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@cases(FLOATING)
def test_narrow_weights_lose_only_the_last_rounding(case: Case, dtype):
    narrow, inputs = case.make(0).to(dtype), followed(case, case.inputs((9,)), dtype)
    output = narrow(*inputs)
    wide = copy.deepcopy(narrow).double()(*followed(case, inputs, torch.float64))
    assert output.dtype == dtype
    eps = torch.finfo(dtype).eps
    lost = {"rtol": 8 * eps, "atol": 8 * eps} if case.matrices else {"rtol": eps, "atol": 1e-7}
    assert_close(output.double(), wide, **lost)


@cases(FLOATING)
def test_autocast_changes_nothing(case: Case):
    module, inputs = case.make(0), case.inputs((9,))
    with torch.autocast("cpu", torch.bfloat16):
        output = module(*inputs)
    lost = 8 * torch.finfo(torch.bfloat16).eps if case.matrices else 0.0
    assert_close(output.to(module(*inputs)), module(*inputs), rtol=lost, atol=lost)


@cases(LEARNING)
def test_gradients_of_first_and_second_order(case: Case):
    module, inputs = case.make(0).double(), widened(case.inputs((5,)))
    names = [name for name, _ in module.named_parameters()]
    weights = tuple(p.detach().clone().requires_grad_() for p in module.parameters())

    def output_of(*parameters):
        return functional_call(module, dict(zip(names, parameters, strict=True)), inputs)

    assert torch.autograd.gradcheck(output_of, weights)
    assert torch.autograd.gradgradcheck(lambda *p: output_of(*p).pow(2), weights, fast_mode=True)


@pytest.mark.parametrize("default", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@cases(FLOATING)
def test_a_default_dtype_is_what_to_makes_of_a_module(case: Case, default):
    expected, inputs = case.make(0), followed(case, case.inputs((9,)), default)
    state = expected.state_dict()
    torch.set_default_dtype(default)
    try:
        module = case.make(0)
        output = module(*inputs)
    finally:
        torch.set_default_dtype(torch.float32)
    assert output.dtype == default
    lost = 1e-6 if default == torch.float64 else 0.0  # arguments have more digits there, draws have not
    for name, tensor in module.state_dict().items():
        assert_close(tensor, state[name].to(tensor), rtol=lost, atol=lost)
    assert_close(output, expected.to(default)(*inputs), rtol=lost, atol=lost)
    wide = [(part, name) for part in module.modules() for name in getattr(part, "wide", ())]
    assert all(getattr(p, n).dtype.itemsize >= 4 for p, n in wide if getattr(p, n) is not None)


def with_one(function, inputs, place):
    """The inputs with one of their tensors changed."""
    leaves, spec = pytree.tree_flatten(inputs)
    leaves[place] = function(leaves[place])
    return pytree.tree_unflatten(leaves, spec)


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64], ids=str)
@cases(COUNTING)
def test_what_is_no_number_is_refused(case: Case, dtype):
    inputs = with_one(lambda t: t.nan_to_num().to(dtype), case.inputs((9,)), case.follows)
    kinds = "integers( up to int64, float32 or float64)?" if case.follows else "(floats or )?integers"
    with pytest.raises(TypeError, match=rf"must be {kinds}, got {dtype}"):
        case.make(0)(*inputs)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.complex64], ids=str)
@cases(FOLLOWING)
def test_what_gives_the_dtype_is_floats(case: Case, dtype):
    for place in range(case.follows):
        inputs = with_one(lambda t: t.to(dtype), case.inputs((9,)), place)
        with pytest.raises(TypeError, match=rf"^\w+ must be floats, got {dtype}"):
            case.make(0)(*inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@cases(FOLLOWING)
def test_the_output_has_the_dtype_of_the_input(case: Case, dtype):
    inputs = followed(case, case.inputs((9,)), dtype)
    assert {case.make(0).to(weights)(*inputs).dtype for weights in (torch.bfloat16, torch.float64)} == {dtype}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32], ids=str)
@cases(SMALL)
def test_unsigned_integers_are_numbers(case: Case, dtype):
    module, place = case.make(0), case.follows
    inputs = with_one(lambda t: t.nan_to_num().abs().ceil().long(), case.inputs((9,)), place)
    assert_close(module(*with_one(lambda t: t.to(dtype), inputs, place)), module(*inputs), rtol=0, atol=0)


@cases(CASES)
def test_the_meta_device_tells_shape_and_dtype(case: Case):
    module, inputs = case.make(0), case.inputs((9,))
    expected = module(*inputs)
    output = module.to("meta")(*on_tensors(lambda t: t.to("meta"), inputs))
    assert output.is_meta
    assert (output.shape, output.dtype) == (expected.shape, expected.dtype)


@cases(CASES)
def test_state_dict_carries_everything(case: Case):
    module, other, inputs = case.make(0), case.make(1), case.inputs((9,))
    other.load_state_dict(module.state_dict(), strict=True)
    assert_close(other(*inputs), module(*inputs), rtol=0, atol=0)


@pytest.mark.parametrize(
    "copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy], ids=["pickle", "deepcopy"]
)
@cases(CASES)
def test_copies_are_equal_and_apart(case: Case, copied):
    module, inputs = case.make(0), case.inputs((9,))
    before, twin = module(*inputs), copied(module)
    assert_close(twin(*inputs), before, rtol=0, atol=0)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1)
    assert_close(module(*inputs), before, rtol=0, atol=0)


@cases(STORING)
def test_meta_device_then_reset_parameters(case: Case):
    with torch.device("meta"):
        module = case.make(0)
    assert all(t.is_meta for t in module.state_dict().values())
    module = module.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.fill_(7)  # garbage, as memory may hold
    module.reset_parameters()
    inputs = case.inputs((9,))
    assert_close(module(*inputs), case.make(0)(*inputs), rtol=0, atol=0)


@cases(STORING)
def test_a_seed_touches_nothing_global_and_none_follows_it(case: Case):
    state = torch.get_rng_state()
    first, again, other = (case.make(seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        one = case.make(None).state_dict()
        torch.manual_seed(3)
        two = case.make(None).state_dict()
        three = case.make(None).state_dict()
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], three[key]) for key in one)


@cases(CASES)
def test_export_with_any_number_of_rows(case: Case):
    module = case.make(0).eval()
    dynamic = on_tensors(lambda t: {0: torch.export.Dim.DYNAMIC}, case.inputs((9,)))
    program = torch.export.export(module, case.inputs((9,)), dynamic_shapes=dynamic).module()
    for rows in (9, 14):
        inputs = case.inputs((rows,))
        assert_close(program(*inputs), module(*inputs), **last_digit(case))


@cases(CASES)
def test_compiles_in_one_graph(case: Case):
    module, inputs = case.make(0), case.inputs((9,))
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    if case in LEARNING:
        assert_close(run_with(compiled, inputs), run_with(module, inputs))
    else:
        assert_close(compiled(*inputs), module(*inputs))


@cases(FREE)
def test_vmap_over_rows(case: Case):
    module, inputs = case.make(0), case.inputs(two_dims(case, 4, 3))
    assert_close(torch.func.vmap(module)(*inputs), module(*inputs))
