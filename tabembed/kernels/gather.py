"""Many tables looked up in one launch: the operator, its derivatives, and where it is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tabembed.functional import gather as _formula
from tabembed.kernels.backend import Result, implementation, runs_triton


def gather(weights: list[Tensor], ids: Tensor, outside: Sequence[bool] | None = None) -> Tensor:
    """Rows of several tables side by side: ``functional.gather.gather``, for ids ``(n_rows, n_tables)``.

    On the CPU it is the formula: PyTorch's own operators are faster than one that Python has to call, and
    leave compilers something to fuse.

    Raises: TypeError for tables of several dtypes.
    """
    formula = partial(_formula.gather, outside=outside)
    return _chosen(formula, gather_tables, run, weights, ids)(weights, ids)


def columns(weights: list[Tensor], ids: Tensor, outside: Sequence[bool] | None = None) -> list[Tensor]:
    """The parts of ``gather``, ``(n_rows, d_j)`` for every table, which may be written into."""
    formula = partial(_formula.columns, outside=outside)
    both = partial(_split, gather_tables), partial(_split, run)
    return _chosen(formula, *both, weights, ids)(weights, ids)


def _chosen(
    formula: Callable[..., Result],
    operator: Callable[..., Result],
    body: Callable[..., Result],
    weights: list[Tensor],
    ids: Tensor,
) -> Callable[..., Result]:
    kinds = {weight.dtype for weight in weights}
    if len(kinds) > 1:
        raise TypeError(f"weights must have one dtype, got {', '.join(sorted(map(str, kinds)))}")
    return implementation(formula, operator, body, (ids, *weights), on_cpu=False)


def _split(gather: Callable[..., Tensor], weights: list[Tensor], ids: Tensor) -> list[Tensor]:
    widths = [weight.shape[1] for weight in weights]
    return list(gather(weights, ids).unsafe_split_with_sizes(widths, 1))


def run(weights: list[Tensor], ids: Tensor) -> Tensor:
    """What ``functional.gather.gather`` gives, without a derivative; the output is contiguous."""
    if runs_triton(ids):
        from tabembed.kernels.gather_triton import launch

        out = weights[0].new_empty(ids.shape[0], sum(weight.shape[1] for weight in weights))
        launch(out, weights, ids)
        return out
    return _formula.gather(weights, ids)


gather_tables = torch.library.custom_op("tabembed::gather", run, mutates_args=())


@gather_tables.register_fake
def _(weights: list[Tensor], ids: Tensor) -> Tensor:
    return weights[0].new_empty(ids.shape[0], sum(weight.shape[1] for weight in weights))


@torch.library.custom_op("tabembed::gather_gradient", mutates_args=())
def gather_gradient(grad: Tensor, ids: Tensor, n_rows: list[int], widths: list[int]) -> list[Tensor]:
    """For every table the sum of the gradients of its rows, at least in float32, rounded once.

    Triton adds in the order in which rows come, so that last digits may differ from run to run;
    ``torch.use_deterministic_algorithms(True)`` takes the sums of PyTorch, which do not.
    """
    if runs_triton(ids) and not torch.are_deterministic_algorithms_enabled():
        from tabembed.kernels.gather_triton import launch_gradient

        return launch_gradient(grad, ids, n_rows, widths)
    columns = zip(n_rows, ids.unbind(1), grad.split(widths, 1), strict=True)
    return [_added(*column) for column in columns]


@gather_gradient.register_fake
def _(grad: Tensor, ids: Tensor, n_rows: list[int], widths: list[int]) -> list[Tensor]:
    return [grad.new_empty(*shape) for shape in zip(n_rows, widths, strict=True)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    weights, ids = inputs
    ctx.shapes = [weight.shape for weight in weights]
    ctx.save_for_backward(ids)


def _to_tables(ctx: Any, grad: Tensor) -> tuple[Any, None]:
    (wanted, _), (ids,) = ctx.needs_input_grad, ctx.saved_tensors
    # A frozen table is one without rows here: every id is outside it, and nothing is added.
    n_rows = [shape[0] if want else 0 for shape, want in zip(ctx.shapes, wanted, strict=True)]
    sums = gather_gradient(grad, ids, n_rows, [shape[1] for shape in ctx.shapes])
    return [one if want else None for one, want in zip(sums, wanted, strict=True)], None


def _keep_ids(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.save_for_backward(inputs[1])


def _from_tables(ctx: Any, grads: list[Tensor]) -> tuple[Tensor, None, None, None]:
    return gather_tables(list(grads), *ctx.saved_tensors), None, None, None


gather_tables.register_autograd(_to_tables, setup_context=_keep)
gather_gradient.register_autograd(_from_tables, setup_context=_keep_ids)


@gather_tables.register_vmap
def _(info: Any, in_dims: tuple[Any, Any], weights: list[Tensor], ids: Tensor) -> tuple[Tensor, int]:
    """The tables of all items stand one under another, unless they share theirs."""
    n, dims = info.batch_size, in_dims[0]
    ids = _items(ids, in_dims[1], n)
    if any(dim is not None for dim in dims):
        ids = _shifted(ids, [_length(*one) for one in zip(weights, dims, strict=True)])
        weights = [_items(*one, n).flatten(0, 1) for one in zip(weights, dims, strict=True)]
    return gather_tables(weights, ids.flatten(0, 1)).unflatten(0, ids.shape[:2]), 0


@gather_gradient.register_vmap
def _(
    info: Any, in_dims: tuple[Any, ...], grad: Tensor, ids: Tensor, n_rows: list[int], widths: list[int]
) -> tuple[list[Tensor], list[int]]:
    """The sums of all items stand one under another."""
    n = info.batch_size
    ids, grad = _shifted(_items(ids, in_dims[1], n), n_rows), _items(grad, in_dims[0], n)
    sums = gather_gradient(grad.flatten(0, 1), ids.flatten(0, 1), [n * rows for rows in n_rows], widths)
    shapes = zip(sums, n_rows, strict=True)
    return [one.unflatten(0, (n, rows)) for one, rows in shapes], [0] * len(sums)


def _length(weight: Tensor, dim: int | None) -> int:
    """Rows of a table, or of each of a stack of tables."""
    return weight.shape[0] if dim is None else weight.movedim(dim, 0).shape[1]


def _items(tensor: Tensor, dim: int | None, n: int) -> Tensor:
    """The items of ``vmap`` in front."""
    return tensor.expand(n, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _shifted(ids: Tensor, n_rows: list[int]) -> Tensor:
    """Ids ``(n_items, n, n_tables)`` into tables one under another, an item after the other."""
    length = torch.tensor(n_rows, device=ids.device)
    first = torch.arange(len(ids), device=ids.device).view(-1, 1, 1) * length
    return torch.where((ids >= 0) & (ids < length), ids + first, -1)


def _added(n_rows: int, ids: Tensor, grad: Tensor) -> Tensor:
    """The sums of one table, in float32 or wider until they are done."""
    sums = grad.new_zeros(n_rows, grad.shape[1], dtype=torch.promote_types(grad.dtype, torch.float32))
    if n_rows:
        near = ids.clamp(0, n_rows - 1)
        sums.index_add_(0, near, grad.masked_fill((ids != near).unsqueeze(1), 0).to(sums.dtype))
    return sums.to(grad.dtype)
