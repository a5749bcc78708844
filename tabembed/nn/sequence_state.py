"""What is kept of some sequences, to go on with their next rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tabembed.batch import Index, device_of, read_index
from tabembed.nn.sequence_layout import Layout, layout_of


@dataclass(frozen=True, eq=False)
class SequenceState:
    """What ``SequenceEmbedding.step`` needs to know of the rows so far. ``len`` is the number of sequences.

    ``state.take([i])`` is that of sequence ``i`` alone: to go on with some sequences, or to ask what would
    follow. A step leaves the state that it is given as it was.

    Args:
        times: when the rows happened that are kept: all of them for attention, the last for a recurrence.
        real: True where there is a row.
        observed: what rows led to; ``None`` where no column is observed.
        count: number of rows so far.
        origin: when the first row of every sequence happened; anything without rows.
        layers: keys and values of every block, or what every layer of a recurrence knows.

    Shape:
        - times, real: ``(n_sequences, n_kept)``; observed: ``(n_sequences, n_kept, dim)``
        - count, origin: ``(n_sequences,)`` int64
        - layers: tensors ``(n_sequences, *)``
    """

    times: Tensor
    real: Tensor
    observed: Tensor | None
    count: Tensor
    origin: Tensor
    layers: Any

    def __len__(self) -> int:
        return len(self.count)

    def take(self, index: Index) -> SequenceState:
        """The state of some sequences, in another order or several times, if you like.

        Args:
            index: their numbers, or True where one is taken.

        Shape:
            - index: ``(n_taken,)`` integers or ``(n_sequences,)`` bool

        Raises: TypeError for anything else, a single number included.

        >>> empty = torch.zeros(2, 0)
        >>> state = SequenceState(empty.long(), empty.bool(), None, torch.tensor([4, 7]), torch.zeros(2), ())
        >>> state.take(torch.tensor([1, 1, 0])).count
        tensor([7, 7, 4])
        >>> state.take([0]).count
        tensor([4])
        """
        places = read_index(index, self, self.count.device)
        return self._map(lambda tensor: tensor[places])

    def to(self, *args: Any, **kwargs: Any) -> SequenceState:
        """Move every tensor to a device; dtypes stay: those of a step follow the module's."""
        device, non_blocking = device_of(*args, **kwargs), bool(kwargs.get("non_blocking", False))
        return self if device is None else self._map(lambda t: t.to(device, non_blocking=non_blocking))

    def joined(self, new: Layout, observed: Tensor | None, *, strict: bool) -> tuple[Layout, Tensor | None]:
        """The layout of the rows kept and of new ones after them, and what all of them led to.

        Args:
            new: layout of the new rows.
            observed: what those led to.
            strict: keep rows of one instant apart.
        """
        times, real = torch.cat((self.times, new.times), 1), torch.cat((self.real, new.real), 1)
        layout = layout_of(times, real, strict=strict).later(self.count - self.real.sum(-1), self.origin)
        if observed is None or self.observed is None:
            return layout, None
        return layout, torch.cat((self.observed, observed), 1)

    def _map(self, function: Callable[[Tensor], Tensor]) -> SequenceState:
        return SequenceState(
            function(self.times),
            function(self.real),
            None if self.observed is None else function(self.observed),
            function(self.count),
            function(self.origin),
            _mapped(self.layers, function),
        )


def _mapped(part: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """A tensor, or tuples of them, with a function applied."""
    return tuple(_mapped(one, function) for one in part) if isinstance(part, tuple) else function(part)


def initial_state(layout: Layout, observed: Tensor | None, layers: tuple[Any, ...]) -> SequenceState:
    """The state before any row.

    Args:
        layout: of the first rows.
        observed: what those lead to.
        layers: what the stack keeps before any row.
    """
    none = slice(0, 0)
    return SequenceState(
        layout.times[:, none],
        layout.real[:, none],
        None if observed is None else observed[:, none],
        layout.times.new_zeros(layout.n_lines),
        layout.times.new_zeros(layout.n_lines),
        layers,
    )


def state_after(
    layout: Layout, observed: Tensor | None, layers: tuple[Any, ...], *, count: Tensor, all_rows: bool
) -> SequenceState:
    """The state after some rows.

    Args:
        layout: of all rows, those that were kept before and the new ones.
        observed: what they led to.
        layers: what the stack keeps.
        count: number of rows so far.
        all_rows: keep all rows; otherwise the last of every sequence.
    """
    origin = layout.origin[:, -1:].sum(-1)
    if all_rows or not layout.n_places:
        return SequenceState(layout.times, layout.real, observed, count, origin, layers)
    here, kept = layout.real.any(-1, keepdim=True), None
    if observed is not None:
        steps = torch.arange(layout.n_places, device=here.device)
        place = torch.where(layout.real, steps, 0).amax(-1)
        kept = observed.gather(1, place[:, None, None].expand(-1, 1, observed.shape[-1]))
    # Padding at the end holds what the last row holds.
    return SequenceState(layout.times[:, -1:], here, kept, count, origin, layers)


def check_lines(state: Any, times: Tensor) -> None:
    """New rows are those of the sequences of a state, a line each.

    Raises: TypeError for what is no state. ValueError for another number of lines.
    """
    if times.ndim != 2:
        raise ValueError(f"times must have shape (n_batch, n_new), got {tuple(times.shape)}")
    if state is None:
        return
    if not isinstance(state, SequenceState):
        raise TypeError(f"state must be what step gave, or None, got {type(state).__name__}")
    if len(state) != times.shape[0]:
        raise ValueError(f"times must have {len(state)} sequences, as the state has, got {times.shape[0]}")
