from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch

from tabembed import kernels
from tabembed.functional.exact_phase import in_turns
from tabembed.kernels import backend, rotate, use_backend
from tabembed.kernels.backend import runs_triton, takes_formula

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
    with use_backend("triton"):
        torch.func.grad(probe)(x)
    assert seen[-1] is False


def start(name):
    code = "from tabembed.kernels import backend; print(backend())"
    environment = {"TABEMBED_BACKEND": name, "PATH": "", "TRITON_INTERPRET": "1"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


def test_the_environment_variable():
    assert start("reference").stdout.strip() == "reference"
    assert "TABEMBED_BACKEND must be one of auto, reference, triton, got 'gpu'" in start("gpu").stderr
