"""Frequencies that follow from a module's arguments: exact, and never stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tabembed._checks import check_finite, check_scale
from tabembed.functional.exact_phase import in_turns


class FixedLadder(nn.Module):
    """Hold some frequencies on a module's device, as exact as their arguments whatever is done to the module.

    They are no part of the state dict. They are made anew from Python's numbers whenever the module is moved
    or cast, so ``.half()`` rounds nothing away and memory that ``to_empty`` allocates is never read.

    Args:
        frequencies: radians per unit of position.

    Shape:
        - frequencies: ``(n_frequencies,)`` float64
        - turns: ``(3, n_frequencies)`` float64, what ``exact_turns`` takes

    >>> ladder = FixedLadder([1.0, 0.01]).half()
    >>> ladder.frequencies
    tensor([1.0000, 0.0100], dtype=torch.float64)
    >>> ladder
    FixedLadder(2 periods, 6.28319 to 628.319)
    """

    frequencies: Tensor
    turns: Tensor

    def __init__(self, frequencies: Sequence[float]) -> None:
        super().__init__()
        self._numbers = tuple(map(float, frequencies))
        device = torch.empty(0).device
        # Not on the meta device, where load_state_dict(assign=True) would leave it.
        for name, tensor in self._made(torch.device("cpu") if device.type == "meta" else device).items():
            self.register_buffer(name, tensor, persistent=False)

    def reset_parameters(self) -> None:
        """Write the frequencies over whatever stands in memory."""
        for name, tensor in self._made(self.turns.device).items():
            setattr(self, name, tensor)

    @torch.inference_mode(False)  # what is made in that mode could never stand in a training step
    def _made(self, device: torch.device) -> dict[str, Tensor]:
        frequencies = torch.tensor(self._numbers, dtype=torch.float64, device="cpu")
        return {"frequencies": frequencies.to(device), "turns": in_turns(frequencies).to(device)}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self.reset_parameters()
        return self

    def extra_repr(self) -> str:
        """How many waves, and the shortest and the longest period in units of position."""
        periods = sorted(2 * math.pi / abs(f) if f else math.inf for f in self._numbers)
        shown = " to ".join(dict.fromkeys(f"{period:g}" for period in (periods[0], periods[-1])))
        return f"{len(periods)} period{'s' if len(periods) > 1 else ''}, {shown}"


def as_frequencies(given: Sequence[float] | np.ndarray | Tensor, n: int) -> list[float]:
    """Frequencies of an argument as numbers of Python: ``n``, finite, 0 or float32 holds what they multiply.

    Raises: TypeError for another kind. ValueError for another number of them and those out of range.

    >>> as_frequencies(torch.tensor([1.0, 0.25]), 2)
    [1.0, 0.25]
    """
    numbers = given.tolist() if isinstance(given, Tensor | np.ndarray) else given
    if not isinstance(numbers, Sequence) or isinstance(numbers, str):
        raise TypeError(f"frequencies must be a list, an array or a tensor of numbers, got {numbers!r}")
    if len(numbers) != n:
        raise ValueError(f"frequencies must be {n}, one for each pair, got {len(numbers)}")
    for frequency in numbers:
        check_finite(frequencies=frequency)
        if frequency:
            check_scale(**{"abs(frequencies)": abs(frequency)})
    return [float(frequency) for frequency in numbers]
