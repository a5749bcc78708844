"""Many tables looked up in one launch of a Triton kernel, and their gradients added in another."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS = 64  # rows of a tile, which is one table wide
_CHUNKS = 256  # pieces of up to 16 bytes that a program moves at a time


@triton.jit
def place_of_table(tables, column):
    """Address, rows, chunks in a row and first chunk in the output of one table."""
    entry = tables + column * 4
    # A row's chunks are divided by, which is slow in 64 bits.
    return tl.load(entry), tl.load(entry + 1), tl.load(entry + 2).to(tl.int32), tl.load(entry + 3)


@triton.jit
def chunk_of_row(start, first_row, end, chunks, ids, ids_stride, CHUNKS: tl.constexpr):
    """Which row and which chunk of it each lane has, whether there is one, and the id of the row.

    A tile is walked through as one line of chunks, row after row, so that no lane idles, however narrow the
    table; ``end`` is where the line ends.
    """
    lane = start + tl.arange(0, CHUNKS)
    row = first_row + lane // chunks
    index = tl.load(ids + row * ids_stride, mask=lane < end, other=-1).to(tl.int64)
    return row, lane % chunks, lane < end, index


@triton.jit(do_not_specialize=["n_rows", "n_columns", "ids_stride", "ids_column_stride", "out_chunks"])
def gather_kernel(
    out,
    tables,
    ids,
    n_rows,
    n_columns,
    ids_stride,
    ids_column_stride,
    out_chunks,
    VECTOR: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Copy the rows that a tile's ids name, ``VECTOR`` elements at a time; zeros for an id outside.

    ``tables`` is ``(n_columns, 4)`` int64, see ``place_of_table``; ``out_chunks`` counts the chunks from one
    row of the output to the next.
    """
    program = tl.program_id(0).to(tl.int64)
    first_row, column = program // n_columns * ROWS, program % n_columns
    address, n_ids, chunks, first = place_of_table(tables, column)
    BYTES: tl.constexpr = VECTOR * out.dtype.element_ty.primitive_bitwidth // 8
    source = tl.multiple_of(address.to(out.dtype), BYTES)
    ids += column * ids_column_stride
    element = tl.arange(0, VECTOR)[None, :]
    end = tl.minimum(n_rows - first_row, ROWS).to(tl.int32) * chunks
    for start in range(0, end, CHUNKS):
        row, chunk, there, index = chunk_of_row(start, first_row, end, chunks, ids, ids_stride, CHUNKS)
        inside = there & (index >= 0) & (index < n_ids)
        taken = (tl.where(inside, index, 0) * chunks + chunk) * VECTOR
        values = tl.load(source + (taken[:, None] + element), mask=inside[:, None], other=0.0)
        put = (row * out_chunks + first + chunk) * VECTOR
        tl.store(out + (put[:, None] + element), values, mask=there[:, None])


@triton.jit(do_not_specialize=["n_rows", "n_columns", "ids_stride", "ids_column_stride", "grad_chunks"])
def gradient_kernel(
    grad,
    tables,
    ids,
    n_rows,
    n_columns,
    ids_stride,
    ids_column_stride,
    grad_chunks,
    VECTOR: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Add the gradient of every row to the rows that its ids name: in float32, in float64 for float64."""
    WIDE: tl.constexpr = tl.float64 if grad.dtype.element_ty == tl.float64 else tl.float32
    program = tl.program_id(0).to(tl.int64)
    first_row, column = program // n_columns * ROWS, program % n_columns
    address, n_ids, chunks, first = place_of_table(tables, column)
    BYTES: tl.constexpr = VECTOR * WIDE.primitive_bitwidth // 8
    target = tl.multiple_of(address.to(tl.pointer_type(WIDE)), BYTES)
    ids += column * ids_column_stride
    element = tl.arange(0, VECTOR)[None, :]
    end = tl.minimum(n_rows - first_row, ROWS).to(tl.int32) * chunks
    for start in range(0, end, CHUNKS):
        row, chunk, there, index = chunk_of_row(start, first_row, end, chunks, ids, ids_stride, CHUNKS)
        inside = there & (index >= 0) & (index < n_ids)
        taken = (row * grad_chunks + first + chunk) * VECTOR
        values = tl.load(grad + (taken[:, None] + element), mask=inside[:, None], other=0.0).to(WIDE)
        put = (tl.where(inside, index, 0) * chunks + chunk) * VECTOR
        tl.atomic_add(target + (put[:, None] + element), values, mask=inside[:, None], sem="relaxed")


def launch(out: Tensor, weights: list[Tensor], ids: Tensor) -> None:
    """Write ``functional.gather.gather`` into ``out``, whose rows may have a stride."""
    _launch(gather_kernel, out, [weight.contiguous() for weight in weights], ids)


def launch_gradient(grad: Tensor, ids: Tensor, n_rows: list[int], widths: list[int]) -> list[Tensor]:
    """Sums of the gradients of every row of every table."""
    grad = grad if grad.stride(1) == 1 else grad.contiguous()
    wide = torch.promote_types(grad.dtype, torch.float32)
    sums = [grad.new_empty(*shape, dtype=wide) for shape in zip(n_rows, widths, strict=True)]
    torch._foreach_zero_(sums)  # all of them in one launch
    _launch(gradient_kernel, grad, sums, ids)
    if wide == grad.dtype:
        return sums
    rounded = [torch.empty_like(one, dtype=grad.dtype) for one in sums]
    torch._foreach_copy_(rounded, sums)
    return rounded


def _launch(kernel: triton.JITFunction, side: Tensor, tables: list[Tensor], ids: Tensor) -> None:
    """Launch a kernel between tables, each of them contiguous, and ``side``, where their columns lie."""
    n_rows, n_columns = ids.shape
    if not n_rows:
        return
    vector = _vector(side, tables)
    with torch.cuda.device_of(side):
        kernel[(triton.cdiv(n_rows, _ROWS) * n_columns,)](
            side,
            _places(tables, vector, side.device),
            ids,
            n_rows,
            n_columns,
            *ids.stride(),
            side.stride(0) // vector,
            VECTOR=vector,
            ROWS=_ROWS,
            CHUNKS=_CHUNKS,
        )


def _vector(side: Tensor, tables: list[Tensor]) -> int:
    """How many elements can be moved at a time everywhere: as many as 16 bytes hold, or fewer."""
    lengths = [side.stride(0), *(table.shape[1] for table in tables)]
    first = [(one.data_ptr() % 16) // one.itemsize for one in (side, *tables)]
    return math.gcd(16 // side.itemsize, *lengths, *first)


def _places(tables: list[Tensor], vector: int, device: torch.device) -> Tensor:
    """What ``place_of_table`` reads, made on the CPU and copied to the device.

    The copy comes from pinned memory, in the order of the stream: the CPU does not wait for it, and torch
    keeps the memory until it is done.
    """
    places, first = [], 0
    for table in tables:
        chunks = table.shape[1] // vector
        places.append((table.data_ptr(), len(table), chunks, first))
        first += chunks
    numbers = torch.tensor(places, dtype=torch.int64)
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers
