"""One answer whichever way rows are batched, and none that knows its own outcome or what is to come."""

from __future__ import annotations

import pytest
import torch
from slow_sequence import (
    HALF_HOUR,
    LENGTHS,
    OBSERVED,
    SCHEMES,
    changed,
    drawn,
    expected,
    net_of,
    packed,
    padded,
    schema_of,
    sliced,
    some,
)
from torch.testing import assert_close

from tabembed.nn import SequenceEmbedding, SequenceState

CLOCKS = ("time", "index")
KINDS = [
    pytest.param(position, clock, observed, strict, marks=() if observed else pytest.mark.slow)
    for position in SCHEMES
    for clock in CLOCKS
    for observed in (OBSERVED, ())
    for strict in (False, True)
    if not (position == "gru" and strict)
]
EACH = pytest.mark.parametrize(
    ("position", "clock", "observed", "strict"), KINDS, ids=lambda x: str(x) if x != () else "known"
)
CLOSE = {"rtol": 0.0, "atol": 1e-5}
SAME = {"rtol": 0.0, "atol": 0.0}


def made(position, clock, observed=OBSERVED, strict=False, **arguments):
    return net_of(position, clock=clock, schema=schema_of(observed=observed, strict=strict), **arguments)


def streamed(net, batch, cuts):
    state, out = None, []
    for start, stop in zip(cuts, cuts[1:], strict=False):
        piece = sliced(batch, start, stop)
        vectors, state = net.step(state, piece["rows"], piece["times"], mask=piece["mask"])
        out.append(vectors)
    return torch.cat(out, 1), state


@EACH
@torch.no_grad()
def test_the_slow_loops_give_the_same(position, clock, observed, strict):
    net, (rows, times) = made(position, clock, observed, strict).double(), drawn(7, seed=3)
    assert_close(net(rows, times), expected(net, rows, times), rtol=0, atol=1e-9)


@EACH
@torch.no_grad()
def test_every_way_to_batch_gives_the_same(position, clock, observed, strict):
    net, parts = made(position, clock, observed, strict), some()
    alone = torch.cat([net(rows, times) for rows, times in parts])
    assert_close(net(**packed(parts)), alone, **CLOSE)
    for side in ("left", "right", "middle"):
        batch = padded(parts, side)
        whole = net(**batch)
        assert_close(whole[batch["mask"]], alone, **CLOSE)
        assert whole[~batch["mask"]].eq(0).all()
        for cuts in (range(12), (0, 1, 1, 4, 11), (0, 11)):
            assert_close(streamed(net, batch, cuts)[0], whole, **CLOSE)


@EACH
def test_padding_may_hold_anything_and_gets_no_gradient(position, clock, observed, strict):
    net, parts = made(position, clock, observed, strict), some()
    bad, clean = padded(parts, "middle"), padded(parts, "middle", garbage=False)
    values = bad["rows"]["values"].requires_grad_()
    out = net(**bad)
    assert_close(out, net(**clean), **SAME)
    (gradient,) = torch.autograd.grad(out.square().sum(), values, retain_graph=True)
    assert gradient[~bad["mask"]].eq(0).all()
    assert gradient.isfinite().all()
    weights = [p for name, p in net.named_parameters() if "pooling" not in name]
    gradients = torch.autograd.grad(out.square().sum(), weights, allow_unused=True)
    clean_gradients = torch.autograd.grad(net(**clean).square().sum(), weights, allow_unused=True)
    for one, other in zip(gradients, clean_gradients, strict=True):
        assert one is not None
        assert_close(one, other, **SAME)


@EACH
@torch.no_grad()
def test_other_sequences_move_nothing(position, clock, observed, strict):
    net, parts = made(position, clock, observed, strict), some()
    others = [part if i == 3 else drawn(LENGTHS[i], 50 + i) for i, part in enumerate(parts)]
    assert_close(net(**packed(parts))[6:], net(**packed(others))[6:], **SAME)
    assert_close(net(**padded(parts, "left"))[3], net(**padded(others, "left"))[3], **SAME)
    mates = packed([parts[3], drawn(20, 5), drawn(2, 6)])
    assert_close(net(**mates)[:9], net(*parts[3]), rtol=0, atol=1e-6)


@EACH
@torch.no_grad()
def test_own_outcomes_and_the_future_move_nothing(position, clock, observed, strict):
    net, (rows, times) = made(position, clock, observed, strict), drawn(9, 3)
    before = net(rows, times)
    outcome = changed(changed(rows, "values", (4, 0), 3.0), "ids", (4, 1), lambda x: 7 - x.clamp(3, 4))
    outcome = changed(outcome, "missing", (4, 0), lambda x: ~x)
    after = net(outcome, times)
    later = times > times[4] if strict else torch.arange(9) > 4
    if observed:
        assert_close(after[~later], before[~later], **SAME)
        assert (after[later] != before[later]).any(1).all()
    else:
        assert (after[4] != before[4]).any()
    future = changed(rows, "values", slice(5, None), lambda x: x + 1)
    assert_close(net(future, times)[:5], before[:5], **SAME)
    # A decay counts from the last row of a block, so that rounding alone depends on when that was.
    moved = torch.cat((times[:5], times[5:] + HALF_HOUR))
    lost = {"rtol": 0.0, "atol": 3e-6} if position == "decay" and clock == "time" else SAME
    assert_close(net(future, moved)[:5], before[:5], **lost)


