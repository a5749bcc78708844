"""Slow scalar loops, written from the papers and sharing no code with the package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

TURN = 2 * Fraction(3141592653589793238462643383279502884197169399375105820974944592307816406286, 10**75)

Number = Fraction | float
Vector = list[float]
Table = Sequence[Sequence[float]]


def auto_size(n: int) -> int:
    """Howard & Gugger 2020: min(600, round(1.6 n^0.56))."""
    return min(600, round(1.6 * n**0.56))


def known_size(n: int) -> int:
    """The same of the known values, below their number, at least 1."""
    return max(1, min(n - 1, auto_size(n)))


def entity(i: int, table: Table, padding: int | None = None) -> Vector:
    """Row i; zeros for padding and out of range."""
    if i == padding or not 0 <= i < len(table):
        return [0.0] * len(table[0])
    return list(table[i])


def multi(ids: Sequence[int], tables: Sequence[Table], padding: int | None = None) -> Vector:
    """Rows of every column, one after the other."""
    vector: Vector = []
    for i, table in zip(ids, tables, strict=True):
        vector += entity(i, table, padding)
    return vector


def linear(x: float, missing: bool, weight: Vector, bias: Vector, missing_row: Vector) -> Vector:
    """Gorishniy et al. 2021, the feature tokenizer: w x + b; a learned row where missing."""
    if missing:
        return list(missing_row)
    return [w * x + b for w, b in zip(weight, bias, strict=True)]


def position(time: int, earliest: int, latest: int) -> float:
    """Where an instant stands between two others; Python's integers are exact."""
    return (time - earliest) / ((latest - earliest) or 1)


def mean(ids: Sequence[int], missing: bool, table: Table) -> Vector:
    """Mean of the rows of the ids that are no padding (0); row 1 for a missing cell; zeros of nothing."""
    if missing:
        return list(table[1])
    rows = [table[i] for i in ids if i != 0]
    total = [0.0] * len(table[0])
    for row in rows:
        for k, element in enumerate(row):
            total[k] += element
    return [t / max(1, len(rows)) for t in total]


def turns(n: Fraction | float) -> float:
    """Radians of n turns, without the whole ones (in [-pi, pi])."""
    part = Fraction(n) % 1
    return 2 * math.pi * float(part - round(part))


def radians(angle: Fraction | float) -> float:
    """An exact angle without its whole turns (in [-pi, pi])."""
    return turns(Fraction(angle) / TURN)


def dot(a: Sequence[float], b: Sequence[float]) -> Fraction:
    """The sum of products without rounding."""
    return sum((Fraction(p) * Fraction(q) for p, q in zip(a, b, strict=True)), Fraction(0))


def column(table: Table, k: int) -> Vector:
    """Column k of a table given by its rows."""
    return [row[k] for row in table]


def affine(x: Sequence[float], weight: Table, bias: Sequence[float]) -> Vector:
    """A linear layer, weight (out, in): sum_i weight[o][i] x[i] + bias[o]."""
    return [
        math.fsum([*(w * e for w, e in zip(row, x, strict=True)), b])
        for row, b in zip(weight, bias, strict=True)
    ]


def waves(angles: Sequence[float], order: str) -> Vector:
    """All cosines, then all sines ("cos_sin"), or the other way round ("sin_cos")."""
    cosines, sines = [math.cos(a) for a in angles], [math.sin(a) for a in angles]
    return {"cos_sin": cosines + sines, "sin_cos": sines + cosines}[order]


def relu(x: float) -> float:
    """Nair & Hinton 2010: max(0, x)."""
    return max(0.0, x)


def silu(x: float) -> float:
    """Elfwing et al. 2018, eq. 1: x sigmoid(x)."""
    if x >= 0:
        return x / (1 + math.exp(-x))
    return x * math.exp(x) / (1 + math.exp(x))


def kernel(name: str, x: Vector, y: Vector, lengthscale: Vector) -> float:
    """Rasmussen & Williams 2006, eq. 4.9, 4.14, 4.17 (rbf, Matern); Rahimi & Recht 2007, fig. 1 (L1)."""
    delta = [(a - b) / scale for a, b, scale in zip(x, y, lengthscale, strict=True)]
    r = math.sqrt(math.fsum(d * d for d in delta))
    if name == "rbf":
        return math.exp(-r * r / 2)
    if name == "matern12":
        return math.exp(-r)
    if name == "matern32":
        return (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)
    if name == "matern52":
        return (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)
    if name == "laplacian":
        return math.exp(-math.fsum(abs(d) for d in delta))
    raise KeyError(name)


