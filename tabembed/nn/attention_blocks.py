"""Which queries attend together: blocks of rows, so that memory grows with length and not with its square."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tabembed.functional.position import since

ROWS = 256
"""Queries of a block."""

_WRITTEN, _FEWEST = 2**24, 16
"""Numbers of a bias that are written out at once, and rows that are at least."""


class Block(NamedTuple):
    """Queries from ``first`` to ``last``, which is excluded; ``written``: their bias is written out."""

    first: int
    last: int
    written: bool = False

    @property
    def n_rows(self) -> int:
        """Number of queries."""
        return self.last - self.first


def blocks(first: int, last: int, size: int, written: bool = False) -> list[Block]:
    """Queries cut into blocks.

    >>> [block[:2] for block in blocks(0, 5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    return [Block(start, min(start + size, last), written) for start in range(first, last, size)]


def written_rows(n_batch: int, n_heads: int, n_keys: int) -> int:
    """How many rows of a bias are written out at once."""
    return min(ROWS, max(_FEWEST, _WRITTEN // (n_batch * n_heads * n_keys)))


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


def spans(positions: Tensor, counted: bool) -> Callable[[Block], float | None]:
    """How far a block reaches from its first row to its last; ``None`` where that cannot be seen.

    Other devices are waited for, once: what follows is right or wrong by it.

    Args:
        positions: of the queries, ``(n_batch or 1, n_rows)`` int64 or float64, which do not fall.
        counted: they are row numbers.
    """
    if counted:
        return lambda block: float(block.n_rows - 1)
    if not _can_be_read(positions):
        return lambda block: None
    rows = positions.detach().cpu()

    def span(block: Block) -> float:
        first, last = rows[:, block.first], rows[:, block.last - 1]
        return float((last - first if rows.is_floating_point() else since(last, first)).amax())

    return span


def over_blocks(attend: Callable[[Block], Tensor], pieces: list[Block], needs_gradient: bool) -> Tensor:
    """Attention of every block, one after the other.

    For a gradient a block is computed again instead of kept, so that the memory of one is enough for all.
    """
    if len(pieces) == 1:
        return attend(pieces[0])
    if needs_gradient and torch.is_grad_enabled():
        again = functools.partial(checkpoint, attend, use_reentrant=False, preserve_rng_state=False)
        return torch.cat([again(block) for block in pieces], -2)
    return torch.cat([attend(block) for block in pieces], -2)


def _can_be_read(tensor: Tensor) -> bool:
    """True when there are numbers: not while something is traced or vectorised."""
    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or type(tensor) not in (Tensor, torch.nn.Parameter)
        or tensor.is_meta
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )
