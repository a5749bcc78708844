"""The rotation in PyTorch's own operators, written where it belongs, in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from tabembed.functional.phase import radians, widened
from tabembed.functional.rotary import amplitudes
from tabembed.kernels.phase_plain import single, turns

_SLAB = 2**17  # numbers in a thread's piece: half a mebibyte of float32, twice, beside the tables
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
    q_angle = _angles(q_positions, frequencies, inverse) if q.numel() else None
    k_angle = q_angle if _same(q_positions, k_positions) else None
    if k_angle is None and k.numel():
        k_angle = _angles(k_positions, frequencies, inverse)
    turned = []
    for x, positions, angle, sign in ((q, q_positions, q_angle, -1), (k, k_positions, k_angle, 1)):
        out = torch.empty_like(x)
        if angle is not None and x.numel():
            amplitude = None
            if rates is not None and origin is not None:
                amplitude = amplitudes(positions, sign * rates, origin, x.dtype)
            _turn(x, angle.to(widened(x).dtype), amplitude, interleaved, out)
        turned.append(out)
    return turned[0], turned[1]


def pair_products(grad: Tensor, output: Tensor, n_pairs: int, interleaved: bool) -> Tensor:
    """Dot and cross products of the pairs of two tensors, summed over the heads one after the other."""
    n_batch, n_heads, n, _ = grad.shape
    products = widened(grad).new_zeros(2, n_batch, n, n_pairs)
    dot, cross = products
    for head in range(n_heads):
        g, h = pairs(widened(grad[:, head]), n_pairs, interleaved)
        a, b = pairs(widened(output[:, head]), n_pairs, interleaved)
        dot.addcmul_(g, a).addcmul_(h, b)
        cross.addcmul_(h, a).addcmul_(g, b, value=-1)
    return products


def pairs(x: Tensor, n_pairs: int, interleaved: bool) -> tuple[Tensor, Tensor]:
    """The first and the second features of the pairs, as views."""
    x = x[..., : 2 * n_pairs]
    return (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :n_pairs], x[..., n_pairs:])


def _angles(positions: Tensor, frequencies: Tensor, inverse: bool) -> Tensor:
    """Radians from −π to π, ``(n_batch or 1, n, n_pairs)`` float64."""
    still, sums = frequencies.new_zeros(frequencies.shape[1]), single(positions, frequencies)
    rows = positions.reshape(-1, 1).split(max(1, _BLOCK // len(still)))
    angle = torch.cat([turns(some, frequencies, still, sums) for some in rows])
    return radians(-angle if inverse else angle).view(*positions.shape, -1)


def _turn(x: Tensor, angle: Tensor, amplitude: Tensor | None, interleaved: bool, out: Tensor) -> None:
    width = 2 * angle.shape[-1]
    out[..., width:].copy_(x[..., width:])
    x, out = x[..., :width], out[..., :width]
    tables, turn = (_factors, _turn_complex) if interleaved else (_rows, _turn_halves)
    factors = [table.unsqueeze(-3) for table in tables(angle, amplitude)]  # (n_batch or 1, 1, n, ·)
    direct = x.dtype == angle.dtype and not (interleaved and _odd(x, out))
    for where in _slabs(x, x.numel() if direct and interleaved else _SLAB * torch.get_num_threads()):
        some = [table[where[0] if len(table) > 1 else slice(None), :, where[2]] for table in factors]
        if direct:
            turn(x[where], some, out[where])
        else:
            near = angle.new_empty(x[where].shape).copy_(x[where])
            out[where] = turn(near, some, torch.empty_like(near))


def _rows(angle: Tensor, amplitude: Tensor | None) -> list[Tensor]:
    """Cosines of both halves, which multiply whole rows, and sines of one."""
    cosine, sine = angle.cos(), angle.sin()
    if amplitude is not None:
        cosine, sine = cosine.mul_(amplitude), sine.mul_(amplitude)
    return [torch.cat((cosine, cosine), -1), sine]


def _turn_halves(x: Tensor, factors: list[Tensor], out: Tensor) -> Tensor:
    cosine, sine = factors
    torch.mul(x, cosine, out=out)
    n = sine.shape[-1]
    out[..., :n].addcmul_(x[..., n:], sine, value=-1)
    out[..., n:].addcmul_(x[..., :n], sine)
    return out


def _factors(angle: Tensor, amplitude: Tensor | None) -> list[Tensor]:
    return [torch.polar(torch.ones_like(angle) if amplitude is None else amplitude, angle)]


def _turn_complex(x: Tensor, factors: list[Tensor], out: Tensor) -> Tensor:
    a, b = (torch.view_as_complex(tensor.unflatten(-1, (-1, 2))) for tensor in (x, out))
    torch.mul(a, factors[0], out=b)
    return out


def _odd(*tensors: Tensor) -> bool:
    """Whether neighbours cannot be seen as a complex number."""
    return any(
        x.stride(-1) != 1 or x.storage_offset() % 2 or any(step % 2 for step in x.stride()[:-1])
        for x in tensors
    )


def _slabs(x: Tensor, size: int) -> Iterator[tuple[slice, ...]]:
    """Slices of batches, heads and steps that hold about ``size`` numbers, nearby in memory."""
    steps, left = [*x.shape[:3]], x.numel()
    for dim in sorted(range(3), key=x.stride, reverse=True):
        n = x.shape[dim]
        steps[dim] = min(n, max(1, size * n // left))
        left = left * steps[dim] // n
    starts = (range(0, n, step) for n, step in zip(x.shape, steps, strict=False))
    for start in product(*starts):
        yield tuple(slice(a, a + step) for a, step in zip(start, steps, strict=True))


def _same(a: Tensor, b: Tensor) -> bool:
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and a.data_ptr() == b.data_ptr()
        and a.stride() == b.stride()
    )