def random_features(
    x: Vector,
    W: Table,
    lengthscale: Vector,
    kind: str,
    offset: Vector | None = None,
    n_out: int | None = None,
) -> Vector:
    """Rahimi & Recht 2007, alg. 1: sqrt(2/D) [cos xW, sin xW], or sqrt(2/D) cos(xW + b); D = n_out."""
    scaled = [Fraction(e) / Fraction(scale) for e, scale in zip(x, lengthscale, strict=True)]
    angles = [
        sum((e * Fraction(w) for e, w in zip(scaled, column(W, k), strict=True)), Fraction(0))
        for k in range(len(W[0]))
    ]
    if kind == "sincos":
        features = waves([radians(a) for a in angles], "cos_sin")
    elif kind == "cos":
        assert offset is not None
        features = [math.cos(radians(a + Fraction(b))) for a, b in zip(angles, offset, strict=True)]
    else:
        raise KeyError(kind)
    return [math.sqrt(2 / (n_out or len(features))) * f for f in features]


def gaussian_projection(t: float, W: Vector, order: str, log: bool = False) -> Vector:
    """Tancik et al. 2020, eq. 5, of one number: sin and cos of 2 pi t W; of ln t where asked."""
    time = math.log(t) if log else t
    return waves([turns(Fraction(time) * Fraction(w)) for w in W], order)


def learned_fourier(x: Vector, F: Table, weight: Table, bias: Vector) -> Vector:
    """Li & Pathak 2021, the Fourier layer: [cos 2 pi xF, sin 2 pi xF] through a linear layer."""
    return affine(waves([turns(dot(x, column(F, k))) for k in range(len(F[0]))], "cos_sin"), weight, bias)


def timestep(t: float, dim: int, order: str, freq_shift: float, scale: float, max_period: float) -> Vector:
    """Vaswani et al. 2017, sect. 3.5, in halves: scale t max_period^(-i/(half - shift)); odd: a last 0."""
    half = dim // 2
    angles = []
    for i in range(half):
        f = math.exp(-math.log(max_period) * i / (half - freq_shift))
        angles.append(radians(Fraction(scale) * Fraction(t) * Fraction(f)))
    return waves(angles, order) + [0.0] * (dim % 2)


def periodic(x: float, c: Vector, W: Table, b: Vector, activation: bool) -> Vector:
    """Gorishniy et al. 2022, eq. 2 and PLR: ReLU(b + [cos 2 pi c x, sin 2 pi c x] W), W (2k, d)."""
    code = waves([turns(Fraction(f) * Fraction(x)) for f in c], "cos_sin")
    out = [
        math.fsum([*(e * w for e, w in zip(code, column(W, o), strict=True)), b[o]]) for o in range(len(b))
    ]
    return [relu(e) for e in out] if activation else out


def periodic_bias(x: float, c: Vector, phi: Vector, W: Table, b: Vector) -> Vector:
    """Holzmueller et al. 2024, RealMLP's PBLD: [x, b + cos(2 pi c x + phi) W], W (k, d - 1)."""
    angles = [TURN * Fraction(f) * Fraction(x) + Fraction(p) for f, p in zip(c, phi, strict=True)]
    code = [math.cos(radians(a)) for a in angles]
    return [x] + [
        math.fsum([*(e * w for e, w in zip(code, column(W, o), strict=True)), b[o]]) for o in range(len(b))
    ]


def piecewise_code(x: float, edges: Vector, extrapolate: bool = True) -> Vector:
    """Gorishniy et al. 2022, eq. 1 (PLE): shares of the bins below x; outer bins open, or clipped."""
    code = []
    n_bins = len(edges) - 1
    for t in range(n_bins):
        share = (x - edges[t]) / (edges[t + 1] - edges[t])
        if share < 0 and not (extrapolate and t == 0):
            share = 0.0
        if share > 1 and not (extrapolate and t == n_bins - 1):
            share = 1.0
        code.append(share)
    return code


