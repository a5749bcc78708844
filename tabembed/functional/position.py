"""Where instants stand between two others, subtracted in integers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tabembed._checks import check_bool_tensor
from tabembed.schema import MISSING_TIME

_LOW = 2**32


def since(times: Tensor, origin: Tensor) -> Tensor:
    """Differences of int64 numbers as float64, rounded once; they never wrap.

    Args:
        times: int64 numbers.
        origin: int64 numbers, of a shape that broadcasts.

    >>> since(torch.tensor([2**62 + 1]), torch.tensor(2**62)).tolist()
    [1.0]
    """
    # In two halves: 292 years of nanoseconds are the whole of int64, and a difference may be twice that.
    high = (times >> 32) - (origin >> 32)
    low = (times & (_LOW - 1)) - (origin & (_LOW - 1))
    return high.double() * _LOW + low.double()


def elapsed(positions: Tensor, origin: Tensor) -> Tensor:
    """Positions after an origin as float64: int64 is subtracted before it is rounded.

    Args:
        positions: int64 or float64.
        origin: of the same dtype, of a shape that broadcasts.

    >>> elapsed(torch.tensor([2**62 + 1]), torch.tensor(2**62)).tolist()
    [1.0]
    """
    return positions - origin if positions.is_floating_point() else since(positions, origin)


def position(times: Tensor, earliest: Sequence[int], latest: Sequence[int]) -> Tensor:
    """Where the instants of every column stand between its earliest (0) and its latest (1).

    Args:
        times: int64 numbers ``(*, n_columns)``.
        earliest: one number a column.
        latest: one number a column; where it equals the earliest, a unit of ``times`` is 1.

    Shape:
        - output: ``(*, n_columns)`` float64

    >>> position(torch.tensor([[5, 7], [10, 8]]), [0, 7], [10, 7]).tolist()
    [[0.5, 0.0], [1.0, 1.0]]
    """
    origin = torch.tensor(tuple(earliest), dtype=torch.int64, device=times.device)
    spans = [float(b - a or 1) for a, b in zip(earliest, latest, strict=True)]
    return since(times.long(), origin) / torch.tensor(spans, dtype=torch.float64, device=times.device)


def centred(times: Tensor, earliest: Sequence[int], latest: Sequence[int], missing: float) -> Tensor:
    """The same from −1 (earliest) to 1 (latest), rounded to float32.

    Args:
        times: int64 numbers ``(*, n_columns)``, −2⁶³ where missing.
        earliest: as in ``position``.
        latest: as in ``position``.
        missing: stands for a missing time.

    Shape:
        - output: ``(*, n_columns)`` float32

    >>> centred(torch.tensor([[5, 7], [10, -2**63]]), [0, 7], [10, 7], 9.0).tolist()
    [[0.0, -1.0], [1.0, 9.0]]
    """
    places = 2 * position(times, earliest, latest).float() - 1
    return places.masked_fill(times == MISSING_TIME, missing)


def row_positions(mask: Tensor) -> Tensor:
    """Row numbers of the real rows of every sequence, however it is padded: 0, 1, 2, …

    Padding stands at 0, too, as the first row does. Where a position means padding, ``padding_idx=0`` of
    ``LearnedPositionalEmbedding``, count from 1: ``torch.where(mask, row_positions(mask) + 1, 0)``.

    Args:
        mask: True for the real rows.

    Shape:
        - mask: ``(*, n_steps)`` bool
        - output: ``(*, n_steps)`` int64; 0 on padding

    Raises: TypeError for a mask that is not a bool tensor.

    >>> row_positions(torch.tensor([[False, False, True, True], [True, True, True, False]])).tolist()
    [[0, 0, 0, 1], [0, 1, 2, 0]]
    """
    check_bool_tensor(mask, "mask")
    return (mask.cumsum(-1) - 1).masked_fill(~mask, 0)
