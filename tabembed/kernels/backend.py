"""Which implementation a kernel uses: chosen by the user, else by the device."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from types import TracebackType
from typing import TypeVar

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch.autograd import forward_ad

from tabembed._checks import check_choice

BACKENDS = ("auto", "reference", "triton")
VARIABLE = "TABEMBED_BACKEND"

Result = TypeVar("Result")

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
        self.name = name
        # A block opened next by this object ends with what was in force before the object was made.
        before = _choose(name)
        _chosen.made = self, before

    def __enter__(self) -> use_backend:
        maker, first = getattr(_chosen, "made", None) or (None, None)
        before = _choose(self.name)
        _chosen.outside = (first if maker is self else before, getattr(_chosen, "outside", None))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before, _chosen.outside = _chosen.outside
        _choose(before)


def _choose(name: str | None) -> str | None:
    """Set the choice of this thread, and return the one before."""
    before = getattr(_chosen, "name", None)
    _chosen.name, _chosen.made = name, None
    return before


def backend() -> str:
    """The backend in force in this thread."""
    return getattr(_chosen, "name", None) or _from_environment


def implementation(
    formula: Callable[..., Result],
    operator: Callable[..., Result],
    body: Callable[..., Result],
    tensors: Sequence[Tensor | None],
    *,
    on_cpu: bool = True,
) -> Callable[..., Result]:
    """What runs for a kernel: its formula, its operator, or what the operator runs.

    The operator takes Triton where ``runs_triton`` says so and plain PyTorch elsewhere.

    Args:
        formula: of ``functional``.
        operator: of ``torch.library``.
        body: what the operator runs; called without it where nobody can tell: 70 microseconds less on a CPU.
        tensors: everything that is computed with.
        on_cpu: whether there is more than the formula on the CPU.

    Raises: ValueError for tensors of several devices: an operator would answer with memory that nobody wrote.
    """
    devices = {str(one.device): None for one in tensors if one is not None}
    if len(devices) > 1:
        raise ValueError(f"tensors must be on one device, got {', '.join(devices)}")
    if takes_formula():
        return formula
    if not on_cpu and backend() == "auto" and not any(one is not None and one.is_cuda for one in tensors):
        return formula
    return operator if is_watched(tensors) else body


def takes_formula() -> bool:
    """Whether ``functional`` itself runs: when asked for; in exports, which then need no tabembed; and where
    ``torch.func`` or forward-mode AD differentiates, which they do with no custom operator.

    Raises: RuntimeError for such a derivative where Triton is asked for.
    """
    if _differentiates():
        if backend() == "triton":
            raise RuntimeError(
                "backend 'triton' must have no derivative of torch.func or of forward mode: choose 'auto', "
                "which takes the formula there, or differentiate by torch.autograd"
            )
        return True
    return backend() == "reference" or (backend() == "auto" and torch.compiler.is_exporting())


def is_watched(tensors: Sequence[Tensor | None]) -> bool:
    """Whether autograd, a compiler, a transformation or a mode has to see an operator."""
    if (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
    ):
        return True
    takes_gradients = torch.is_grad_enabled()
    return any(
        type(one) not in (Tensor, torch.nn.Parameter)
        or one.is_meta
        or (takes_gradients and one.requires_grad)
        for one in tensors
        if one is not None
    )


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
    return forward_ad._current_level >= 0 or _transforms()


def _transforms() -> bool:
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return any(level.key() in (TransformType.Grad, TransformType.Jvp) for level in stack)


# torch.compile asks while it traces, and traces anew in another stack. This is what
# ``torch.compiler.assume_constant_result`` does, without loading the compiler.
_transforms._dynamo_marked_constant = True  # type: ignore[attr-defined]


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
    name = os.environ.get(VARIABLE) or "auto"
    if name not in BACKENDS:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(BACKENDS)}, got {name!r}")
    if name == "triton":
        check_triton()
    return name


_from_environment = _environment()
