"""Sequences of events for tests, padded anyhow, and ``SequenceEmbedding`` row by row in float64."""

from __future__ import annotations

import math

import reference
import torch
from torch import nn
from torch.nn import functional as F

from tabembed.batch import Ragged
from tabembed.nn import SequenceEmbedding
from tabembed.schema import (
    CategoricalColumn,
    ContinuousColumn,
    DatetimeColumn,
    ListColumn,
    SequenceSchema,
    TableSchema,
)

START = 1_700_000_000 * 10**9
HALF_HOUR = 1800 * 10**9
LENGTHS = (5, 1, 0, 9)
SCHEMES = ("rotary", "alibi", "decay", "sinusoidal", "learned", None, "gru")
NUMBERS = (8, 1, 0.0, 1.0, -2.0, 2.0, 0.0, 1.0, (-2.0, 2.0), (-2.0, 2.0), (4, 4))
COLUMNS = (
    ContinuousColumn("late", *NUMBERS),
    CategoricalColumn("city", (0, 1, 1, 3, 2, 1, 1)),
    DatetimeColumn("due", 8, 1, START, START + 9 * HALF_HOUR, "UTC"),
    CategoricalColumn("outcome", (0, 0, 0, 5, 3)),
    ContinuousColumn("distance", *NUMBERS),
    ListColumn("tags", (0, 0, 1, 4, 3, 2)),
)
OBSERVED = ("late", "outcome")


def schema_of(*, observed=OBSERVED, strict=False, columns=COLUMNS, gaps=(900.0, 1800.0, 3600.0)):
    return SequenceSchema(TableSchema(9, columns), observed, strict, 3, 9, 9 * 1800.0, gaps)


def net_of(position="rotary", *, clock="time", seed=0, d_model=32, schema=None, **arguments):
    """A small module whose weights are large enough that everything shows."""
    net = SequenceEmbedding(
        schema or schema_of(), position, clock=clock, d_model=d_model, seed=seed, **arguments
    )
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if name.startswith("tokens.") and "weights" in name or "first" in name:
                weight.mul_(30)
    return net.eval()


def drawn(n, seed=0, columns=COLUMNS):
    """Rows and times of one sequence, some of them at one instant, and lists of 0 to 3 tags."""
    generator = torch.Generator().manual_seed(seed)
    table = TableSchema(0, columns)
    times = torch.randint(0, 2 * n + 1, (n,), generator=generator).sort().values * HALF_HOUR + START
    cities = [torch.randint(column.n_ids, (n,), generator=generator) for column in table.categorical]
    length = torch.randint(4, (n,), generator=generator)
    offsets = torch.cat((length.new_zeros(1), length.cumsum(0)))
    cells = Ragged(torch.randint(6, (int(offsets[-1]),), generator=generator), offsets, length == 9)
    rows = {
        "ids": torch.stack(cities, 1) if cities else torch.zeros(n, 0, dtype=torch.int64),
        "values": torch.randn(n, len(table.continuous), generator=generator),
        "missing": torch.rand(n, len(table.continuous), generator=generator) < 0.3,
        "times": START + torch.randint(0, 9, (n, len(table.datetime)), generator=generator) * HALF_HOUR,
        "lists": {column.name: cells for column in table.lists},
    }
    return rows, times


def some(seed=0):
    return [drawn(n, seed + i) for i, n in enumerate(LENGTHS)]


def joined(cells):
    """Lists of several sequences, one after the other."""
    lengths = torch.cat([one.offsets.diff() for one in cells])
    offsets = torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))
    return Ragged(torch.cat([one.ids for one in cells]), offsets, torch.cat([one.missing for one in cells]))


def packed(parts):
    rows = {name: torch.cat([own[name] for own, _ in parts]) for name in parts[0][0] if name != "lists"}
    rows["lists"] = {name: joined([own["lists"][name] for own, _ in parts]) for name in parts[0][0]["lists"]}
    ends = torch.tensor([0, *(len(times) for _, times in parts)]).cumsum(0)
    return {"rows": rows, "times": torch.cat([times for _, times in parts]), "cu_seqlens": ends}


