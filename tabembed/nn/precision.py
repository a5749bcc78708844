"""Frequencies that half precision cannot ruin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


def wide_dtype() -> torch.dtype:
    """The default dtype, or float32 where that is narrower: what tensors in ``wide`` are made in.

    >>> wide_dtype()
    torch.float32
    """
    return torch.promote_types(torch.get_default_dtype(), torch.float32)


class WideModule(nn.Module):
    """A module whose frequencies never get narrower than float32.

    ``.half()`` and ``.bfloat16()`` leave the parameters and buffers named in ``wide`` at float32, which
    are made in ``wide_dtype()``; ``.double()`` widens them. The dtype that was asked for is ``dtype``:
    that of the output.
    """

    wide: ClassVar[tuple[str, ...]] = ()
    _follows_dtype: Tensor

    def __init__(self) -> None:
        super().__init__()
        # Empty: it only follows .to(dtype), which a module without parameters would forget.
        # Not on the meta device, where load_state_dict(assign=True) would leave it, and .to(...) fail.
        empty = torch.empty(0)
        empty = torch.empty(0, device="cpu") if empty.is_meta else empty
        self.register_buffer("_follows_dtype", empty, persistent=False)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the output."""
        return self._follows_dtype.dtype

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        own = [getattr(self, name) for name in self.wide if getattr(self, name) is not None]
        kept = {id(tensor) for tensor in own} | {id(tensor.grad) for tensor in own if tensor.grad is not None}

        def applied(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            narrowed = moved.is_floating_point() and moved.dtype.itemsize < 4
            return tensor.to(moved.device) if narrowed and id(tensor) in kept else moved

        return super()._apply(applied, recurse)
