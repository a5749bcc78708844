"""The modes of PyTorch that an estimator needs, whatever its caller has in force."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


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
