"""Dropout whose draws can come from a generator of one's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabembed._checks import check_probability
from tabembed.schema import FIRST_KNOWN, UNKNOWN


class Dropout(nn.Module):
    """Zero elements at random while training and scale the others up.

    ``generator`` (an attribute, ``None`` at first) gives the draws; ``None`` is torch's global
    generator of the device.

    Args:
        p: probability that an element is dropped.

    Shape:
        - x, output: any

    Raises: ValueError when ``p`` is not in ``[0, 1)``.
    Source: Srivastava et al. 2014, JMLR 15.

    >>> Dropout(0.5).eval()(torch.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.0) -> None:
        check_probability(dropout=p)
        super().__init__()
        self.p = p
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of ``x``."""
        if self.generator is None:
            return nn.functional.dropout(x, self.p, self.training)
        if not self.training or self.p == 0:
            return x
        keep = torch.empty_like(x, dtype=torch.float32).bernoulli_(1 - self.p, generator=self.generator)
        return x * keep / (1 - self.p)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class UnknownDropout(nn.Module):
    """Turn known ids into the unknown id at random while training, so that its row is trained.

    ``generator`` as in ``Dropout``.

    Args:
        p: probability that a known id (3 or more) is replaced by ``UNKNOWN`` (2).

    Shape:
        - ids: any, any integers; output: the same shape, int64 where something may be replaced

    Raises: ValueError when ``p`` is not in ``[0, 1)``.

    >>> UnknownDropout(0.5).eval()(torch.tensor([0, 1, 2, 3, 4])).tolist()
    [0, 1, 2, 3, 4]
    """

    def __init__(self, p: float = 0.0) -> None:
        check_probability(unknown_dropout=p)
        super().__init__()
        self.p = p
        self.generator: torch.Generator | None = None

    def forward(self, ids: Tensor) -> Tensor:
        """Replace some of the known ids."""
        if not self.training or self.p == 0:
            return ids
        drawn = (
            torch.rand(ids.shape, generator=self.generator, device=ids.device, dtype=torch.float32) < self.p
        )
        ids = ids.long()  # torch compares no wide unsigned integers
        return ids.masked_fill(drawn & (ids >= FIRST_KNOWN), UNKNOWN)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"
