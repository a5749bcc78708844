"""The rotation in PyTorch's own operators, written where it belongs, in pieces that stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat

import torch
from torch import Tensor

from tabembed.functional.phase import widened
from tabembed.functional.rotary import amplitudes
from tabembed.kernels.huge_pages import empty_like
from tabembed.kernels.phase_plain import single, turns

_PIECE = 2**16  # numbers: a quarter of a mebibyte read, as much written, beside the tables
_LARGE = 2**22  # of a piece that threads share: waiting for each other takes longer than memory does
_BLOCK = 2**14  # phases at a time, in float64


def rotate(
    q: Tensor,
    k: Tensor,
    q_positions: Tensor,
    k_positions: Tensor,
    frequencies: Tensor,
    rates: Tensor | None,
    origin: Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> tuple[Tensor, Tensor]:
    """What ``functional.rotary.rotate`` gives, without a derivative, in the strides of ``empty_like``."""
    q_out, k_out = empty_like(q), empty_like(k)
    tables: list[Tensor] = []
    for x, out, positions, sign in ((q, q_out, q_positions, -1), (k, k_out, k_positions, 1)):
        if not x.numel():
            continue
        if not (tables and rates is None and q.dtype == k.dtype and _same(q_positions, k_positions)):
            angle = _angles(positions, frequencies, inverse).to(widened(x).dtype)
            amplitude = None
            if rates is not None and origin is not None:
                amplitude = amplitudes(positions, sign * rates, origin, x.dtype)
            tables = _tables(angle, amplitude, interleaved)
        _turn(x, out, tables, frequencies.shape[1], interleaved)
    return q_out, k_out


def pair_products(grad: Tensor, output: Tensor, n_pairs: int, interleaved: bool) -> Tensor:
    """Dot and cross products of the pairs of two tensors, summed over the heads one after the other."""
    n_batch, n_heads, n, _ = grad.shape
    products = widened(grad).new_zeros(2, n_batch, n, n_pairs)
    dot, cross = products
    for head in range(n_heads):
        g, h = _pairs(widened(grad[:, head]), n_pairs, interleaved)
        a, b = _pairs(widened(output[:, head]), n_pairs, interleaved)
        dot.addcmul_(g, a).addcmul_(h, b)
        cross.addcmul_(h, a).addcmul_(g, b, value=-1)
    return products


def _pairs(x: Tensor, n_pairs: int, interleaved: bool) -> tuple[Tensor, Tensor]:
    """The first and the second features of the pairs."""
    x = x[..., : 2 * n_pairs]
    return (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :n_pairs], x[..., n_pairs:])


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are the same numbers in memory."""
    return a.data_ptr() == b.data_ptr() and (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())


def _angles(positions: Tensor, frequencies: Tensor, inverse: bool) -> Tensor:
    """Radians from −π to π, ``(n_batch or 1, n, n_pairs)`` float64."""
    still, sums = frequencies.new_zeros(frequencies.shape[1]), single(positions, frequencies)
    rows = positions.reshape(-1, 1).split(max(1, _BLOCK // len(still)))
    angle = [turns(some, frequencies, still, sums).mul_(-math.tau if inverse else math.tau) for some in rows]
    return (torch.cat(angle) if len(angle) > 1 else angle[0]).view(*positions.shape, -1)


def _tables(angle: Tensor, amplitude: Tensor | None, interleaved: bool) -> list[Tensor]:
    """What features are multiplied by, ``(n_batch or 1, 1, n, ·)``: complex numbers for neighbours;
    for halves cosines of both, which multiply whole rows, and sines of one."""
    angle = angle.unsqueeze(1)
    if interleaved:
        return [torch.polar(torch.ones_like(angle) if amplitude is None else amplitude.unsqueeze(1), angle)]
    cosine, sine = angle.cos(), angle.sin()
    if amplitude is not None:
        cosine, sine = cosine.mul_(amplitude.unsqueeze(1)), sine.mul_(amplitude.unsqueeze(1))
    return [torch.cat((cosine, cosine), -1), sine]


def _turn(x: Tensor, out: Tensor, tables: list[Tensor], n_pairs: int, interleaved: bool) -> None:
    if x.shape[-1] > 2 * n_pairs:
        out[..., 2 * n_pairs :].copy_(x[..., 2 * n_pairs :])
        x, out = x[..., : 2 * n_pairs], out[..., : 2 * n_pairs]
    view, turn = (_as_complex, _turn_complex) if interleaved else (_halves, _turn_halves)
    if widened(x).dtype == x.dtype and not (interleaved and _odd(x, out)):
        size = x.numel() if interleaved else _piece()
        for piece in _pieces((*view(x, out), *tables), size):
            turn(*piece)
        return
    for some, target, *factors in _pieces((x, out, *tables), _piece()):
        near = torch.empty(some.shape, dtype=widened(x).dtype, device=x.device).copy_(some)
        turned = torch.empty_like(near)
        turn(*view(near, turned), *factors)
        target.copy_(turned)


def _halves(x: Tensor, out: Tensor) -> tuple[Tensor, ...]:
    return x, out, *x.chunk(2, -1), *out.chunk(2, -1)


def _turn_halves(
    x: Tensor, out: Tensor, a: Tensor, b: Tensor, u: Tensor, v: Tensor, cosine: Tensor, sine: Tensor
) -> None:
    torch.mul(x, cosine, out=out)
    u.addcmul_(b, sine, value=-1)
    v.addcmul_(a, sine)


def _as_complex(x: Tensor, out: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.view_as_complex(tensor.unflatten(-1, (-1, 2))) for tensor in (x, out))


def _turn_complex(x: Tensor, out: Tensor, factors: Tensor) -> None:
    torch.mul(x, factors, out=out)


def _odd(*tensors: Tensor) -> bool:
    """Whether neighbours cannot be seen as a complex number."""
    return any(
        x.stride(-1) != 1 or x.storage_offset() % 2 or any(step % 2 for step in x.stride()[:-1])
        for x in tensors
    )


def _piece() -> int:
    return _PIECE if torch.get_num_threads() == 1 else _LARGE


def _pieces(tensors: tuple[Tensor, ...], size: int) -> Iterator[tuple[Tensor, ...]]:
    """Parts of tensors ``(n_batch, n_heads, n, ·)``, about ``size`` numbers of the first, near in memory;
    a tensor that is broadcast along a dimension is not cut there."""
    x = tensors[0]
    if x.numel() <= size or max(x.shape[:3]) == 1:
        yield tensors
        return
    dim = max((d for d in range(3) if x.shape[d] > 1), key=x.stride)
    n = max(1, size * x.shape[dim] // x.numel())
    cut = (t.split(n, dim) if t.shape[dim] > 1 else repeat(t) for t in tensors)
    for some in zip(*cut, strict=False):
        yield from _pieces(some, size)