@EACH
@torch.no_grad()
def test_the_clock_counts(position, clock, observed, strict):
    net, (rows, times) = made(position, clock, observed, strict), drawn(9, 3)
    whole = net(rows, times)
    assert_close(net(rows, times + 10**18), whole, **CLOSE)
    later = torch.cat((times[:5], times[5:] + 3 * HALF_HOUR))
    if clock == "time":
        assert (net(rows, later) - whole)[5:].abs().amax(1).gt(1e-4).all()
    elif not strict:
        assert_close(net(rows, times.flip(0) * 7), whole, **SAME)


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("position", [one for one in SCHEMES if one != "gru"])
@torch.no_grad()
def test_rows_of_one_instant_are_kept_apart(position, clock):
    net, (rows, _) = made(position, clock, strict=True), drawn(6, 3)
    times = torch.tensor([0, 5, 5, 5, 9, 9]) * HALF_HOUR
    whole = net(rows, times)
    shifted = changed(rows, "values", 2, lambda x: x + 1)
    shifted = changed(shifted, "missing", 2, False)
    moved = (net(shifted, times) != whole).any(1)
    assert moved.tolist() == [False, False, True, False, True, True]
    # Rows of an instant count alike, in whatever order they come.
    order = torch.tensor([0, 3, 1, 2, 5, 4])
    turned = {name: x[order] for name, x in rows.items() if name != "lists"}
    turned["lists"] = {name: cells.take(order) for name, cells in rows["lists"].items()}
    assert_close(net(turned, times), whole[order], **CLOSE)
    together = made(position, clock)
    assert (together(shifted, times) != together(rows, times)).any(1).tolist() == [False, False, *[True] * 4]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("position", ["rotary", "alibi", "sinusoidal", "learned", None])
@torch.no_grad()
def test_both_ways_sees_later_rows(position, strict):
    net = made(position, "time", (), strict, causal=False)
    rows, times = drawn(7, 3)
    wide = made(position, "time", (), strict, causal=False).double()
    assert_close(wide(rows, times), expected(wide, rows, times), rtol=0, atol=1e-9)
    parts = some()
    alone = torch.cat([net(*part) for part in parts])
    assert_close(net(**packed(parts)), alone, **CLOSE)
    for side in ("left", "right", "middle"):
        batch = padded(parts, side)
        assert_close(net(**batch)[batch["mask"]], alone, **CLOSE)
    assert (net(changed(rows, "values", 6, 5.0), times) != net(rows, times))[0].any()
    with pytest.raises(ValueError, match="causal must be True for step"):
        net.step(None, *list(padded(parts, "left").values())[:2])


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("position", ["rotary", "gru"])
@pytest.mark.parametrize("pooling", ["last", "mean", "decay"])
@torch.no_grad()
def test_pooling_by_loops(position, clock, pooling):
    net, parts = made(position, clock, pooling=pooling), some()
    wanted = []
    for rows, times in parts:
        vectors, places = net.rows(rows, times), times.tolist() if clock == "time" else range(len(times))
        if not len(times):
            wanted.append(torch.zeros(32))
            continue
        weights = {"last": lambda t, end: float(t == end), "mean": lambda t, end: 1.0}.get(pooling)
        half_life = float(net.pooling.half_life) if pooling == "decay" else 1.0
        weights = weights or (lambda t, end, life=half_life: 2.0 ** (-(end - t) / life))
        if pooling == "last":
            wanted.append(vectors[-1])
            continue
        shares = torch.tensor([weights(t, places[-1]) for t in places])
        wanted.append((shares[:, None] * vectors).sum(0) / shares.sum())
        assert_close(net(rows, times), wanted[-1], **CLOSE)
    wanted = torch.stack(wanted)
    assert_close(net(**packed(parts)), wanted, **CLOSE)
    for side in ("left", "right", "middle"):
        batch = padded(parts, side)
        assert_close(net(**batch), wanted, **CLOSE)
        assert net.rows(**batch).shape == (4, 11, 32)


def test_what_is_learned_of_pooling_has_a_gradient():
    net = made("rotary", "time", pooling="decay")
    net(**packed(some())).square().sum().backward()
    assert net.pooling.log_ratio.grad.abs() > 0


