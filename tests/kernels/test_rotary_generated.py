"""What the compiler makes of the rotation and of its sums, for GPUs that are not there."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product

import pytest
from kernels.ahead import TARGETS, compiled

pairs_triton = pytest.importorskip("tabembed.kernels.pairs_triton")
ROTATE = "tabembed.kernels.rotary_triton:rotate_kernel"
PRODUCTS = "tabembed.kernels.pair_products_triton:pair_products_kernel"
BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}
STRIDES = ["batch", "head", "step", "unit", "out_batch", "out_head", "out_step", "out_unit"]


def asked(target, arguments):
    """A variant as the launchers compile it: nothing is assumed of any size or stride."""
    sizes = [name for name, kind in arguments.items() if kind in ("i32", "i64")]
    options = pairs_triton.options(nvidia=target != "gfx942")
    return {"target": target, "arguments": arguments, "any_alignment": sizes, **options}


def tile(target, dtype, n_pairs, n_heads):
    return pairs_triton.tile(BYTES[dtype], n_pairs, n_heads, TARGETS[target][2])


def rotation(target, dtype, dim, interleaved, n_pairs=None, heads=(8, 2), decay=False, kind="i64", **changed):
    n_pairs = n_pairs or dim // 2
    sides, constants = {}, {}
    for x, n_heads in zip("qk", heads, strict=True):
        sides |= {x: f"*{dtype}", f"{x}_out": f"*{dtype}", f"{x}_positions": f"*{kind}"}
        sizes = ["steps", "tokens", "heads", "each", *STRIDES, "p_batch", "p_step"]
        sides |= {f"{x}_{size}": "i32" for size in sizes}
        steps, tiled = tile(target, dtype, n_pairs, n_heads)
        constants |= {f"{x.upper()}_{name}": value for name, value in (("ALIGNED", 16), ("UNIT", True))}
        constants[f"{x.upper()}_LIMIT"] = 10.0 if dtype == "fp16" else 80.0
        constants |= {f"{x.upper()}_TOKENS": steps, f"{x.upper()}_TILE": tiled}
    places = {"frequencies": "*fp64", "rates": "*fp64", "origin": f"*{kind}", "origin_batch": "i32"}
    constants |= {"N": n_pairs, "DIM": dim, "INTERLEAVED": interleaved, "INVERSE": True, "DECAY": decay}
    constants["APPROXIMATE"] = target != "gfx942"
    return asked(target, {"q_programs": "i32", **places, **sides, **constants} | changed)


def products(target, dtype, dim, interleaved):
    pointers = {"grad": f"*{dtype}", "output": f"*{dtype}", "products": "*fp32"}
    sizes = ["n_steps", "n_tokens", "n_heads"]
    sizes += [f"{x}_{stride}" for x in "go" for stride in STRIDES[:4]]
    steps, _ = tile(target, dtype, dim // 2, 1)
    constants = {"ALIGNED": 16, "UNIT": True, "TOKENS": steps, "N": dim // 2, "INTERLEAVED": interleaved}
    return asked(target, {**pointers, **dict.fromkeys(sizes, "i32"), **constants})


def check(kernel, variants):
    codes = compiled(kernel, variants)
    for variant, code in zip(variants, codes, strict=True):
        name = f"{code.target} {[v for v in variant['arguments'].values() if v not in ('i32', 'i64')]}"
        loads, stores = Counter(code.bytes_of("load")), Counter(code.bytes_of("store"))
        assert set(stores) == {16}, f"{name}: {stores}"
        # Positions and frequencies have 8 bytes and may come in twos: of the rest, all are features.
        assert not set(loads) - {8, 16}, f"{name}: {loads}"
        assert loads[16] >= (stores[16] if kernel == ROTATE else 4), f"{name}: {loads} {stores}"
        assert not code.has_local_memory, name
        assert code.spills == 0, name
    return codes


def check_addresses(code):
    """No stride is multiplied in 32 bits."""
    names = list(rotation("sm_90", "fp16", 64, False)["arguments"])
    strides = {names.index(f"{x}_{stride}") for x in "qk" for stride in STRIDES if "unit" not in stride}
    parameters = re.findall(r"ld\.param\.\w+\s+(%\w+), \[rotate_kernel_param_(\d+)\]", code.text)
    registers = {register for register, place in parameters if int(place) in strides}
    assert len(registers) == len(strides) == 12
    for line in re.findall(r"(?:mul|mad)\.lo\.[su]32.*", code.text):
        assert not registers & set(re.findall(r"%\w+", line)), line


def test_sixteen_bytes_at_a_time_nothing_beside_registers_and_addresses_of_64_bits():  # H38
    (code,) = check(ROTATE, [rotation("sm_90", "fp16", 64, False)])
    check_addresses(code)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_all_of_it_for_every_target(target):
    matrix = list(product(BYTES, (64, 128), (False, True)))
    variants = [rotation(target, *one) for one in matrix]
    variants += [rotation(target, *one, decay=True, kind="fp64") for one in matrix[::3]]
    variants += [rotation(target, *one, heads=(1, 1)) for one in matrix[1::3]]
    variants += [rotation(target, "fp16", 96, one, n_pairs=32) for one in (False, True)]  # a third passes
    check(ROTATE, variants)
    check(PRODUCTS, [products(target, *one) for one in matrix])


@pytest.mark.slow
def test_strides_of_64_bits_stay_so():
    wide = {f"{x}_{stride}": "i64" for x in "qk" for stride in STRIDES}
    (code,) = check(ROTATE, [rotation("sm_90", "fp16", 64, False, **wide)])
    check_addresses(code)


@pytest.mark.slow
def test_a_side_that_is_not_aligned_does_not_slow_the_other():
    (code,) = compiled(ROTATE, [rotation("sm_90", "fp16", 64, False, heads=(4, 4), K_ALIGNED=1)])
    stores = Counter(code.bytes_of("store"))
    assert stores[16] == 8  # a tile of 4 heads, both halves
    assert stores[2] == 8 * stores[16]
