from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch
from torch.autograd import forward_ad
from torch.testing import assert_close

from tabembed import kernels
from tabembed.functional.exact_phase import in_turns
from tabembed.kernels import backend, gather, gather_columns, rotate, sinusoid, use_backend
from tabembed.kernels.backend import runs_triton, takes_formula
from tabembed.nn import RotaryEmbedding, SinusoidalEmbedding

chooser = sys.modules["tabembed.kernels.backend"]


def given():
    x, p = torch.arange(12.0).view(1, 1, 3, 4), torch.tensor([[0, 1, 5]])
    return x, x, p, p, in_turns(torch.tensor([1.0, 0.1]))


def operators(function):
    """Names of the operators of the package that a call runs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found.add(str(function))
            return function(*args, **(kwargs or {}))

    found: set[str] = set()
    with Names():
        function()
    return {name for name in found if "tabembed" in name}


def test_a_choice_holds_in_its_block_and_nests():
    assert backend() == "auto"
    with use_backend("reference"):
        assert backend() == "reference"
        with use_backend("triton"):
            assert backend() == "triton"
        assert backend() == "reference"
    assert backend() == "auto"
    with pytest.raises(KeyError), use_backend("reference"):
        raise KeyError
    assert backend() == "auto"


def test_a_choice_without_a_block_holds_from_here_on():
    try:
        use_backend("reference")
        assert backend() == "reference"
    finally:
        use_backend("auto")
    assert backend() == "auto"


def test_a_choice_is_that_of_its_thread():
    seen = []
    with use_backend("reference"):
        thread = threading.Thread(target=lambda: seen.append(backend()))
        thread.start()
        thread.join()
    assert seen == ["auto"]


def test_one_object_may_be_entered_again_and_within_itself():
    reference = use_backend("reference")
    use_backend("auto")
    for _ in range(2):
        with reference:
            assert backend() == "reference"
            with use_backend("triton"):
                with reference:
                    assert backend() == "reference"
                assert backend() == "triton"
            with reference:
                assert backend() == "reference"
            assert backend() == "reference"
        assert backend() == "auto"


def test_a_block_ends_with_what_it_began_with():
    try:
        with use_backend("reference"):
            use_backend("triton")  # for the rest of the block
            assert backend() == "triton"
        assert backend() == "auto"
        inner, outer = use_backend("triton"), use_backend("reference")  # made in the other order
        with outer:
            with inner:
                assert backend() == "triton"
            assert backend() == "reference"
        assert backend() == "triton"  # what was in force when the block's object was made
    finally:
        use_backend("auto")


def test_a_choice_made_in_one_thread_may_be_entered_in_another():
    seen, entered, left = [], threading.Event(), threading.Event()

    def enter(choice):
        seen.append(backend())
        with choice:
            seen.append(backend())
            entered.set()
            left.wait(10)
            seen.append(backend())
        seen.append(backend())

    try:
        use_backend("triton")
        with use_backend("reference") as choice:
            thread = threading.Thread(target=enter, args=(choice,))
            thread.start()
            entered.wait(10)
        assert backend() == "triton"
        left.set()
        thread.join()
    finally:
        use_backend("auto")
    assert seen == ["auto", "reference", "reference", "auto"]


def test_a_choice_inside_compiled_code():
    def turned(*given):
        with use_backend("reference"):
            return rotate(*given)[0]

    torch.compiler.reset()
    compiled = torch.compile(turned, fullgraph=True, backend="aot_eager")
    assert_close(compiled(*given()), turned(*given()))
    assert backend() == "auto"


def test_what_runs():
    assert operators(lambda: rotate(*given())) == {"tabembed.rotate.default"}
    with use_backend("reference"):
        assert operators(lambda: rotate(*given())) == set()
    for name in kernels.__all__:
        assert getattr(kernels, name).__doc__, name


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="backend must be one of auto, reference, triton, got 'cuda'"):
        use_backend("cuda")
    assert backend() == "auto"


def test_triton_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setattr(chooser, "is_installed", lambda: False)
    with pytest.raises(RuntimeError, match=r"must have Triton installed: pip install 'tabembed\[triton\]'"):
        use_backend("triton")
    assert backend() == "auto"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_triton_without_a_gpu_is_refused(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(RuntimeError, match="must have a GPU, got none: set TRITON_INTERPRET=1"):
        use_backend("triton")


def test_triton_on_another_device_is_refused_and_nothing_falls_back(monkeypatch):
    with use_backend("triton"):
        assert runs_triton(torch.zeros(1))
        monkeypatch.setenv("TRITON_INTERPRET", "0")
        with pytest.raises(
            RuntimeError, match="backend 'triton' must have tensors on a GPU, got cpu: move them"
        ):
            rotate(*given())
    assert not runs_triton(torch.zeros(1))


def test_the_formula_runs_in_exports_and_derivatives_of_torch_func():
    seen = []

    def probe(x):
        seen.append(takes_formula())
        return x.sin()

    x = torch.ones(())
    probe(x)
    torch.func.grad(probe)(x)
    torch.func.vmap(probe)(x[None])
    torch.func.jvp(probe, (x,), (x,))
    assert seen == [False, True, False, True]


# Derivatives that an operator does not have


FREQUENCIES = in_turns(torch.tensor([1.0, 0.1]))


def waves(x, positions):
    still, scale = torch.zeros(2, dtype=torch.float64), torch.tensor(2.0)
    device = positions.device
    return sinusoid(x, positions, FREQUENCIES.to(device), still.to(device), scale.to(device), "sin_cos")


def kernels_at(x):
    """Every kernel as a function of a vector ``(4,)`` of float64, by name."""
    f, p, row = FREQUENCIES, torch.arange(4)[None], torch.tensor([[1, 0]])
    return {
        "rotate": lambda x: rotate(x.expand(1, 1, 4, 4), x.expand(1, 1, 4, 4), p, p, f)[0].sum((0, 1, 2)),
        "rotate by positions": lambda x: rotate(*[torch.ones(1, 1, 4, 4).to(x)] * 2, x[None], p, f)[0].sum(3),
        "sinusoid": lambda x: waves(x.expand(1, 1, 4, 4), p).sum((0, 1, 2)),
        "sinusoid by positions": lambda x: waves(torch.ones(1, 1, 4, 4).to(x), x[None]).sum(3),
        "gather": lambda x: gather([x[:, None], x.view(2, 2)], row),
        "gather_columns": lambda x: torch.cat(gather_columns([x[:, None], x.view(2, 2)], row), 1),
    }


KERNELS = list(kernels_at(None))


def given_vector():
    return torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64)


def dual(function, x, tangent):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(x, tangent))).tangent


WAYS = {
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (x + 1,))[1],
    "jacfwd": torch.func.jacfwd,
    "jacrev": torch.func.jacrev,
    "grad": lambda f: torch.func.grad(lambda x: f(x).sin().sum()),
    "hessian": lambda f: torch.func.hessian(lambda x: f(x).sin().sum()),
    "dual numbers": lambda f: lambda x: dual(f, x, x + 1),
}


EVERY = [  # all ways of one kernel and all kernels in one way are fast enough for every day
    pytest.param(name, way, marks=() if way == "jvp" or name == "sinusoid" else pytest.mark.slow)
    for name in KERNELS
    for way in WAYS
]


def compiled(function):
    torch.compiler.reset()
    return torch.compile(function, backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize(("name", "way"), EVERY)
def test_compiled_derivatives_of_torch_func_are_those_of_the_formula(name, way):
    x = given_vector()
    function, derive = kernels_at(x)[name], WAYS[way]
    with use_backend("reference"):
        expected = derive(function)(x)
    assert expected.any()
    assert_close(derive(function)(x), expected)
    assert_close(compiled(derive(function))(x), expected)
    if way in ("jvp", "grad", "dual numbers"):  # around what was compiled without
        torch.compiler.reset()
        inner = torch.compile(function, backend="aot_eager")
        truth = inner(x)
        assert_close(derive(inner)(x), expected)
        assert_close(inner(x), truth)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_the_default_compiler_keeps_tangents(name):
    x = given_vector()
    torch.compiler.reset()
    got = torch.compile(WAYS["jvp"](kernels_at(x)[name]))(x)
    with use_backend("reference"):
        assert_close(got, WAYS["jvp"](kernels_at(x)[name])(x))


def test_modules_compiled_keep_the_tangent_of_a_dual_number():
    rotary, waves = RotaryEmbedding(4), SinusoidalEmbedding(4, learned_scale=True).requires_grad_(False)
    x, tangent = torch.ones(1, 1, 3, 4), torch.arange(12.0).view(1, 1, 3, 4)
    for function, expected in ((rotary.rotate, rotary.rotate(tangent)), (lambda x: waves(x[0]), tangent[0])):
        assert_close(dual(function, x, tangent), expected)
        assert_close(dual(compiled(function), x, tangent), expected)


REFUSED = "backend 'triton' must have no derivative of torch.func or of forward mode: choose 'auto'"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KERNELS)
def test_triton_refuses_derivatives_that_an_operator_does_not_have(name, way):
    x = given_vector()
    derive = WAYS[way](kernels_at(x)[name])
    with use_backend("triton"), pytest.raises(RuntimeError, match=REFUSED):
        derive(x)
    assert derive(x).any()


@pytest.mark.parametrize(("name", "way"), EVERY)
def test_triton_refuses_them_when_compiled(name, way):
    x = given_vector()
    torch.compiler.reset()
    derive = torch.compile(WAYS[way](kernels_at(x)[name]), backend="aot_eager")
    with use_backend("triton"), pytest.raises(RuntimeError, match=REFUSED):
        derive(x)


# Without torch.library, where nothing watches


def count_operators(monkeypatch):
    """The names of the operators of the package as they are entered."""
    entered = []
    for name in ("_rotate", "_sinusoid"):
        operator = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *a, f=operator, n=name[1:]: entered.append(n) or f(*a))
    return entered


def test_nothing_of_torch_library_where_nothing_watches(monkeypatch):
    entered = count_operators(monkeypatch)
    x, p, f = torch.randn(1, 1, 4, 4), torch.arange(4)[None], FREQUENCIES
    bare = rotate(x, x, p, p, f)[0], waves(x, p)
    assert not entered
    with torch.no_grad():
        rotate(x.clone().requires_grad_(), x, p, p, f)
    with torch.inference_mode():
        rotate(x, x, p, p, f)
    assert not entered
    leaf = x.clone().requires_grad_()
    watched = rotate(leaf, x, p, p, f)[0], waves(leaf, p)
    assert entered == ["rotate", "sinusoid"]
    assert all(map(torch.equal, bare, watched))
    assert all(one.requires_grad for one in watched)
    torch.func.vmap(lambda x: waves(x, p))(x[None])
    torch.jit.trace(lambda x: waves(x, p), x, check_trace=False)
    with torch.device("meta"):
        y = torch.empty(1, 1, 4, 4)
    assert waves(y, p.to("meta")).shape == x.shape
    assert entered[2:] == ["sinusoid"] * 3
    assert operators(lambda: waves(x, p)) == {"tabembed.sinusoid.default"}
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        assert waves(x, p).shape == x.shape
    from torch.fx.experimental.proxy_tensor import make_fx

    assert "tabembed.sinusoid" in str(make_fx(lambda x: waves(x, p))(x).graph)


def start(name):
    code = "from tabembed.kernels import backend; print(backend())"
    environment = {"TABEMBED_BACKEND": name, "PATH": "", "TRITON_INTERPRET": "1"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


def test_the_environment_variable():
    assert start("reference").stdout.strip() == "reference"
    assert "TABEMBED_BACKEND must be one of auto, reference, triton, got 'gpu'" in start("gpu").stderr


def test_an_empty_variable_is_none():
    assert start("").stdout.strip() == "auto"


def test_tensors_of_several_devices_are_refused():
    x, places = torch.ones(1, 1, 2, 4), torch.tensor([[0, 1]])
    frequencies = in_turns(torch.ones(2))
    for places_of_k, waves in ((places.to("meta"), frequencies), (places, frequencies.to("meta"))):
        with pytest.raises(ValueError, match="tensors must be on one device, got cpu, meta"):
            rotate(x, x, places, places_of_k, waves)