def places(side, i, n, size):
    if side == "left":
        return torch.arange(size - n, size)
    if side == "right":
        return torch.arange(n)
    return torch.randperm(size, generator=torch.Generator().manual_seed(7 + i))[:n].sort().values


def padded(parts, side, size=11, garbage=True):
    """Padding that would be refused or seen, were it read."""
    bad = {"ids": 999, "values": math.nan, "missing": False, "times": -(2**63)} if garbage else {}
    n = len(parts)
    rows = {
        name: torch.full((n, size, x.shape[1]), bad.get(name, 0), dtype=x.dtype)
        for name, x in parts[0][0].items()
        if name != "lists"
    }
    times = torch.full((n, size), -(2**63) if garbage else 0)
    mask = torch.zeros(n, size, dtype=torch.bool)
    lists = {name: [] for name in parts[0][0]["lists"]}
    for i, (own, when) in enumerate(parts):
        at = places(side, i, len(when), size)
        mask[i, at], times[i, at] = True, when
        for name, x in rows.items():
            x[i, at] = own[name]
        for name, cells in lists.items():
            cells += _padded_cells(own["lists"][name], at.tolist(), size, 999 if garbage else 0)
    rows["lists"] = {name: joined(cells) for name, cells in lists.items()}
    return {"rows": rows, "times": times, "mask": mask}


def _padded_cells(cells, at, size, fill):
    one = torch.tensor([False])
    blank = Ragged(torch.tensor([fill]), torch.tensor([0, 1]), one)
    return [cells.take(torch.tensor([at.index(j)])) if j in at else blank for j in range(size)]


def sliced(batch, start, stop):
    """Some places of a padded batch."""
    n, size = batch["times"].shape
    rows = {name: x[:, start:stop] for name, x in batch["rows"].items() if name != "lists"}
    at = torch.arange(n * size).view(n, size)[:, start:stop].flatten()
    rows["lists"] = {name: cells.take(at) for name, cells in batch["rows"]["lists"].items()}
    return {"rows": rows, "times": batch["times"][:, start:stop], "mask": batch["mask"][:, start:stop]}


def changed(rows, name, index, by):
    """Rows with something added to a tensor, the rest shared."""
    one = rows[name].clone()
    one[index] = by(one[index]) if callable(by) else by
    return {**rows, name: one}


# The module, one row and one key at a time


def expected(net, rows, times):
    """Vectors of one sequence, from the weights of a module in float64."""
    when = times.tolist()
    x = [_token(net, rows, when, i) for i in range(len(when))]
    x = [F.linear(one, net.tokens.linear.weight, net.tokens.linear.bias) for one in x]
    if net.scheme == "gru":
        return _recurrence(net, x)
    x = [one + _added(net, when, i) for i, one in enumerate(x)]
    for block in net.stack.transformer.blocks:
        x = _block(net, block, x, when)
    return torch.stack([_normed(one, net.stack.transformer.norm) for one in x])


def earlier(net, when, i):
    """Numbers of the rows whose outcomes row i is told of: one, or those of an instant."""
    if not net.schema.strict:
        return [i - 1] if i else []
    before = [j for j in range(i) if when[j] < when[i]]
    return [j for j in before if when[j] == when[before[-1]]]


def _token(net, rows, when, i):
    parts, before = [], earlier(net, when, i)
    if net.known is not None:
        parts.append(_vector(net.known, net.schema, rows, i))
    if net.after is not None:
        vectors = [_vector(net.after, net.schema, rows, j) for j in before]
        parts.append(sum(vectors) / len(vectors) if vectors else net.tokens.parts["carried"].first)
    if net.clock.timed:
        parts.append(_gap(net.schema, when, i, before))
    return torch.cat(parts) if parts else torch.zeros(1, dtype=torch.float64)


def _vector(half, schema, rows, i):
    """Vectors of some columns of a row, found by name."""
    names = {column.name for column in half.schema.columns}
    kinds = {"ids": schema.rows.categorical, "values": schema.rows.continuous}
    kinds |= {"missing": schema.rows.continuous, "times": schema.rows.datetime}
    own = {
        kind: torch.stack([rows[kind][i : i + 1, j] for j, c in enumerate(columns) if c.name in names], 1)
        if names & {c.name for c in columns}
        else rows[kind][i : i + 1, :0]
        for kind, columns in kinds.items()
    }
    own["lists"] = {n: cells.take(torch.tensor([i])) for n, cells in rows["lists"].items() if n in names}
    return half(**own)[0].double()


