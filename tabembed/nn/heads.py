"""How rows, heads and steps are laid out: every tensor of a sequence as four dimensions, and back."""

from __future__ import annotations

from torch import Tensor, nn

from tabembed._checks import check_integer, check_last_dim
from tabembed.nn.positions import check_floats


def as_heads(x: Tensor, dim: int, name: str = "x", seq_dim: int = -2) -> Tensor:
    """Rows of features as ``(n_sequences, n_heads, n_steps, dim)``.

    Without heads there is one, without sequences, too. More dimensions between are heads, side by side: where
    strides do not allow a view, in a copy.

    Args:
        x: rows.
        dim: width of a row.
        name: public name of ``x``, for the message.
        seq_dim: which dimension of ``x`` holds the steps.

    Shape:
        - x: ``(n_steps, dim)`` or ``(n_sequences, *, n_steps, dim)``, or the steps in another dimension

    Raises: TypeError for what is no tensor of floats and a ``seq_dim`` that is no integer. ValueError for
        another width, no steps, and a ``seq_dim`` that is not there.

    >>> import torch
    >>> as_heads(torch.zeros(3, 5, 2), 2).shape
    torch.Size([3, 1, 5, 2])
    """
    check_floats(x, name)
    check_last_dim(x, dim, name)
    if x.ndim < 2:
        raise ValueError(f"{name} must have shape (*, n_steps, {dim}), got {tuple(x.shape)}")
    check_integer(-(2**63), seq_dim=seq_dim)
    if not (-x.ndim <= seq_dim < x.ndim - 1 and seq_dim != -1):
        raise ValueError(f"seq_dim must be a dimension of {name} before the last, got {seq_dim} of {x.ndim}")
    steps = x if seq_dim == -2 else x.movedim(seq_dim, -2)
    if x.ndim > 3:
        return steps.flatten(1, -3)
    return steps.unsqueeze(1) if x.ndim == 3 else steps[None, None]


def as_pair(q: Tensor, k: Tensor, dim: int, seq_dim: int) -> tuple[Tensor, Tensor]:
    """Queries and keys as ``as_heads`` gives them, for as many sequences.

    Raises: as ``as_heads``. ValueError when they are on two devices, or not as many sequences.
    """
    queries, keys = as_heads(q, dim, "q", seq_dim), as_heads(k, dim, "k", seq_dim)
    if k.device != q.device:
        raise ValueError(f"k must be on {q.device}, as q is, got {k.device}")
    if queries.shape[0] == keys.shape[0]:
        return queries, keys
    if q.ndim == k.ndim == 3:  # heads of one sequence
        return queries.transpose(0, 1), keys.transpose(0, 1)
    raise ValueError(f"k must have {queries.shape[0]} sequences, as q has, got {keys.shape[0]}")


def shaped_as(x: Tensor, heads: Tensor, seq_dim: int = -2) -> Tensor:
    """What ``as_heads`` made of ``x``, changed since, in the shape of ``x`` again."""
    steps = heads if x.ndim == 4 else heads.reshape(x.movedim(seq_dim, -2).shape)
    return steps if seq_dim == -2 else steps.movedim(-2, seq_dim)


def held_for(x: Tensor, module: nn.Module, tensor: Tensor) -> Tensor:
    """What a module holds, checked to be where its input is; an input on the meta device takes it along.

    Args:
        x: the input.
        module: whose tensor it is.
        tensor: a parameter, or what is made of parameters.

    Raises: ValueError for a module that is elsewhere, or on the meta device still.
    """
    if tensor.device == x.device:
        return tensor
    if x.is_meta:  # a fixed ladder is made on the CPU there
        return tensor.to("meta")
    name = type(module).__name__
    if tensor.is_meta:
        fix = "call to_empty, then load_state_dict or reset_parameters"
        raise ValueError(f"{name} must be materialised, got parameters on meta: {fix}")
    raise ValueError(f"{name} must be on {x.device}, as its input is, got {tensor.device}")