def piecewise_a(x: float, edges: Vector, W: Table, b: Vector) -> Vector:
    """Gorishniy et al. 2022, PL: b + sum_t PLE_t(x) W[t], W (T, d)."""
    code = piecewise_code(x, edges)
    return [b[o] + math.fsum(e * row[o] for e, row in zip(code, W, strict=True)) for o in range(len(b))]


def piecewise_b(x: float, edges: Vector, W: Table, w0: Vector, b0: Vector) -> Vector:
    """Gorishniy et al. 2025 (TabM), version B: w0 x + b0 + sum_t PLE_t(x) W[t]."""
    return [w * x + e for w, e in zip(w0, piecewise_a(x, edges, W, b0), strict=True)]


def cyclic(x: Fraction | float, period: Fraction | float, n_harmonics: int) -> Vector:
    """Fourier's series: sin and cos of 2 pi h x / period, pair by pair; x / period is exact."""
    vector: Vector = []
    for h in range(1, n_harmonics + 1):
        angle = turns(h * Fraction(x) / Fraction(period))
        vector += [math.sin(angle), math.cos(angle)]
    return vector


def frequency(t: float, f: Vector, phi: Vector, amp: Vector, bias: Vector) -> Vector:
    """Kazemi et al. 2019, eq. 1, with amplitudes: amp [t, sin(f t + phi)] + bias."""
    waved = [math.sin(radians(Fraction(w) * Fraction(t) + Fraction(p))) for w, p in zip(f, phi, strict=True)]
    return [a * e + b for a, e, b in zip(amp, [t, *waved], bias, strict=True)]


def timestamp(position: float, W: Vector, layers: Sequence[tuple[Table, Vector]]) -> Vector:
    """Tancik et al. 2020, eq. 5 (sines first) of where an instant stands, then the MLP of Ho et al. 2020."""
    return mlp(gaussian_projection(position, W, "sin_cos"), layers)


def film(x: Vector, gamma: Vector, beta: Vector) -> Vector:
    """Perez et al. 2018, eq. 2, gamma counted from 1: (1 + gamma) x + beta."""
    return [(1 + g) * e + b for e, g, b in zip(x, gamma, beta, strict=True)]


def ada_layer_norm(x: Vector, scale: Vector, shift: Vector, eps: float = 1e-6) -> Vector:
    """Peebles & Xie 2023, adaLN: (1 + scale) LN(x) + shift; LN without affine (Ba et al. 2016)."""
    middle = math.fsum(x) / len(x)
    variance = math.fsum((e - middle) ** 2 for e in x) / len(x)
    return film([(e - middle) / math.sqrt(variance + eps) for e in x], scale, shift)


def mlp(x: Vector, layers: Sequence[tuple[Table, Vector]]) -> Vector:
    """Ho et al. 2020, the time MLP: linear layers, weight (out, in), with a SiLU between two."""
    for number, (weight, bias) in enumerate(layers):
        x = affine([silu(e) for e in x] if number else x, weight, bias)
    return x


def ladder(n: int, dim: int, base: float = 10_000.0) -> Vector:
    """Vaswani et al. 2017, sect. 3.5; Su et al. 2021, eq. 15: base^(-2i/dim) radians per unit."""
    return [base ** (-2 * i / dim) for i in range(n)]


def frequencies_from_periods(shortest: float, longest: float, n: int) -> Vector:
    """Radians per unit of n periods, each the same number of times longer than the one before."""
    share = [i / (n - 1) if n > 1 else 0.0 for i in range(n)]
    return [2 * math.pi / (shortest * (longest / shortest) ** s) for s in share]


def pairs(width: int, layout: str) -> list[tuple[int, int]]:
    """Which two features turn together: (i, i + width/2) or (2i, 2i + 1)."""
    n = width // 2
    return [{"half": (i, i + n), "interleaved": (2 * i, 2 * i + 1)}[layout] for i in range(n)]


