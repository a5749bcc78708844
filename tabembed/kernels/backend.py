"""Which implementation a kernel uses: chosen by the user, else by the device."""

from __future__ import annotations

import os
import threading
from functools import cache
from importlib.util import find_spec
from types import TracebackType

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch.autograd import forward_ad

from tabembed._checks import check_choice

BACKENDS = ("auto", "reference", "triton")
VARIABLE = "TABEMBED_BACKEND"

_chosen = threading.local()  # not a ContextVar: torch.compile cannot read one


class use_backend:
    """Choose the implementation of the kernels: from here on in this thread, or within a ``with`` block.

    ``"auto"`` takes Triton on a GPU and plain PyTorch elsewhere; ``"reference"`` takes the formulas of
    ``tabembed.functional`` everywhere, which leaves nothing but PyTorch's own operators in an exported
    program; ``"triton"`` takes Triton or raises, and runs on the CPU when ``TRITON_INTERPRET=1`` was set
    before Triton was imported. The environment variable ``TABEMBED_BACKEND`` is what threads start from.

    Args:
        name: ``"auto"``, ``"reference"`` or ``"triton"``.

    Raises: ValueError for another name. RuntimeError when Triton is asked for and cannot run here.

    >>> with use_backend("reference"):
    ...     backend()
    'reference'
    """

    def __init__(self, name: str) -> None:
        check_choice(BACKENDS, backend=name)
        if name == "triton":
            check_triton()
        self._before = getattr(_chosen, "name", None)
        _chosen.name = name

    def __enter__(self) -> use_backend:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _chosen.name = self._before


def backend() -> str:
    """The backend in force in this thread."""
    return getattr(_chosen, "name", None) or _from_environment


def takes_formula() -> bool:
    """Whether ``functional`` itself runs: when asked for; in exports, which then need no tabembed; and where
    ``torch.func`` or forward-mode AD differentiates, which they do with no custom operator."""
    if backend() != "auto":
        return backend() == "reference"
    return torch.compiler.is_exporting() or (not torch.compiler.is_compiling() and _differentiates())


def runs_triton(tensor: Tensor) -> bool:
    """Whether a kernel over this tensor is launched through Triton.

    Raises: RuntimeError when Triton is asked for and cannot run on the tensor's device.
    """
    if backend() == "triton":
        if tensor.device.type != "cuda" and not interprets():
            raise RuntimeError(
                f"backend 'triton' must have tensors on a GPU, got {tensor.device.type}: move them, or set "
                "TRITON_INTERPRET=1 before Triton is imported"
            )
        return True
    return tensor.is_cuda and is_installed()


def _differentiates() -> bool:
    """Whether ``torch.func.grad``, ``jvp`` or what is made of them is at work, or dual numbers are."""
    if forward_ad._current_level >= 0:
        return True
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return any(level.key() in (TransformType.Grad, TransformType.Jvp) for level in stack)


@cache
def is_installed() -> bool:
    """Whether Triton can be imported."""
    return find_spec("triton") is not None


def interprets() -> bool:
    """Whether Triton's interpreter runs the kernels, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def check_triton() -> None:
    """Triton is installed, and there is something to run it.

    Raises: RuntimeError that says what is missing.
    """
    if not is_installed():
        raise RuntimeError("backend 'triton' must have Triton installed: pip install 'tabembed[triton]'")
    if not (torch.cuda.is_available() or interprets()):
        raise RuntimeError(
            "backend 'triton' must have a GPU, got none: set TRITON_INTERPRET=1 before Triton is imported "
            "to interpret the kernels on the CPU"
        )


def _environment() -> str:
    name = os.environ.get(VARIABLE, "auto")
    if name not in BACKENDS:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(BACKENDS)}, got {name!r}")
    if name == "triton":
        check_triton()
    return name


_from_environment = _environment()
