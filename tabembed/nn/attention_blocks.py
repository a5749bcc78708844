"""Which queries attend together: blocks of rows, so that memory grows with length and not with its square."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from tabembed._checks import can_be_read
from tabembed.functional.position import elapsed
from tabembed.kernels import backend, use_backend

_KERNELS = {
    SDPBackend.FLASH_ATTENTION: torch.backends.cuda.flash_sdp_enabled,
    SDPBackend.EFFICIENT_ATTENTION: torch.backends.cuda.mem_efficient_sdp_enabled,
    SDPBackend.MATH: torch.backends.cuda.math_sdp_enabled,
    SDPBackend.CUDNN_ATTENTION: torch.backends.cuda.cudnn_sdp_enabled,
}

ROWS = 256
"""Queries of a block."""

_WRITTEN, _FEWEST = 2**24, 16
"""Numbers of a bias that are written out at once, and rows that are at least."""


class Block(NamedTuple):
    """Queries from ``first`` to ``last``, which is excluded.

    Args:
        first: the first of them.
        last: the one after them.
        written: their bias is written out.
        faded: pairs of features whose decay is.
    """

    first: int
    last: int
    written: bool = False
    faded: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of queries."""
        return self.last - self.first


def blocks(
    first: int, last: int, size: int, *, written: bool = False, faded: tuple[int, ...] = ()
) -> list[Block]:
    """Queries cut into blocks.

    The cuts are the same for any length, so that a compiled graph serves every length of so many blocks.

    >>> [block[:2] for block in blocks(0, 5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    pieces: list[Block] = []
    while last - first > size:
        pieces.append(Block(first, first + size, written, faded))
        first += size
    return [*pieces, Block(first, last, written, faded)] if last > first else pieces


def written_rows(n_batch: int, n_heads: int, n_keys: int) -> int:
    """How many rows of a bias are written out at once; powers of two, which few lengths tell apart."""
    size = ROWS
    while size > _FEWEST and size * n_batch * n_heads * n_keys > _WRITTEN:
        size //= 2
    return size


def halved(whole: Iterable[Block], fits: Callable[[Block], bool]) -> list[Block]:
    """Blocks cut in two until they fit; one row always does.

    >>> [block[:2] for block in halved([Block(0, 4)], lambda block: block.n_rows < 3)]
    [(0, 2), (2, 4)]
    """
    pieces: list[Block] = []
    for block in whole:
        if block.n_rows < 2 or fits(block):
            pieces.append(block)
        else:
            middle = (block.first + block.last) // 2
            pieces += halved((Block(block.first, middle), Block(middle, block.last)), fits)
    return pieces


def spans(positions: Tensor, counted: bool) -> Callable[[Block], float]:
    """How far a block reaches from its first row to its last; infinitely where that cannot be seen.

    Other devices are waited for, once: what follows is right or wrong by it.

    Args:
        positions: of the queries, ``(n_batch or 1, n_rows)`` int64 or float64, which do not fall.
        counted: they are row numbers.
    """
    if counted:
        return lambda block: block.n_rows - 1
    if not can_be_read(positions):
        return lambda block: math.inf
    rows = positions.detach().cpu()
    return lambda block: float(elapsed(rows[:, block.last - 1], rows[:, block.first]).amax())


def over_blocks(attend: Callable[[Block], Tensor], pieces: list[Block], needs_gradient: bool) -> Tensor:
    """Attention of every block, one after the other.

    For a gradient a block is computed again instead of kept, so that the memory of one is enough for all.
    """
    if len(pieces) == 1:
        return attend(pieces[0])
    if needs_gradient and torch.is_grad_enabled():
        again = functools.partial(checkpoint, attend, use_reentrant=False, preserve_rng_state=False)
        if not torch.compiler.is_compiling():
            # Whoever asks for the gradient may have chosen others, or be another thread.
            kernels = _Kernels()
            again = functools.partial(again, context_fn=lambda: (nullcontext(), kernels))
        return torch.cat([again(block) for block in pieces], -2)
    return torch.cat([attend(block) for block in pieces], -2)


class _Kernels:
    """The kernels chosen where this was made, chosen again within a block, as often as one is entered."""

    def __init__(self) -> None:
        self._backend = backend()
        self._attention = [kernel for kernel, is_on in _KERNELS.items() if is_on()]
        self._open: list[ExitStack] = []

    def __enter__(self) -> None:
        with ExitStack() as entered:
            entered.enter_context(use_backend(self._backend))
            entered.enter_context(sdpa_kernel(self._attention))
            self._open.append(entered.pop_all())

    def __exit__(self, *error: object) -> None:
        self._open.pop().close()
