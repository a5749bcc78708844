"""Positions as callers have them, brought to the one form that the kernels take."""

from __future__ import annotations

from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_int64, check_integer_tensor, check_tensor, is_concrete
from tabembed.functional.exact_phase import as_positions
from tabembed.schema import MISSING_TIME


def resolve(
    positions: Tensor | None,
    offset: Tensor | int,
    n_batch: int,
    n_steps: int,
    device: torch.device,
    *,
    name: str = "positions",
) -> Tensor:
    """Positions of the steps of some sequences: those given, else row numbers from an offset on.

    Args:
        positions: row numbers, or real time in any unit; ``None`` counts from ``offset``.
        offset: row number of the first step; a tensor may hold one for each sequence.
        n_batch: number of sequences; 1 when there is no such dimension.
        n_steps: number of steps.
        device: that of the rows, where row numbers go.
        name: public name of ``positions``, for the message.

    Shape:
        - positions: ``(n_steps,)`` or ``(n_batch, n_steps)``, integers, float32 or float64
        - offset: integers, ``()`` or ``(n_batch,)``
        - output: ``(n_batch, n_steps)``, or ``(1, n_steps)`` where all share them; int64 or float64

    Raises: TypeError for positions in half precision or no numbers, and an offset that is no integer.
        ValueError for other shapes, another device, and for positions together with an offset.

    >>> resolve(None, torch.tensor([0, 7]), 2, 3, torch.device("cpu"))
    tensor([[0, 1, 2],
            [7, 8, 9]])
    """
    _check_offset(offset, n_batch, device)
    if positions is None:
        return _counted(offset, n_steps, device)
    if isinstance(offset, Tensor) or offset != 0:
        raise ValueError(f"offset must be 0 where {name} are given, got {offset}: add it to them")
    check_position_tensor(positions, name)
    _check_device(positions, name, device)
    rows = positions if positions.ndim == 2 else positions.unsqueeze(0)
    if rows.ndim != 2 or rows.shape[1] != n_steps or rows.shape[0] not in (1, n_batch):
        raise ValueError(
            f"{name} must have shape ({n_steps},) or ({n_batch}, {n_steps}), got {tuple(positions.shape)}: "
            f"n_sequences is {n_batch}, n_steps {n_steps}"
        )
    return as_positions(rows)


def resolve_rows(rows: Tensor, positions: Tensor | None, offset: Tensor | int) -> Tensor:
    """Positions of the steps of some rows, as ``resolve`` gives them, none of them missing.

    Args:
        rows: ``(n_sequences, n_heads, n_steps, dim)``.
        positions: as ``resolve`` takes them.
        offset: as ``resolve`` takes it.

    Raises: as ``resolve`` and ``check_present``.
    """
    found = resolve(positions, offset, rows.shape[0], rows.shape[2], rows.device)
    if positions is not None:
        check_present(found, "positions")
    return found


