"""What the compiler makes of the kernels that look tables up, for GPUs that are not there."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from kernels.ahead import TARGETS, compiled

gather_triton = pytest.importorskip("tabembed.kernels.gather_triton")
SIDES = {"gather_kernel": "out", "gradient_kernel": "grad"}
BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}


def variant(kernel, any_alignment, target, dtype, vector, ids="*i64"):
    """The arguments that ``launch`` would give; nothing is assumed of any length or stride."""
    side = SIDES[kernel]
    counts = ["n_rows", "n_columns", "ids_stride", "ids_column_stride", f"{side}_chunks"]
    constants = {"VECTOR": vector, "ROWS": gather_triton._ROWS, "CHUNKS": gather_triton._CHUNKS}
    pointers = {side: f"*{dtype}", "tables": "*i64", "ids": ids}
    arguments = pointers | dict.fromkeys(counts, "i32") | constants
    return {"target": target, "arguments": arguments, "any_alignment": [*counts, *any_alignment]}


def check(kernel, variants, any_alignment=()):
    """Rows move as many bytes at a time as ``VECTOR`` holds; beside them only ids and places are read."""
    asked = [variant(kernel, any_alignment, *one) for one in variants]
    made = compiled(f"tabembed.kernels.gather_triton:{kernel}", asked)
    for (target, dtype, vector, *_), code in zip(variants, made, strict=True):
        loads, stores = Counter(code.bytes_of("load")), Counter(code.bytes_of("store"))
        what = f"{kernel} {target} {dtype} {vector}: {loads} {stores}"
        # A thread of AMD's has one chunk of a tile, one of NVIDIA's two.
        rows = Counter({vector * BYTES[dtype]: 1 if target == "gfx942" else 2})
        assert rows <= loads, what
        assert set(loads - rows) <= {4, 8}, what
        assert stores == (rows if kernel == "gather_kernel" else Counter()), what
        assert not code.has_local_memory, what
        assert code.spills == 0, what
        if kernel == "gradient_kernel":
            assert re.search(r"red\.global\.|atom\.global\.|global_atomic_(pk_)?add", code.text), what
            wide = target == "sm_90" and dtype == "fp32" and vector == 4
            assert ("red.global.gpu.relaxed.add.v4.f32" in code.text) == wide or dtype != "fp32", what


@pytest.mark.parametrize("kernel", SIDES)
def test_sixteen_bytes_at_a_time_where_rows_allow_it(kernel):
    check(kernel, [("sm_80", "bf16", 8), ("sm_90", "fp32", 4), ("gfx942", "fp32", 4, "*i32")])


def test_the_check_fails_where_memory_begins_anywhere():
    with pytest.raises(AssertionError, match=r"gather_kernel sm_90 fp32 4: .* Counter\(\{4: 8\}\)"):
        check("gather_kernel", [("sm_90", "fp32", 4)], any_alignment=["out"])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", SIDES)
def test_every_target_dtype_and_vector(kernel):
    kinds = [(dtype, 2**k) for dtype, size in BYTES.items() for k in range(5) if 2**k * size <= 16]
    check(kernel, [(target, *kind, ids) for target in TARGETS for kind in kinds for ids in ("*i64", "*i32")])
