"""Frequencies that follow from a module's arguments: exact, and never stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tabembed.functional.exact_phase import in_turns


class FixedLadder(nn.Module):
    """Hold some frequencies on a module's device, as exact as their arguments whatever is done to the module.

    They are no part of the state dict. They are made anew from Python's numbers whenever the module is moved
    or cast, so ``.half()`` rounds nothing away and memory that ``to_empty`` allocates is never read.

    Args:
        frequencies: radians per unit of position.

    Shape:
        - turns: ``(3, n_frequencies)`` float64, what ``exact_turns`` takes

    >>> FixedLadder([1.0, 0.01]).half().turns.sum(0)
    tensor([0.1592, 0.0016], dtype=torch.float64)
    """

    turns: Tensor

    def __init__(self, frequencies: Sequence[float]) -> None:
        super().__init__()
        self.frequencies = tuple(map(float, frequencies))
        device = torch.empty(0).device
        # Not on the meta device, where load_state_dict(assign=True) would leave it.
        self.register_buffer(
            "turns", self._made("cpu" if device.type == "meta" else device), persistent=False
        )

    def reset_parameters(self) -> None:
        """Write the frequencies over whatever stands in memory."""
        self.turns = self._made(self.turns.device)

    def _made(self, device: torch.device | str) -> Tensor:
        return in_turns(torch.tensor(self.frequencies, dtype=torch.float64, device="cpu")).to(device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self.reset_parameters()
        return self
