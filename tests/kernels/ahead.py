"""Compile a kernel for a GPU that is not there, and read what was generated.

``compiled`` starts one process without the interpreter for a list of variants of a kernel.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}


@dataclass(frozen=True)
class Code:
    """What a compiler made of a kernel.

    Args:
        target: ``sm_80``, ``sm_90`` or ``gfx942``.
        text: PTX, or AMD's assembly.
        spills: bytes of registers and stack that did not fit, as the assembler reports them.
    """

    target: str
    text: str
    spills: int

    def bytes_of(self, what: str) -> list[int]:
        """Bytes a thread moves with each access to global memory; ``what`` is ``"load"`` or ``"store"``."""
        if self.target == "gfx942":
            suffixes = re.findall(rf"(?:global|buffer|flat)_{what}_(\S+)", self.text)
            sizes = {"dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4}
            return [sizes.get(s, 2 if "short" in s or "b16" in s else 1) for s in suffixes]
        word = {"load": "ld", "store": "st"}[what]
        found = re.findall(rf"{word}\.global(?:\.\w+)*?(?:\.v(\d))?\.[bfus](\d+)", self.text)
        return [int(n or 1) * int(bits) // 8 for n, bits in found]

    @property
    def has_local_memory(self) -> bool:
        """Whether a thread keeps anything outside its registers."""
        return bool(re.search(r"\.local\b|scratch_(?:load|store)", self.text))


def compiled(kernel: str, variants: list[dict[str, Any]]) -> list[Code]:
    """Compile a kernel in several variants.

    Args:
        kernel: ``"package.module:function"``.
        variants: each with ``target``; ``arguments``, a Triton type (``"*fp16"``, ``"i32"``) or, for a
            ``tl.constexpr``, its value, by name in order; optionally ``num_warps`` and ``maxnreg``;
            optionally ``any_alignment``, names of arguments that are no multiple of 16 (every other pointer
            and integer is).
    """
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, kernel],
        input=json.dumps(variants),
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [Code(**one) for one in json.loads(done.stdout.splitlines()[-1])]


def compile_one(function: Any, variant: dict[str, Any]) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    arguments = variant["arguments"]
    constants = {a.name for a in function.params if a.is_constexpr}
    signature = {name: "constexpr" if name in constants else kind for name, kind in arguments.items()}
    odd = {*variant.get("any_alignment", ()), *constants}
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, (name, kind) in enumerate(arguments.items())
        if name not in odd and (str(kind).startswith("*") or str(kind) in ("i32", "i64"))
    }
    source = ASTSource(
        fn=function,
        signature=signature,
        constexprs={name: arguments[name] for name in constants},
        attrs=aligned,
    )
    options = {name: variant[name] for name in ("num_warps", "maxnreg") if name in variant}
    code = triton.compile(source, target=GPUTarget(*TARGETS[variant["target"]]), options=options)
    text = code.asm.get("ptx") or code.asm["amdgcn"]
    return {"target": variant["target"], "text": text, "spills": spills(code)}


def spills(code: Any) -> int:
    """Bytes that the assembler put on the stack."""
    if "amdgcn" in code.asm:
        found = re.findall(r"\.(?:sgpr_spill_count|vgpr_spill_count):\s*(\d+)", code.asm["amdgcn"])
        return sum(map(int, found))
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(map(int, re.findall(r"(?:STACK|LOCAL):(\d+)", report)))


if __name__ == "__main__":
    module, name = sys.argv[1].split(":")
    sys.path.insert(0, os.getcwd())
    kernel = getattr(importlib.import_module(module), name)
    print(json.dumps([compile_one(kernel, variant) for variant in json.load(sys.stdin)]))
