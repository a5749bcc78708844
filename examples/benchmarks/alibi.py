"""ALiBi without a matrix: memory, time and numbers of causal attention, against a bias that is written out.

python examples/benchmarks/alibi.py

Every side runs in a process of its own, one thread, forward and backward; memory is the peak that it adds.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import time
from typing import Any

import torch
from measure import below, report
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from tabembed.nn import ALiBiEmbedding, attention
from tabembed.nn import attention_batch as batch_of

HEADS, DIM, LENGTH = 8, 64, 8192
NOW = 1_700_000_000 * 10**9


def heads(length: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    drawn = torch.Generator().manual_seed(0)
    return [torch.randn(1, HEADS, length, DIM, generator=drawn).to(dtype) for _ in range(3)]


def written_out(q: Tensor, k: Tensor, v: Tensor, bias: ALiBiEmbedding) -> Tensor:
    rows = torch.arange(q.shape[2])
    return scaled_dot_product_attention(q, k, v, attn_mask=bias.bias(rows, rows)[None])


SIDES = {
    "plain": lambda q, k, v, bias: attention(q, k, v),
    "tabembed": lambda q, k, v, bias: attention(q, k, v, bias=bias),
    "written out": written_out,
}


def side(name: str, length: int, slopes: str) -> None:
    """Print what one side takes; the first run, a short one, loads what torch loads late."""
    bias = ALiBiEmbedding(HEADS, mode="causal", slopes=slopes)
    for n in (300, length):
        q, k, v = (x.requires_grad_() for x in heads(n))
        direction = torch.ones_like(q)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        SIDES[name](q, k, v, bias).backward(direction)
    seconds = time.perf_counter() - start
    added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"MiB": added / 1024, "s": seconds}))


def peer(length: int) -> None:
    """Print what torchembed's module takes to make."""
    from torchembed.positional import ALiBiEmbedding as Peer

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    Peer(16, length)
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {"MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, "s": seconds}
        )
    )


def measured(*arguments: object) -> dict[str, float]:
    command = [sys.executable, __file__, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def exact(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
    """Softmax in float64, some rows at a time."""
    out = torch.empty(q.shape, dtype=torch.float64)
    for first in range(0, q.shape[2], 512):
        last = min(first + 512, q.shape[2])
        scores = q[:, :, first:last].double() @ k[:, :, :last].double().mT / math.sqrt(DIM)
        gaps = torch.arange(first, last).unsqueeze(-1) - torch.arange(last)
        scores -= slopes.double()[:, None, None] * gaps
        out[:, :, first:last] = scores.masked_fill_(gaps < 0, -math.inf).softmax(-1) @ v[:, :, :last].double()
    return out


def memory() -> list[dict[str, Any]]:
    rows = []
    for slopes in ("paper", "learned"):
        found = {name: measured("side", name, LENGTH, slopes) for name in SIDES}
        share = found["tabembed"]["MiB"] / found["written out"]["MiB"]
        row: dict[str, Any] = {"what": f"slopes: {slopes}"}
        for name, values in found.items():
            row |= {f"{name}, MiB": values["MiB"], f"{name}, s": values["s"]}
        rows.append(row | {"share of memory": share, "promised": "<= 0.1", "reached": share <= 0.1})
    return rows


def numbers() -> list[dict[str, Any]]:
    bias, unit = ALiBiEmbedding(HEADS, mode="causal"), "largest difference"
    q, k, v = heads(LENGTH)
    with torch.no_grad():
        truth = exact(q, k, v, bias.slopes)
        ours = attention(q, k, v, bias=bias)
        out = [below("blocks of 256, against float64", distance(ours, truth), 1e-5, unit)]
        shifted = attention(q, k, v, bias=bias, positions=torch.arange(LENGTH) + NOW)
        out.append(below("moved by Unix time in ns", distance(shifted, ours), 1e-5, unit))
        for dtype in (torch.bfloat16, torch.float16):
            a, b, c = (x[:, :, :2048].to(dtype) for x in (q, k, v))
            biased = exact(a, b, c, bias.slopes)
            own = distance(written_out(a, b, c, bias), biased)
            lost = distance(attention(a, b, c, bias=bias), biased)
            what = f"{dtype}; torch's own with the float32 bias written out: {own:.2g}"
            out.append(below(what, lost, 2 * own, unit))
        batch_of.ROWS, batch_of.STEEPEST = LENGTH, math.inf
        in_one = distance(attention(q, k, v, bias=bias), truth)
        out.append(below("one block, for comparison", in_one, math.inf, unit))
    return out


def distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max())


def construction() -> list[dict[str, Any]]:
    ALiBiEmbedding(16)
    start = time.perf_counter()
    made = [ALiBiEmbedding(16) for _ in range(100)]
    seconds = (time.perf_counter() - start) / len(made)
    stored = sum(buffer.numel() for buffer in made[0].buffers())
    theirs = measured("peer", LENGTH)
    peers = f"torchembed at {LENGTH}: {theirs['s']:.3g} s, {theirs['MiB']:.4g} MiB"
    return [below(f"construction, {stored} numbers stored; {peers}", seconds, 1e-3, "s")]


def main() -> None:
    report("alibi_construction", construction())
    report("alibi_numbers", numbers())
    report("alibi_memory", memory(), value="share of memory", unit="×", against="a bias written out")


if __name__ == "__main__":
    if sys.argv[1:2] == ["side"]:
        side(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1:2] == ["peer"]:
        peer(int(sys.argv[2]))
    else:
        main()
