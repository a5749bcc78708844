"""Phases inside a kernel: exact products without whole turns, then sine and cosine in float32."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def part(turns):
    """Turns without the whole ones."""
    return turns - tl.floor(turns + 0.5)


@triton.jit
def exact_turns(positions, frequencies, j, mask, n_frequencies):
    """What ``functional.exact_phase.exact_turns`` gives, for a tile of positions and of frequencies.

    ``positions`` is ``(rows, 1)`` int64 or float64, ``frequencies`` points at ``(3, n_frequencies)`` float64,
    ``j`` is ``(1, columns)`` and ``mask`` says which of its columns are there.
    """
    if positions.dtype == tl.int64:
        signed = (positions << 32) >> 32
        high = ((positions >> 32) + (signed < 0)).to(tl.float64) * 4294967296.0
        low = signed.to(tl.float64)
    else:
        # Cut at a bit: a difference could be undone by a fused multiplication.
        bits = positions.to(tl.int64, bitcast=True) & -2097152
        high = bits.to(tl.float64, bitcast=True)
        low = positions - high
    first = tl.load(frequencies + j, mask=mask, other=0.0)
    second = tl.load(frequencies + n_frequencies + j, mask=mask, other=0.0)
    third = tl.load(frequencies + 2 * n_frequencies + j, mask=mask, other=0.0)
    turns = part(high * first) + part(low * first)
    turns += part(high * second) + part(low * second)
    turns += part(high * third) + part(low * third)
    return part(turns)


@triton.jit
def cos_sin(turns, WIDE: tl.constexpr, APPROXIMATE: tl.constexpr):
    """Cosine and sine of float64 turns from −½ to ½: in float64 when ``WIDE``, else in float32.

    ``APPROXIMATE`` takes NVIDIA's instructions, right to 2⁻²⁰ in this range; the general functions would
    bring a path for large angles, with memory of its own.
    """
    angle = turns * 6.283185307179586 if WIDE else turns.to(tl.float32) * 6.283185307179586
    if APPROXIMATE and not WIDE:  # one return: the compiler reads what stands after another
        cosine, sine = libdevice.fast_cosf(angle), libdevice.fast_sinf(angle)
    else:
        cosine, sine = tl.cos(angle), tl.sin(angle)
    return cosine, sine