def rotary(
    x: Vector, position: Number, frequencies: Vector, layout: str = "half", inverse: bool = False
) -> Vector:
    """Su et al. 2021, eq. 34 (eq. 13 by pair): pair i turns by position f_i; what has no f stays."""
    out = list(x)
    for (a, b), f in zip(pairs(2 * len(frequencies), layout), frequencies, strict=True):
        angle = radians(Fraction(position) * Fraction(f)) * (-1 if inverse else 1)
        out[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
        out[b] = x[a] * math.sin(angle) + x[b] * math.cos(angle)
    return out


def rotary_backward(grad: Vector, position: Number, frequencies: Vector, layout: str = "half") -> Vector:
    """What reaches x: g cos - rotate(g) sin, where rotate(a, b) = (-b, a)."""
    out = list(grad)
    for (a, b), f in zip(pairs(2 * len(frequencies), layout), frequencies, strict=True):
        angle = radians(Fraction(position) * Fraction(f))
        out[a] = grad[a] * math.cos(angle) - -grad[b] * math.sin(angle)
        out[b] = grad[b] * math.cos(angle) - grad[a] * math.sin(angle)
    return out


def rotary_gradients(
    rows: Table, grads: Table, position: Number, frequencies: Vector, layout: str = "half"
) -> tuple[list[Vector], float, Vector]:
    """What reaches the heads of one position, the position, and the frequencies; an angle gets
    sum of g_b y_a - g_a y_b over the heads."""
    turned = [rotary(list(x), position, frequencies, layout) for x in rows]
    angles = [
        math.fsum(g[b] * y[a] - g[a] * y[b] for y, g in zip(turned, grads, strict=True))
        for a, b in pairs(2 * len(frequencies), layout)
    ]
    reached = [rotary_backward(list(g), position, frequencies, layout) for g in grads]
    of_position = math.fsum(f * a for f, a in zip(frequencies, angles, strict=True))
    return reached, of_position, [float(Fraction(position) * Fraction(a)) for a in angles]


def sinusoidal(
    position: Number, dim: int, base: float = 10_000.0, frequencies: Vector | None = None
) -> Vector:
    """Vaswani et al. 2017, sect. 3.5: sin, cos, sin, cos ...; an odd width lacks the last cosine."""
    code: Vector = []
    for f in frequencies or ladder((dim + 1) // 2, dim, base):
        angle = radians(Fraction(position) * Fraction(f))
        code += [math.sin(angle), math.cos(angle)]
    return code[:dim]


def alibi_slopes(n_heads: int) -> Vector:
    """Press et al. 2022, sect. 3: 2^(-8h/n); for other n, of the power of two below, then every second
    one of the power above."""
    below = 2 ** (n_heads.bit_length() - 1)
    first = [2.0 ** (-8 * h / below) for h in range(1, below + 1)]
    above = [2.0 ** (-8 * h / (2 * below)) for h in range(1, 2 * below + 1)]
    return first + above[::2][: n_heads - below]


def alibi_bias(query: Number, key: Number, slope: float, unit: float = 1.0, mode: str = "symmetric") -> float:
    """Press et al. 2022, sect. 3: -slope times the distance in units; -inf for the future if causal."""
    distance = (Fraction(query) - Fraction(key)) / Fraction(unit)
    if mode == "causal" and distance < 0:
        return -math.inf
    return -float(Fraction(slope) * abs(distance))


def decay(elapsed: Number, half_life: Number) -> float:
    """Half after every half-life; 1 for what is still to come."""
    return 2.0 ** -float(max(Fraction(0), Fraction(elapsed)) / Fraction(half_life))


def decayed_score(q: Vector, k: Vector, elapsed: Number, half_lives: Vector) -> float:
    """Sun et al. 2022 (xPos), eq. 13 without rotation: each product fades with what lies between."""
    fade = [2.0 ** -float(Fraction(elapsed) / Fraction(h)) for h in half_lives]
    return math.fsum(a * b * w for a, b, w in zip(q, k, fade, strict=True))


def attention(
    q: Vector, keys: Table, values: Table, bias: Vector | None = None, mask: Sequence[bool] | None = None
) -> Vector:
    """Vaswani et al. 2017, eq. 1, of one query; zeros where it may look at nothing."""
    score = [math.fsum(a * b for a, b in zip(q, key, strict=True)) / math.sqrt(len(q)) for key in keys]
    score = [s + b for s, b in zip(score, bias or [0.0] * len(keys), strict=True)]
    score = [s if seen else -math.inf for s, seen in zip(score, mask or [True] * len(keys), strict=True)]
    top = max(score)
    weight = [math.exp(s - top) if s > -math.inf else 0.0 for s in score]
    total = math.fsum(weight) or 1.0
    return [
        math.fsum(w * row[o] for w, row in zip(weight, values, strict=True)) / total
        for o in range(len(values[0]))
    ]


def row_positions(mask: Sequence[bool]) -> list[int]:
    """0, 1, 2 ... over the real rows, 0 for padding."""
    return [sum(mask[:i]) if real else 0 for i, real in enumerate(mask)]


def token(i: int, table: Table, padding: int | None = None) -> Vector:
    """Vaswani et al. 2017, sect. 3.4: the row times sqrt(d)."""
    return [math.sqrt(len(table[0])) * e for e in entity(i, table, padding)]


def learned_position(x: Vector, position: int, table: Table, padding: int | None = None) -> Vector:
    """Gehring et al. 2017, sect. 3.1: x plus the row of its position."""
    return [e + p for e, p in zip(x, entity(position, table, padding), strict=True)]


def temporal_position(
    x: Vector, position: Number, frequencies: Vector, rates: Vector, horizon: Number
) -> tuple[Vector, Vector]:
    """The rotated token times sigmoid(-t w), and that factor; t is the position in horizons."""
    t = float(Fraction(position) / Fraction(horizon))
    factor = [1 / (1 + math.exp(t * w)) for w in rates]
    return [e * f for e, f in zip(rotary(x, position, frequencies), factor, strict=True)], factor


def gather_gradients(ids: Sequence[Sequence[int]], grads: Table, tables: Sequence[Table]) -> list[Table]:
    """What reaches the tables from ``multi`` of many rows; an id out of range reaches none."""
    reached: list[Any] = [[[0.0] * len(table[0]) for _ in table] for table in tables]
    for row, grad in zip(ids, grads, strict=True):
        parts = iter(grad)
        for i, table in zip(row, reached, strict=True):
            part = [next(parts) for _ in table[0]]
            if 0 <= i < len(table):
                table[i] = [a + b for a, b in zip(table[i], part, strict=True)]
    return reached


# Rows of an entity in time

SECOND = 10**9  # nanoseconds


def last_present(cells: Sequence[Any]) -> Any:
    """The last cell that is not missing (None), if there is one."""
    found = None
    for cell in cells:
        if cell is not None:
            found = cell
    return found


def merged_rows(
    places: list[int], times: Sequence[int], columns: dict[str, list[Any]]
) -> tuple[list[int], dict[str, list[Any]], list[tuple[int, int]]]:
    """One row an instant: of each column the last present cell; it stands at the place of the last of
    them. The others, with the place that stands for them."""
    kept: list[int] = []
    cells: dict[str, list[Any]] = {name: [] for name in columns}
    gone: list[tuple[int, int]] = []
    start = 0
    while start < len(places):
        stop = start
        while stop < len(places) and times[places[stop]] == times[places[start]]:
            stop += 1
        same = places[start:stop]
        kept.append(same[-1])
        for name, column in columns.items():
            cells[name].append(last_present([column[p] for p in same]))
        gone += [(p, same[-1]) for p in same[:-1]]
        start = stop
    return kept, cells, gone


def sequences(
    entities: Sequence[Any],
    times: Sequence[int | None],
    columns: dict[str, list[Any]],
    *,
    observed: Sequence[str] = (),
    ties: str = "stable",
    max_events: int | None = None,
    cutoff: int | None = None,
) -> list[dict[str, Any]]:
    """Every entity's rows by time and, within an instant, by place; entities by key.

    Rows without a key or a time are left out. Times are nanoseconds, elapsed and gap seconds: facts of
    all rows of the entity, also of those that ``max_events`` then cuts. At the cutoff nothing observed is
    known yet; after it there is nothing.
    """
    groups: dict[Any, list[int]] = {}
    for place, (entity, time) in enumerate(zip(entities, times, strict=True)):
        if entity is None or time is None or (cutoff is not None and time > cutoff):
            continue
        groups.setdefault(entity, []).append(place)
    found = []
    for entity in sorted(groups):
        places: list[int] = []
        for place in groups[entity]:  # insertion: behind everything that is not later
            at = len(places)
            while at > 0 and times[places[at - 1]] > times[place]:  # type: ignore[operator]
                at -= 1
            places.insert(at, place)
        known = {name: list(cells) for name, cells in columns.items()}
        for name in observed:
            for place in places:
                if times[place] == cutoff:
                    known[name][place] = None
        gone: list[tuple[int, int]] = []
        if ties == "merge":
            places, cells, gone = merged_rows(places, times, known)  # type: ignore[arg-type]
        else:
            cells = {name: [column[p] for p in places] for name, column in known.items()}
        when = [times[p] for p in places]
        elapsed = [(t - when[0]) / SECOND for t in when]  # type: ignore[operator]
        gap = [math.nan] + [(b - a) / SECOND for a, b in zip(when, when[1:], strict=False)]  # type: ignore[operator]
        first = max(0, len(places) - max_events) if max_events is not None else 0
        found.append(
            {
                "entity": entity,
                "row": places[first:],
                "times": when[first:],
                "elapsed": elapsed[first:],
                "gap": gap[first:],
                "cells": {name: column[first:] for name, column in cells.items()},
                "merged": [pair for pair in gone if pair[1] in places[first:]],
            }
        )
    return found


def seen_rows(times: Sequence[int], i: int, strict: bool = False) -> list[int]:
    """What row i may look at: itself and those before it; strictly, none of its own instant but itself."""
    return [j for j in range(i + 1) if j == i or not strict or times[j] < times[i]]


def carried_rows(times: Sequence[int], i: int, strict: bool = False) -> list[int]:
    """Whose observed cells row i knows: the row before; strictly, all of the last instant before its own."""
    if not strict:
        return [i - 1] if i else []
    earlier = [t for t in times[:i] if t < times[i]]
    return [j for j in range(i) if earlier and times[j] == max(earlier)]


def carried(vectors: Table, times: Sequence[int], i: int, first: Vector, strict: bool = False) -> Vector:
    """Mean of the observed vectors that row i knows; a learned vector where there are none."""
    rows = [vectors[j] for j in carried_rows(times, i, strict)]
    if not rows:
        return list(first)
    return [math.fsum(part) / len(rows) for part in zip(*rows, strict=True)]


def layer_norm(x: Vector, weight: Vector, bias: Vector, eps: float = 1e-5) -> Vector:
    """Ba et al. 2016, eq. 4, with gain and bias."""
    middle = math.fsum(x) / len(x)
    spread = math.sqrt(math.fsum((e - middle) ** 2 for e in x) / len(x) + eps)
    return [w * (e - middle) / spread + b for e, w, b in zip(x, weight, bias, strict=True)]


def gelu(x: float) -> float:
    """Hendrycks & Gimpel 2016: x times the normal distribution function."""
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def time_score(q: Vector, k: Vector, t: Number, s: Number, head: int, scheme: dict[str, Any]) -> float:
    """A score of a query at t with a key at s, by the scheme: waves, a line, or a decay; before softmax."""
    bias = 0.0
    if "frequencies" in scheme:
        q, k = rotary(q, t, scheme["frequencies"]), rotary(k, s, scheme["frequencies"])
    if "slopes" in scheme:
        bias = alibi_bias(t, s, scheme["slopes"][head], scheme["unit"], "causal")
    half_lives = scheme.get("half_lives", [math.inf] * len(q))
    fade = [2.0 ** -(float(Fraction(t) - Fraction(s)) / h) for h in half_lives]
    return math.fsum(a * b * w for a, b, w in zip(q, k, fade, strict=True)) / math.sqrt(len(q)) + bias


def attend(
    q: Table,
    k: Table,
    v: Table,
    positions: Sequence[Number],
    n_heads: int,
    scheme: dict[str, Any],
    seen: Sequence[Sequence[int]],
) -> list[Vector]:
    """Vaswani et al. 2017, sect. 3.2.2: heads side by side, each row over what it may look at."""
    width = len(q[0]) // n_heads
    out: list[Vector] = []
    for i in range(len(q)):
        row: Vector = []
        for head in range(n_heads):
            part = slice(head * width, (head + 1) * width)
            scores = [
                time_score(list(q[i][part]), list(k[j][part]), positions[i], positions[j], head, scheme)
                for j in seen[i]
            ]
            nothing = [0.0] * width
            row += attention(nothing, [nothing] * len(seen[i]), [v[j][part] for j in seen[i]], scores)
        out.append(row)
    return out


def block(
    rows: Table,
    positions: Sequence[Number],
    weights: dict[str, Any],
    n_heads: int,
    scheme: dict[str, Any],
    seen: Sequence[Sequence[int]],
) -> list[Vector]:
    """Xiong et al. 2020, fig. 1 (pre-norm): x + attention(LN x), then x + MLP(LN x).

    ``weights``: norm1, norm2, up, down, out as (weight, bias), and query, key, value as well.
    """
    normed = [layer_norm(list(x), *weights["norm1"]) for x in rows]
    q, k, v = ([affine(x, *weights[name]) for x in normed] for name in ("query", "key", "value"))
    mixed = attend(q, k, v, positions, n_heads, scheme, seen)
    rows = [add(x, affine(m, *weights["out"])) for x, m in zip(rows, mixed, strict=True)]
    hidden = [[gelu(e) for e in affine(layer_norm(x, *weights["norm2"]), *weights["up"])] for x in rows]
    return [add(x, affine(h, *weights["down"])) for x, h in zip(rows, hidden, strict=True)]


def add(x: Sequence[float], y: Sequence[float]) -> Vector:
    """Element by element."""
    return [a + b for a, b in zip(x, y, strict=True)]


def sigmoid(x: float) -> float:
    """1 / (1 + e^-x)."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def gru_step(x: Vector, h: Vector, w_x: Table, w_h: Table, b_x: Vector, b_h: Vector) -> Vector:
    """Cho et al. 2014, eq. 5 to 8, the reset gate after the product: rows of a weight are r, z, n."""
    d = len(h)
    of_x, of_h = affine(x, w_x, b_x), affine(h, w_h, b_h)
    out = []
    for i in range(d):
        r = sigmoid(of_x[i] + of_h[i])
        z = sigmoid(of_x[d + i] + of_h[d + i])
        n = math.tanh(of_x[2 * d + i] + r * of_h[2 * d + i])
        out.append((1 - z) * n + z * h[i])
    return out


def pooled(rows: Table, times: Sequence[Number], how: str, half_life: Number = 1) -> Vector:
    """The last row, the mean of all, or their mean with weights halved every half-life before the last."""
    if how == "last":
        return list(rows[-1])
    weight = [1.0] * len(rows)
    if how == "decay":
        weight = [decay(Fraction(times[-1]) - Fraction(t), half_life) for t in times]
    total = math.fsum(weight)
    return [
        math.fsum(w * row[o] for w, row in zip(weight, rows, strict=True)) / total
        for o in range(len(rows[0]))
    ]


def gap_features(gap: float | None, gaps: Sequence[float], span: float, n_bins: int = 8) -> list[float]:
    """Piecewise-linear code of log(1 + gap / 1 % gap), each bin from -1 to 1, and 1 where there is no gap.

    Edges: 0, quantiles of the gaps of a fit, and the longest span; an edge that is within 0.02 of the one
    before is left out. All in seconds.
    """
    given = list(gaps) or [span or 1.0]
    unit = max(given[round(0.01 * (len(given) - 1))], 1e-9)
    typical = max(given[round(0.5 * (len(given) - 1))], 1e-9)
    quantiles = [gaps[round(i * (len(gaps) - 1) / n_bins)] for i in range(n_bins + 1)] if gaps else []
    edges: list[float] = []
    for edge in [0.0, *quantiles, max(span, typical)]:
        place = math.log(1 + edge / unit)
        if not edges or place - edges[-1] >= 0.02:
            edges.append(place)
    if gap is None:
        return [0.0] * (len(edges) - 1) + [1.0]
    place = min(math.log(1 + gap / unit), edges[-1])
    code = []
    for low, high in zip(edges, edges[1:], strict=False):
        code.append(2 * min(max((place - low) / (high - low), 0.0), 1.0) - 1)
    return [*code, 0.0]
