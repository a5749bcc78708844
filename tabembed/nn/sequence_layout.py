"""Where rows of sequences stand, whichever way they are batched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tabembed._checks import check_bool_tensor, check_integer_tensor, check_tensor, is_concrete
from tabembed.functional.position import since
from tabembed.schema import MISSING_TIME


@dataclass(frozen=True, eq=False)
class Layout:
    """For every place of a batch, which row it holds and which rows came before it.

    Packed sequences are one line of places; padded ones are a line each. Places of padding hold what the
    nearest real row of their line holds, but for ``before``, which is −1 there.

    Args:
        times: when rows happened.
        real: True where there is a row.
        number: the row's number in its sequence, from 0 on. Where rows of one instant are kept apart, the
            number of its instant: a row would else count those that it does not see.
        origin: when the first row of its sequence happened.
        before: place in its line of the row before it in its sequence, −1 where there is none. Where rows of
            one instant are kept apart, the last row of the latest instant before its own.
        sequence: number of its sequence.
        last: place of every sequence's last row among all places, −1 where a sequence has none.
        instant: number of its instant in its line, where rows of one instant are kept apart.
        ends: where packed sequences begin and end, as numbers.
        padded: some places may hold no row.

    Shape:
        - times, real, number, origin, before, sequence, instant: ``(n_lines, n_places)``
        - last: ``(n_sequences,)``
    """

    times: Tensor
    real: Tensor
    number: Tensor
    origin: Tensor
    before: Tensor
    sequence: Tensor
    last: Tensor
    instant: Tensor | None
    ends: list[int] | None
    padded: bool

    @property
    def first(self) -> Tensor:
        """Whether nothing came before a row."""
        return self.before < 0

    def gap(self) -> Tensor:
        """Time since what came before, ``(n_lines, n_places)`` float64; 0 where there is none."""
        earlier = self.times.gather(-1, self.before.clamp(min=0))
        return since(self.times, earlier).masked_fill(self.first, 0.0)

    def carried(self, vectors: Tensor, first: Tensor) -> Tensor:
        """What is known of the row before every row; of an instant, the mean of its rows.

        Args:
            vectors: of every row.
            first: what stands where nothing came before.

        Shape:
            - vectors, output: ``(n_lines, n_places, dim)``; first: ``(dim,)``
        """
        before = self.before.clamp(min=0)
        if self.instant is not None:
            vectors, before = self._means(vectors, self.instant), self.instant.gather(-1, before)
        earlier = vectors.gather(1, before.unsqueeze(-1).expand_as(vectors))
        return torch.where(self.first.unsqueeze(-1), first, earlier)

    def _means(self, vectors: Tensor, instant: Tensor) -> Tensor:
        """Mean vector of the real rows of every instant."""
        places = instant.unsqueeze(-1).expand_as(vectors)
        own = torch.where(self.real.unsqueeze(-1), vectors, 0)
        total = torch.zeros_like(vectors).scatter_add(1, places, own)
        count = torch.zeros_like(own[..., 0]).scatter_add(1, instant, self.real.to(vectors.dtype))
        return total / count.clamp(min=1).unsqueeze(-1)

    @property
    def n_lines(self) -> int:
        """Number of lines of places."""
        return self.times.shape[0]

    @property
    def n_places(self) -> int:
        """Number of places of a line."""
        return self.times.shape[1]

    def later(self, skipped: Tensor, origin: Tensor) -> Layout:
        """The same of sequences, a line each, that began before what is here.

        Args:
            skipped: how many rows of every sequence are not here.
            origin: when its first row happened, where there is one.

        Shape:
            - skipped, origin: ``(n_lines,)`` int64
        """
        begun = torch.where((skipped > 0).unsqueeze(-1), origin.unsqueeze(-1), self.origin)
        return replace(self, number=self.number + skipped.unsqueeze(-1), origin=begun)

    def tail(self, n: int) -> Layout:
        """The last ``n`` places of every line, for what asks nothing about the rows before."""
        if n == self.n_places:
            return self
        parts = ("times", "real", "number", "origin", "sequence")
        return replace(self, **{name: getattr(self, name)[:, self.n_places - n :] for name in parts})


def layout_of(
    times: Tensor, mask: Tensor | None = None, ends: list[int] | None = None, *, strict: bool = False
) -> Layout:
    """The layout of some sequences.

    Args:
        times: when rows happened; anything on padding.
        mask: True for the real rows, wherever padding stands.
        ends: where packed sequences begin and end.
        strict: keep rows of one instant apart.

    Shape:
        - times, mask: ``(n_lines, n_places)``; one line where there are ``ends``

    >>> layout = layout_of(torch.tensor([[5, 6, 6, 9]]), torch.tensor([[True, True, False, True]]))
    >>> layout.number.tolist(), layout.before.tolist()
    ([[0, 1, 1, 2]], [[-1, 0, -1, 1]])
    """
    real = torch.ones_like(times, dtype=torch.bool) if mask is None else mask
    steps = torch.arange(times.shape[1], device=times.device).expand_as(times)
    latest = torch.where(real, steps, -1).cummax(-1).values
    previous = torch.cat((torch.full_like(latest[:, :1], -1), latest[:, :-1]), 1)
    starts = real & ((previous < 0) if ends is None else _starts(ends, times))
    previous = previous.masked_fill(starts | ~real, -1)
    # What stands before the first real row of a line holds what that holds.
    head = torch.where(real, steps, times.shape[1]).amin(-1, keepdim=True) if times.shape[1] else latest
    nearest = torch.where(latest < 0, head, latest).clamp(0, max(times.shape[1] - 1, 0))
    held = torch.where(real, times, 0).gather(-1, nearest)
    start = torch.where(starts, steps, -1).cummax(-1).values
    start = torch.where(start < 0, nearest, start)
    rank, instant = real.cumsum(-1), None
    if strict:
        opens = real & (starts | (held != held.gather(-1, previous.clamp(min=0))))
        opener = torch.where(opens, steps, -1).cummax(-1).values.clamp(min=0)
        previous = torch.where(real, previous.gather(-1, opener), -1)
        rank = opens.cumsum(-1)
        instant = (rank - 1).clamp(min=0)
    sequence, last = _sequences(times, latest, steps, ends)
    return Layout(
        times=held,
        real=real,
        number=(rank - rank.gather(-1, start)).clamp(min=0),
        origin=held.gather(-1, start),
        before=previous,
        sequence=sequence,
        last=last,
        instant=instant,
        ends=ends,
        padded=mask is not None,
    )


def _starts(ends: list[int], times: Tensor) -> Tensor:
    """Where packed sequences begin."""
    starts = torch.zeros(times.shape[1] + 1, dtype=torch.bool, device=times.device)
    starts[torch.tensor(ends[:-1], dtype=torch.int64, device=times.device)] = True
    return starts[:-1].unsqueeze(0)


def _sequences(times: Tensor, latest: Tensor, steps: Tensor, ends: list[int] | None) -> tuple[Tensor, Tensor]:
    """Whose row every place holds, and the place of every sequence's last row among all places."""
    if ends is None:
        lines = torch.arange(times.shape[0], device=times.device).unsqueeze(-1)
        if not times.shape[1]:
            return lines.expand_as(times), lines[:, 0] * 0 - 1
        last = latest[:, -1]
        return lines.expand_as(times), torch.where(last < 0, -1, last + lines[:, 0] * times.shape[1])
    edges = torch.tensor(ends, device=times.device)
    last = torch.where(edges.diff() > 0, edges[1:] - 1, -1)
    return torch.searchsorted(edges, steps.contiguous(), right=True) - 1, last


