"""What the compiler makes of the kernel that adds waves, for GPUs that are not there."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from kernels.ahead import TARGETS, compiled

pytest.importorskip("triton")
KERNEL = "tabembed.kernels.sinusoid_triton:sinusoid_kernel"
COUNTS = ["n_tokens", "n_steps", "n_rows", "rows_each", "stride_p", "stride_r", "stride_s", "stride_d"]
ORDERS = ("interleaved", "sin_cos", "cos_sin", "sin")
DTYPES = ("fp16", "bf16", "fp32")


def variant(target, dtype, order, n=32, **changed):
    """The arguments that ``launch`` would give for ``n`` frequencies; nothing is assumed of any length."""
    columns = min(1 << (n - 1).bit_length(), 128)
    arguments = {
        "out": f"*{dtype}",
        "x": f"*{dtype}",
        "positions": "*i64",
        "frequencies": "*fp64",
        "phases": "*fp64",
        "scale": "*fp32",
        **dict.fromkeys(COUNTS, "i32"),
        "ORDER": order,
        "DIM": n if order == "sin" else 2 * n,
        "N": n,
        "UNIT": True,
        "ALIGNED": 16,
        "TOKENS": 1024 // columns,
        "COLUMNS": columns,
        "APPROXIMATE": target != "gfx942",
    }
    warps = 2 if target == "gfx942" else 4
    return {
        "target": target,
        "arguments": arguments | changed,
        "any_alignment": COUNTS,
        "num_warps": warps,
    }


def check(variants):
    for asked, code in zip(variants, compiled(KERNEL, variants), strict=True):
        arguments = asked["arguments"]
        name = f"{code.target} {arguments['x']} {arguments['ORDER']} {arguments['N']}"
        stores, loads = Counter(code.bytes_of("store")), Counter(code.bytes_of("load"))
        assert set(stores) == {16}, f"{name}: {stores}"
        # Frequencies are loaded once, 8 or 16 bytes at a time, the scale with 4: x by 16 alone.
        assert loads[16] >= stores[16], f"{name}: {loads}"
        assert loads[4] <= 1, f"{name}: {loads}"
        assert not set(loads) - {4, 8, 16}, f"{name}: {loads}"
        assert not code.has_local_memory, name
        assert code.spills == 0, name


def test_sixteen_bytes_at_a_time_and_nothing_beside_registers():
    check(
        [
            variant("sm_80", "bf16", "sin_cos"),
            variant("sm_90", "fp16", "interleaved"),
            variant("gfx942", "fp32", "interleaved"),
            variant("gfx942", "fp16", "sin", positions="*fp64"),
            variant("sm_90", "fp16", "interleaved", 36, ALIGNED=8),  # 72 features
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_all_of_it_for_every_target(target):
    check([variant(target, dtype, order, n) for dtype in DTYPES for order in ORDERS for n in (32, 64, 256)])


def test_strides_and_alignment_are_believed_as_given():
    aligned, odd = compiled(KERNEL, [variant("sm_90", "fp16", "interleaved", ALIGNED=n) for n in (16, 1)])
    assert 2 in odd.bytes_of("load")
    assert set(odd.bytes_of("store")) == {16}  # the output is always aligned
    parameters = re.findall(r"ld\.param\.\w+\s+(%\w+), \[sinusoid_kernel_param_(\d+)\]", aligned.text)
    strides = {register for register, place in parameters if int(place) in (8, 10, 11, 12)}  # and n_rows
    assert len(strides) == 4
    for line in re.findall(r"(?:mul|mad)\.lo\.[su]32.*", aligned.text):  # 64 bits and no fewer: H38
        assert not strides & set(re.findall(r"%\w+", line)), line