@torch.no_grad()
def test_a_state_gives_some_of_its_sequences():
    for position in ("rotary", "gru"):
        net, batch = made(position, "time"), padded(some(), "middle")
        _, state = streamed(net, batch, (0, 6))
        index = torch.tensor([3, 0, 3])
        taken, piece = state.take(index).to("cpu"), sliced(batch, 6, 11)
        assert isinstance(taken, SequenceState)
        assert (len(state), len(taken)) == (4, 3)
        rows = {name: x[index] for name, x in piece["rows"].items() if name != "lists"}
        at = torch.arange(20).view(4, 5)[index].flatten()
        rows["lists"] = {name: cells.take(at) for name, cells in piece["rows"]["lists"].items()}
        out, after = net.step(taken, rows, piece["times"][index], mask=piece["mask"][index])
        assert_close(out, net(**batch)[index, 6:], **CLOSE)
        assert after.count.tolist() == [9, 5, 9]
        assert after.times.shape[1] == (1 if position == "gru" else 11)


@torch.no_grad()
def test_steps_with_nothing_new():
    for position in ("rotary", "gru"):
        net, batch = made(position, "time"), padded(some(), "left")
        _, state = streamed(net, batch, (0, 7))
        none = sliced(batch, 0, 2)
        none["mask"] = torch.zeros_like(none["mask"])
        out, again = net.step(state, none["rows"], none["times"], mask=none["mask"])
        assert out.eq(0).all()
        rest = sliced(batch, 7, 11)
        out, _ = net.step(again, rest["rows"], rest["times"], mask=rest["mask"])
        assert_close(out, net(**batch)[:, 7:], **CLOSE)


@pytest.mark.parametrize("position", SCHEMES)
@torch.no_grad()
def test_nothing_at_all(position):
    net = made(position, "time", pooling="mean")
    rows, times = drawn(0)
    assert net(rows, times).tolist() == [0.0] * 32
    assert net.rows(rows, times).shape == (0, 32)
    assert net(rows, times, cu_seqlens=torch.tensor([0])).shape == (0, 32)
    assert net(rows, times, cu_seqlens=torch.tensor([0, 0, 0])).tolist() == [[0.0] * 32] * 2
    empty = {"rows": {n: x[None] for n, x in rows.items() if n != "lists"}, "times": times[None]}
    empty["rows"]["lists"] = rows["lists"]
    assert net(**empty).tolist() == [[0.0] * 32]
    vectors, state = net.step(None, **empty)
    assert (vectors.shape, state.count.tolist()) == ((1, 0, 32), [0])


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_schema_without_columns_gives_a_learned_constant(clock):
    schema = schema_of(columns=(), observed=())
    net = net_of(None, clock=clock, schema=schema)
    rows, times = drawn(5, columns=())
    out = net(rows, times)
    assert net.known is None
    assert net.after is None
    assert (out.var(0).sum() < 1e-9) == (clock == "index")
    out.square().sum().backward()
    assert net.tokens.linear.bias.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "other",
    [
        {"clock": "index"},
        {"num_layers": 1},
        {"pooling": "mean"},
        {"seed": 1},
        {"embedding": {"embed_dims": {"city": 7}}},
        {"embedding": {"embed_dims": {"outcome": 7}}},
    ],
)
@torch.no_grad()
def test_every_argument_changes_something(other):
    rows, times = drawn(7)
    out, base = net_of(**other)(rows, times), net_of()(rows, times)
    assert out.shape != base.shape or not torch.allclose(out, base, atol=1e-3)


@torch.no_grad()
def test_schemes_differ_and_dropout_drops():
    rows, times = drawn(7)
    outs = [net_of(position)(rows, times) for position in SCHEMES]
    for i, one in enumerate(outs):
        assert all(not torch.allclose(one, other, atol=1e-4) for other in outs[:i])
    for position in ("rotary", "gru"):
        net = net_of(position, dropout=0.5)
        still = net(rows, times)
        net.train()
        for module in net.modules():
            if hasattr(module, "generator"):
                module.generator = torch.Generator().manual_seed(1)
        state = torch.get_rng_state()
        assert not torch.allclose(net(rows, times), still, atol=1e-2)
        assert torch.equal(torch.get_rng_state(), state)
    assert SequenceEmbedding(schema_of(), d_model=48).output_dim == 48


def test_groups_of_an_optimiser():
    for position in SCHEMES:
        net = net_of(position, pooling="decay")
        groups = net.param_groups(0.1, 0.01)
        listed = [p for group in groups for p in group["params"]]
        assert len(listed) == len({id(p) for p in listed}) == len(list(net.parameters()))
        decayed = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
        names = {name for name, p in net.named_parameters() if id(p) in decayed}
        assert "tokens.linear.weight" in names
        bad = ("bias", "norm", "before_", "first", "slopes", "log_ratio", "scale", "added", "categorical")
        assert not [name for name in names if any(word in name for word in bad)]
    with pytest.raises(ValueError, match="learning_rate must be finite and at least 0, got -1"):
        net.param_groups(-1, 0)
