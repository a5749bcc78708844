"""The modes of PyTorch that an estimator needs, whatever its caller has in force."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import TypeVar

import torch

_T = TypeVar("_T")
_CHANGING = Lock()


@contextmanager
def own_modes() -> Iterator[None]:
    """Gradients on; inference mode, autocast and another default device off. Also a decorator.

    >>> with torch.no_grad(), own_modes():
    ...     torch.is_grad_enabled()
    True
    """
    with ExitStack() as modes:
        modes.enter_context(torch.inference_mode(False))
        modes.enter_context(torch.enable_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                modes.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            modes.enter_context(torch.device("cpu"))
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """What this thread asks of the CPU is done by one thread; other threads keep theirs. Also a decorator.

    The order of a sum follows from how many threads share it, and a training makes much of a rounding:
    vectors of one and of three threads differed by up to 3e-3.

    >>> before = torch.get_num_threads()
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    _set_own(1)
    try:
        yield
    finally:
        _set_own(before)


def _set_own(n_threads: int) -> None:
    """Set how many threads this one may use. PyTorch gives the number to threads that start later, too:
    these get theirs back, or a fit would slow down whatever starts beside it."""
    with _CHANGING:
        later = _elsewhere(torch.get_num_threads)
        torch.set_num_threads(n_threads)
        _elsewhere(lambda: torch.set_num_threads(later))


def _elsewhere(call: Callable[[], _T]) -> _T:
    """What a call gives in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()
