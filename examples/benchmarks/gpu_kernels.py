"""The kernels on a GPU: right, and how fast against eager PyTorch, torch.compile, torchembed and Liger?

python examples/benchmarks/gpu_kernels.py

On a GPU it checks and times, in less than 8 minutes. Without one it checks, and runs everything once, on
small tensors in Triton's interpreter. Times are medians; the share is that of a copy's bandwidth, measured in
the same run.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is first imported

from measure import report  # noqa: E402
from torch import Tensor  # noqa: E402

from tabembed import ALiBiEmbedding, attention  # noqa: E402
from tabembed.functional.exact_phase import in_turns  # noqa: E402
from tabembed.kernels import gather, rotate, sinusoid, use_backend  # noqa: E402

DEVICE = "cuda" if GPU else "cpu"
SECONDS = 420  # after which nothing new is timed
START = time.monotonic()
EPOCH = 1_700_000_000 * 10**9  # nanoseconds

Times = Mapping[str, Callable[[], Any]]


def size(n: int) -> int:
    """A size for a GPU; a small one for the interpreter."""
    return n if GPU else min(n, 8)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False) if GPU else function


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, device=DEVICE).to(dtype)


def ladder(n: int) -> Tensor:
    return in_turns(10_000.0 ** (-torch.arange(n, dtype=torch.float64, device=DEVICE) / n))


# ---------------------------------------------------------------- are they right?


# The interpreter cuts bfloat16 off where a GPU rounds it.
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 4e-3 if GPU else 8e-3, torch.float16: 5e-4}


def compared(what: str, function: Callable[..., Any], *inputs: Tensor) -> dict[str, Any]:
    """One row: output and gradients against the formulas in float64, relative to the largest number.

    A gradient is summed from rounded products, so it may be off by four times as much.
    """

    def run(backend: str, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
        with use_backend(backend):
            outputs = _tuple(function(*leaves))
            loss = sum(
                (o * torch.linspace(-1, 1, o.numel(), device=DEVICE).view_as(o)).sum() for o in outputs
            )
            return list(outputs), list(torch.autograd.grad(loss, [x for x in leaves if x.requires_grad]))

    dtype = next(t.dtype for t in inputs if t.is_floating_point())
    ours = run("triton", list(inputs))
    truth = run("reference", [t.double() if t.is_floating_point() else t for t in inputs])
    output, gradient = (largest_error(*pair) for pair in zip(ours, truth, strict=True))
    return {
        "what": f"{what}, {dtype}",
        "output off by": output,
        "gradients off by": gradient,
        "promised": f"<= {LIMITS[dtype]:g}, {4 * LIMITS[dtype]:g}",
        "reached": output <= LIMITS[dtype] and gradient <= 4 * LIMITS[dtype],
    }


def largest_error(ours: list[Tensor], truth: list[Tensor]) -> float:
    """The largest difference, as a share of the largest number of its tensor."""
    pairs = zip(ours, truth, strict=True)
    return max(((a.double() - b).abs().max() / b.abs().max()).item() for a, b in pairs if b.numel())


def checks() -> list[dict[str, Any]]:
    batch, steps, dim = (4, 1031, 128) if GPU else (2, 5, 24)
    rows = []
    for dtype in LIMITS:
        q, k = drawn(batch, 4, steps, dim, dtype=dtype), drawn(batch, 2, steps, dim, dtype=dtype)
        moments = EPOCH + torch.randint(10**15, (batch, steps), device=DEVICE).cumsum(1)
        floats = torch.rand(batch, steps, dtype=torch.float64, device=DEVICE) * 5
        for layout in ("half", "interleaved"):
            turned = partial(_turned, interleaved=layout == "interleaved")
            per_ns, partly = ladder(dim // 2) / 10**9, ladder(dim // 2 - 3)
            rows.append(compared(f"rotate, {layout}, Unix ns", turned, q, k, moments, per_ns))
            rows.append(compared(f"rotate, {layout}, partial, real time", turned, q, k, floats, partly))
            backwards = partial(turned, inverse=True)
            rates = torch.linspace(0, 1, dim // 2 - 3, dtype=torch.float64, device=DEVICE)
            rows.append(compared(f"rotate back, {layout}, decay", backwards, q, k, floats, partly, rates))
        x, phases = drawn(1, batch, steps, dim, dtype=dtype), torch.rand(dim // 2, dtype=torch.float64)
        wave = floats[:1], ladder(dim // 2), phases.to(DEVICE), torch.ones(1, device=DEVICE)
        rows.append(compared("sinusoid", partial(sinusoid, order="interleaved"), x, *wave))
        sizes = [(7, 3), (1000, 16), (50, 33)]
        ids = torch.stack([torch.randint(-1, n + 1, (batch * steps,), device=DEVICE) for n, _ in sizes], -1)
        rows.append(compared("gather", _gathered, ids, *(drawn(*size, dtype=dtype) for size in sizes)))
    return [*rows, *attention_checks()]


def attention_checks() -> list[dict[str, Any]]:
    """ALiBi by extra channels of the keys, and by FlexAttention on a GPU, against the bias written out."""
    rows = []
    for mode, causal in (("causal", True), ("symmetric", False)):
        alibi = ALiBiEmbedding(4, mode=mode).to(DEVICE)
        q, k, v = (drawn(2, 4, 600, 32) for _ in range(3))
        places = torch.rand(600, device=DEVICE).cumsum(0)

        def written_out(q, k, v, places=places, alibi=alibi):
            bias = alibi.bias(places, places).to(q.dtype)
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)

        def ours(q, k, v, places=places, alibi=alibi, causal=causal):
            one_call = attention(q, k, v, bias=alibi, positions=places, causal=causal)
            return one_call if q.dtype == torch.float32 else written_out(q, k, v)

        rows.append(compared(f"attention, {mode} ALiBi", ours, q, k, v))
    return rows


def _turned(
    q: Tensor,
    k: Tensor,
    positions: Tensor,
    frequencies: Tensor,
    rates: Tensor | None = None,
    interleaved: bool = False,
    inverse: bool = False,
) -> Any:
    origin = None if rates is None else positions[:, -1]
    return rotate(q, k, positions, positions, frequencies, rates, origin, interleaved, inverse)


def _gathered(ids: Tensor, *tables: Tensor) -> Tensor:
    return gather(list(tables), ids)


def waits_for_nothing() -> dict[str, Any]:
    """One row: no kernel makes the host wait, and a recorded graph of them gives the same numbers again."""
    q, ids = drawn(2, 4, 64, 64), torch.randint(3, (10**6 if GPU else 100, 2), device=DEVICE)
    places, tables = torch.arange(64, device=DEVICE).unsqueeze(0), [drawn(3, 16), drawn(3, 5)]
    frequencies = ladder(32)

    def everything() -> tuple[Tensor, ...]:
        return (*rotate(q, q, places, places, frequencies), gather(tables, ids))

    first = everything()
    if GPU:
        torch.cuda.set_sync_debug_mode("error")
        everything()
        torch.cuda.set_sync_debug_mode("default")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            again = everything()
        graph.replay()
    else:
        again = everything()
    error = largest_error(list(again), [t.double() for t in first])
    return {
        "what": "no waiting, and replayed from a graph",
        "output off by": error,
        "gradients off by": 0.0,
        "promised": "the same numbers",
        "reached": error == 0,
    }


# ---------------------------------------------------------------- how fast?


def median_ms(function: Callable[[], Any]) -> float:
    import triton

    if not GPU:
        function()
        return math.nan
    return triton.testing.do_bench(function, warmup=25, rep=100, return_mode="median")


def copy_bandwidth() -> float:
    """Bytes a second, read and written."""
    source = torch.empty(2**30 if GPU else 1, dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * source.numel() / (median_ms(lambda: target.copy_(source)) / 1e3)


def timed(
    what: str, n_bytes: int, bandwidth: float, functions: Times, promised: dict[str, float]
) -> dict[str, Any]:
    """One row: our time and how many times faster than each peer; ``n_bytes`` must be moved at least."""
    row: dict[str, Any] = {"what": what, "ms": None, "share of copy": None}
    late = time.monotonic() - START > SECONDS
    for name in ("tabembed", "eager", "compile", "torchembed", "liger"):
        if late or name not in functions:
            found = None
        else:
            try:
                functions[name]()
                found = median_ms(functions[name])
            except Exception as error:  # a peer that cannot run this is no reason to lose the rest
                if name == "tabembed":
                    raise
                print(f"{what}: {name} failed: {error}", file=sys.stderr)
                found = None
        if name == "tabembed":
            row |= {"ms": found, "share of copy": found and n_bytes / (found / 1e3) / bandwidth}
        else:
            row[name] = found and row["ms"] and found / row["ms"]
    values = {**row, "share": row["share of copy"]}
    row["promised"] = ", ".join(f"{name} >= {least:g}" for name, least in promised.items())
    row["reached"] = (
        "not timed" if late or not GPU else all((values[n] or 0) >= least for n, least in promised.items())
    )
    return row


def with_gradient(function: Callable[..., Any], *leaves: Tensor) -> Callable[[], Any]:
    learned = [leaf.detach().requires_grad_() for leaf in leaves]
    outputs = function(*learned)
    outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
    grads = [torch.randn_like(o) for o in outputs]
    return lambda: torch.autograd.grad(_tuple(function(*learned)), learned, grads)


def _tuple(outputs: Any) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else outputs


def rotate_half(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    def half(x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)

    return q * cos + half(q) * sin, k * cos + half(k) * sin


def rotary_times(bandwidth: float) -> list[dict[str, Any]]:
    rows = []
    large = {"share": 0.8, "eager": 4, "compile": 1}
    for dtype, sizes, promised in (
        (torch.float16, (8, 32, 32, 4096, 128), large),
        (torch.bfloat16, (8, 32, 8, 4096, 128), large),
        (torch.float32, (8, 16, 16, 4096, 64), large),
        (torch.float32, (64, 4, 4, 32, 32), {"eager": 5}),
    ):
        batch, heads, k_heads, steps, dim = map(size, sizes)
        q, k = drawn(batch, heads, steps, dim, dtype=dtype), drawn(batch, k_heads, steps, dim, dtype=dtype)
        positions = torch.arange(steps, device=DEVICE).unsqueeze(0)
        seconds = positions.double().expand(batch, -1) if steps < 100 else positions
        inverse = 10_000.0 ** (-torch.arange(0, dim, 2, device=DEVICE) / dim)
        frequencies = ladder(dim // 2)

        def ours(q, k, positions=seconds, frequencies=frequencies):
            return rotate(q, k, positions, positions, frequencies)

        def formula(q, k, positions=seconds, inverse=inverse):
            angle = (positions.float().unsqueeze(-1) * inverse).repeat(1, 1, 2).unsqueeze(1)
            return rotate_half(q, k, angle.cos().to(q.dtype), angle.sin().to(q.dtype))

        angle = (positions[0].float().unsqueeze(-1) * inverse).repeat(1, 2)
        peers = rotary_peers(angle.cos(), angle.sin()) if steps > 100 else {}
        n_bytes = 2 * q.element_size() * (q.numel() + k.numel())
        name = f"rotary {tuple(q.shape)} + {k_heads} heads, {dtype}"
        functions = {"tabembed": ours, "eager": formula, "compile": compiled(formula), **peers}
        forward = {key: partial(function, q, k) for key, function in functions.items()}
        rows.append(timed(name, n_bytes, bandwidth, forward, promised))
        if time.monotonic() - START < SECONDS:
            both = {}
            for key, function in functions.items():
                try:
                    both[key] = with_gradient(function, q, k)
                except Exception as error:
                    print(f"{name}: {key} has no gradient: {error}", file=sys.stderr)
            rows.append(
                timed(f"{name}, with gradient", 2 * n_bytes, bandwidth, both, {"eager": 1, "compile": 1})
            )
    return rows


def rotary_peers(cos: Tensor, sin: Tensor) -> dict[str, Callable[..., Any]]:
    peers: dict[str, Callable[..., Any]] = {}
    try:
        from torchembed._triton import fused_rope_forward

        peers["torchembed"] = lambda q, k: fused_rope_forward(q, k, cos, sin)
    except ImportError:
        pass
    try:
        from liger_kernel.transformers.rope import liger_rotary_pos_emb

        peers["liger"] = lambda q, k: liger_rotary_pos_emb(
            q.clone(), k.clone(), cos[None].to(q.dtype), sin[None].to(q.dtype)
        )
    except ImportError:
        pass
    return peers


def sinusoid_times(bandwidth: float) -> list[dict[str, Any]]:
    x = drawn(*map(size, (64, 2048, 512)), dtype=torch.bfloat16)
    n = x.shape[2] // 2
    positions, frequencies = torch.arange(x.shape[1], device=DEVICE), ladder(n)
    phases, one = torch.zeros(n, dtype=torch.float64, device=DEVICE), torch.ones(1, device=DEVICE)
    inverse = 10_000.0 ** (-torch.arange(n, device=DEVICE) / n)

    def ours(x):
        return sinusoid(x.unsqueeze(0), positions.unsqueeze(0), frequencies, phases, one, "interleaved")[0]

    def formula(x):
        angle = positions.float().unsqueeze(-1) * inverse
        return x + torch.stack((angle.sin(), angle.cos()), -1).flatten(-2).to(x.dtype)

    functions = {"tabembed": ours, "eager": formula, "compile": compiled(formula)}
    forward = {key: partial(function, x) for key, function in functions.items()}
    n_bytes = 2 * x.numel() * x.element_size()
    return [
        timed(f"sinusoid {tuple(x.shape)}, bfloat16", n_bytes, bandwidth, forward, {"eager": 1, "compile": 1})
    ]


def gather_times(bandwidth: float) -> list[dict[str, Any]]:
    rows = []
    for n_rows in map(size, (1024, 65_536)):
        sizes = [(10 ** (2 + j % 4), (8, 16, 32, 64)[j % 4]) for j in range(26)]
        tables = [drawn(*size) for size in sizes]
        ids = torch.stack([torch.randint(n, (n_rows,), device=DEVICE) for n, _ in sizes], -1)

        def ours(*tables, ids=ids):
            return gather(list(tables), ids)

        def formula(*tables, ids=ids):
            looked_up = [torch.nn.functional.embedding(ids[:, j], table) for j, table in enumerate(tables)]
            return torch.cat(looked_up, -1)

        functions = {"tabembed": ours, "eager": formula, "compile": compiled(formula)}
        width = sum(d for _, d in sizes)
        n_bytes = 2 * n_rows * width * 4 + ids.numel() * 8
        forward = {key: partial(function, *tables) for key, function in functions.items()}
        rows.append(timed(f"gather, 26 columns, {n_rows} rows", n_bytes, bandwidth, forward, {"eager": 1}))
        both = {key: with_gradient(function, *tables) for key, function in functions.items()}
        rows.append(timed("the same, with gradient", 2 * n_bytes, bandwidth, both, {"eager": 1}))
    return rows


def attention_times(bandwidth: float) -> list[dict[str, Any]]:
    q, k, v = (drawn(1, 8, size(8192), size(64), dtype=torch.bfloat16) for _ in range(3))
    positions = torch.arange(q.shape[2], device=DEVICE)
    alibi = ALiBiEmbedding(8, mode="causal").to(DEVICE)

    def ours(q, k, v):
        return attention(q, k, v, bias=alibi, positions=positions)

    def materialised(q, k, v):
        bias = alibi.bias(positions, positions).to(q.dtype)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    functions = {"tabembed": ours, "eager": materialised}
    both = {key: with_gradient(function, q, k, v) for key, function in functions.items()}
    return [
        timed(f"causal ALiBi attention {tuple(q.shape)}, with gradient", 0, bandwidth, both, {"eager": 1})
    ]


if __name__ == "__main__":
    torch.manual_seed(0)
    rows = checks()
    with use_backend("triton"):
        rows.append(waits_for_nothing())
    report("gpu_kernels_checks", rows, value="output off by", unit="of the largest number")
    if GPU:
        print(torch.cuda.get_device_name(), torch.__version__)
    bandwidth = copy_bandwidth()
    print(f"a copy moves {bandwidth / 1e12:.2f} TB/s")
    sections = (rotary_times, sinusoid_times, gather_times, attention_times)
    with use_backend("triton"):
        times = [row for section in sections for row in section(bandwidth)]
    report("gpu_kernels", times, value="eager", unit="×", against="eager PyTorch")
    if not GPU:
        print("no GPU: nothing was timed")
    print(f"{time.monotonic() - START:.0f} s")
    sys.exit(not all(row["reached"] for row in rows + times))