def resolve_pair(
    positions: Tensor | None,
    k_positions: Tensor | None,
    offset: Tensor | int,
    n_batch: int,
    n_q: int,
    n_k: int,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Positions of queries and of keys; queries that have none of their own are the last of the keys.

    Args:
        positions: of the queries; without ``k_positions`` those of the keys, too.
        k_positions: of the keys; ``None`` takes ``positions``, or counts from ``offset``.
        offset: row number of the first key.
        n_batch: number of sequences.
        n_q: number of queries.
        n_k: number of keys.
        device: where row numbers go.

    Shape:
        - positions, k_positions, offset: as ``resolve`` takes them
        - output: ``(n_batch or 1, n_q)`` and ``(n_batch or 1, n_k)``, int64 or float64

    Raises: as ``resolve`` and ``check_present``. ValueError for more queries than keys that have not both
        positions. TypeError for integers of one and floats of the other.

    >>> resolve_pair(None, None, 4, 1, 1, 3, torch.device("cpu"))
    (tensor([[6]]), tensor([[4, 5, 6]]))
    """
    if positions is not None and k_positions is not None:
        queries = resolve(positions, offset, n_batch, n_q, device)
        keys = resolve(k_positions, offset, n_batch, n_k, device, name="k_positions")
        check_same_kind(positions=positions, k_positions=k_positions)
        check_present(queries, "positions")
        check_present(keys, "k_positions")
        return queries, keys
    if positions is None and n_q > n_k:
        raise ValueError(f"positions must be given for more queries than keys, got {n_q} and {n_k}")
    if n_q > n_k or (n_q != n_k and positions is not None and _length(positions) == n_q):
        raise ValueError(f"k_positions must be given where {n_q} queries of {n_k} keys have positions")
    given, name = (positions, "positions") if k_positions is None else (k_positions, "k_positions")
    keys = resolve(given, offset, n_batch, n_k, device, name=name)
    if given is not None:
        check_present(keys, name)
    return keys if n_q == n_k else keys[:, n_k - n_q :], keys


def _length(positions: Tensor) -> int:
    return positions.shape[-1] if isinstance(positions, Tensor) and positions.ndim else -1


def check_position_tensor(positions: Tensor, name: str) -> None:
    """Positions are numbers that are exact as they are: integers, float32 or float64.

    Raises: TypeError with the kind found.
    """
    if not isinstance(positions, Tensor):
        kind = type(positions).__name__
        raise TypeError(f"{name} must be a tensor, got {kind}: torch.tensor{_made_of(positions, name)}")
    dtype = positions.dtype
    narrow = dtype.is_floating_point and dtype.itemsize < 4
    if narrow or dtype.is_complex or dtype in (torch.bool, torch.uint64):
        raise TypeError(f"{name} must be integers up to int64, float32 or float64, got {dtype}")


def check_present(positions: Tensor, name: str) -> None:
    """Positions are numbers, none missing, as far as that can be seen at no cost.

    Args:
        positions: int64 or float64, as ``resolve`` gives them.
        name: their public name.

    Raises: ValueError with the first that is not finite, or a missing instant.
    """
    if not is_concrete(positions):
        return
    whole = not positions.is_floating_point()
    lost = positions == MISSING_TIME if whole else ~positions.isfinite()
    if lost.any():
        rule, got = "not be missing" if whole else "be finite", positions[lost][0].item()
        raise ValueError(f"{name} must {rule}, got {got}: drop such rows, or mask them in attention")


def check_same_kind(**positions: Tensor) -> None:
    """Positions of queries and of keys, each given by its public name, are all integers or all floats: row
    numbers or nanoseconds on one side and seconds on the other would be compared in silence.

    Raises: TypeError with the kinds found.
    """
    if len({tensor.is_floating_point() for tensor in positions.values()}) > 1:
        names, kinds = " and ".join(positions), " and ".join(str(one.dtype) for one in positions.values())
        raise TypeError(f"{names} must both be integers or both floats, got {kinds}")


def check_row_numbers(positions: Tensor | None, name: str) -> None:
    """Positions that say which row of a table is meant are integers, where there are any.

    Raises: TypeError with the kind found.
    """
    if isinstance(positions, Tensor):
        check_integer_tensor(positions, name)


def check_floats(x: Tensor, name: str) -> None:
    """What positions are encoded into is a tensor of floats.

    Raises: TypeError with the kind found.
    """
    check_tensor(x, name)
    if not x.is_floating_point():
        raise TypeError(f"{name} must be floats, got {x.dtype}")


def _made_of(column: object, name: str) -> str:
    """How to go on after ``torch.tensor``: datetimes are no numbers until they are counted."""
    if str(getattr(column, "dtype", "")).startswith("datetime64"):
        is_series = hasattr(column, "dt")
        counted = (
            ".dt.as_unit('ns').astype('int64')" if is_series else ".astype('datetime64[ns]').astype('int64')"
        )
    else:
        counted = ""
    numbers = counted + ".to_numpy()" if hasattr(column, "to_numpy") else counted
    return f"({name}{numbers}) makes one"


def _check_device(x: Tensor, name: str, device: torch.device) -> None:
    """What says where rows stand is on their device: elsewhere an operator would read memory of nobody."""
    if x.device != device:
        raise ValueError(f"{name} must be on {device}, as the rows are, got {x.device}")


def _check_offset(offset: Tensor | int, n_batch: int, device: torch.device) -> None:
    """An offset is an integer, or a tensor of one or one for each sequence."""
    if isinstance(offset, Tensor):
        check_integer_tensor(offset, "offset")
        if offset.dtype == torch.uint64:
            raise TypeError(f"offset must be integers that fit into int64, got {offset.dtype}")
        _check_device(offset, "offset", device)
        if offset.ndim > 1 or offset.numel() not in (1, n_batch):
            raise ValueError(f"offset must have shape () or ({n_batch},), got {tuple(offset.shape)}")
    elif isinstance(offset, bool) or not isinstance(offset, Integral):
        raise TypeError(f"offset must be an integer or a tensor of integers, got {offset!r}")


def _counted(offset: Tensor | int, n_steps: int, device: torch.device) -> Tensor:
    """Row numbers from an offset on."""
    if isinstance(offset, Tensor):
        if is_concrete(offset) and offset.numel():
            check_int64(**{"offset + n_steps": int(offset.max()) + n_steps})
        return offset.long().reshape(-1, 1) + torch.arange(n_steps, device=device)
    start = int(offset) if isinstance(offset, np.integer) else offset
    end = start + n_steps
    check_int64(**{"offset": start, "offset + n_steps": end})
    return torch.arange(start, end, device=device).unsqueeze(0)