def _gap(schema, when, i, before):
    gap = (when[i] - when[before[-1]]) / 10**9 if before else None
    return torch.tensor(reference.gap_features(gap, schema.gaps, schema.span), dtype=torch.float64)


def _added(net, when, i):
    added, place = net.stack.position.added, _passed(net, when, 0, i)
    if added is None:
        return 0.0
    if net.scheme == "learned":
        last = added.table.num_positions - 1
        if not net.clock.timed:
            return added.table.weight[min(place, last)].double()
        shortest = net.schema.gaps[round(0.01 * (len(net.schema.gaps) - 1))] * 10**9
        if place < shortest:
            return added.table.weight[0].double()
        share = math.log(place / shortest) / math.log(net.schema.span * 10**9 / shortest)
        return added.table.weight[min(1 + math.floor(share * (last - 1)), last)].double()
    waves = [f * place for f in added.waves.frequencies.tolist()]
    both = [value for wave in waves for value in (math.sin(wave), math.cos(wave))]
    return torch.tensor(both, dtype=torch.float64) * added.scale.double()


def _normed(x, norm):
    return F.layer_norm(x, x.shape, norm.weight.double(), norm.bias.double(), norm.eps)


def _linear(x, layer: nn.Linear):
    return F.linear(x, layer.weight.double(), layer.bias.double())


def _block(net, block, x, when):
    heads, out = block.n_heads, []
    parts = [_linear(_normed(one, block.before_attention), block.qkv).view(3, heads, -1) for one in x]
    for i, one in enumerate(x):
        mixed = []
        for h in range(heads):
            seen = [j for j in range(len(x)) if _sees(net, when, i, j)]
            scores = [_score(net, h, parts[i][0, h], parts[j][1, h], when, i, j) for j in seen]
            weights = torch.softmax(torch.stack(scores), 0)
            mixed.append(sum(w * parts[j][2, h] for w, j in zip(weights, seen, strict=True)))
        one = one + _linear(torch.cat(mixed), block.out)
        out.append(
            one + _linear(F.gelu(_linear(_normed(one, block.before_hidden), block.hidden)), block.back)
        )
    return out


def _sees(net, when, i, j):
    if i == j:
        return True
    if net.schema.strict and when[i] == when[j]:
        return False
    return j < i or not net.causal


def _passed(net, when, j, i):
    """From row j to row i: time, rows, or instants where rows of one are kept apart."""
    if net.clock.timed:
        return when[i] - when[j]
    if net.schema.strict:
        return len(set(when[:i])) - len(set(when[:j])) + (when[i] not in when[:i]) - (when[j] not in when[:j])
    return i - j


def _score(net, h, q, k, when, i, j):
    position = net.stack.position
    passed = _passed(net, when, j, i)
    half = len(q) // 2
    products = q[:half] * k[:half] + q[half:] * k[half:]
    if net.scheme == "rotary":
        angle = position.rotary.frequencies * -passed
        products = products * angle.cos() + (q[half:] * k[:half] - q[:half] * k[half:]) * angle.sin()
    if net.scheme == "decay":
        products = products * 2.0 ** (-passed / position.rotary.half_lives[:half])
    score = products.sum() / math.sqrt(len(q))
    if net.scheme == "alibi":
        score = score - position.bias.slopes[h].double() * abs(passed) / position.bias.unit
    return score


def _recurrence(net, x):
    for layer in net.stack.layers:
        state, out = torch.zeros_like(x[0]) if x else None, []
        for one in x:
            from_row = F.linear(one, layer.weight_input, layer.bias_input).chunk(3)
            from_state = F.linear(state, layer.weight_state, layer.bias_state).chunk(3)
            reset, update = (torch.sigmoid(a + b) for a, b in zip(from_row[:2], from_state[:2], strict=True))
            new = torch.tanh(from_row[2] + reset * from_state[2])
            state = (1 - update) * new + update * state
            out.append(state)
        x = out
    return torch.stack(x)