def read_layout(
    times: Tensor, mask: Tensor | None, cu_seqlens: Tensor | None, *, strict: bool, rising: bool
) -> Layout:
    """The layout of what a caller gives, checked.

    Args:
        times: of one sequence, of padded ones, or of packed ones.
        mask: True for the real rows.
        cu_seqlens: where sequences begin and end that are packed in one.
        strict: keep rows of one instant apart.
        rising: times must not fall.

    Shape:
        - times, mask: ``(n_rows,)`` or ``(n_batch, n_rows)``; cu_seqlens: ``(n_sequences + 1,)``

    Raises: TypeError for times that are no integers, a mask that is not bool. ValueError for shapes that do
        not fit, a mask beside cu_seqlens, cu_seqlens that do not go from 0 to the number of rows, and, on
        the CPU, times that are missing or fall within a sequence.
    """
    check_integer_tensor(times, "times")
    if times.ndim not in (1, 2) or (cu_seqlens is not None and times.ndim != 1):
        shape = "(n_rows,)" if cu_seqlens is not None else "(n_rows,) or (n_batch, n_rows)"
        raise ValueError(f"times must have shape {shape}, got {tuple(times.shape)}")
    if mask is not None:
        check_bool_tensor(mask, "mask")
        if mask.shape != times.shape:
            raise ValueError(
                f"mask must have the shape of times, {tuple(times.shape)}, got {tuple(mask.shape)}"
            )
        if cu_seqlens is not None:
            raise ValueError("mask must be None with cu_seqlens: packed rows are all real")
    ends = None if cu_seqlens is None else _read_ends(cu_seqlens, times.shape[0])
    lines = times.long() if times.ndim == 2 else times.long().unsqueeze(0)
    real = mask if mask is None or mask.ndim == 2 else mask.unsqueeze(0)
    layout = layout_of(lines, real, ends, strict=strict)
    if rising:
        check_times(layout)
    return layout


def _read_ends(cu_seqlens: Any, n_rows: int) -> list[int]:
    check_tensor(cu_seqlens, "cu_seqlens")
    check_integer_tensor(cu_seqlens, "cu_seqlens")
    if cu_seqlens.ndim != 1 or not cu_seqlens.numel():
        raise ValueError(f"cu_seqlens must have shape (n_sequences + 1,), got {tuple(cu_seqlens.shape)}")
    ends: list[int] = cu_seqlens.tolist()
    if ends[0] != 0 or ends[-1] != n_rows:
        raise ValueError(f"cu_seqlens must go from 0 to {n_rows}, got {ends[0]} to {ends[-1]}")
    for start, end in zip(ends, ends[1:], strict=False):
        if end < start:
            raise ValueError(f"cu_seqlens must not fall, got {end} after {start}")
    return ends


def check_times(layout: Layout) -> None:
    """Times of real rows are there and do not fall, as far as that can be seen at no cost.

    Raises: ValueError with the first that does.
    """
    times = layout.times
    if not is_concrete(times) or not times.numel():
        return
    if ((times == MISSING_TIME) & layout.real).any():
        raise ValueError("times must not be missing, got -2**63: drop such rows, or mask them")
    falls = (times[:, 1:] < times[:, :-1]) & (layout.sequence[:, 1:] == layout.sequence[:, :-1])
    if falls.any():
        i, j = falls.nonzero()[0].tolist()
        before, after = int(times[i, j]), int(times[i, j + 1])
        raise ValueError(f"times must not fall within a sequence, got {after} after {before}")
