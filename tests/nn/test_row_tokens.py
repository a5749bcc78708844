"""Tokens of rows: what they are made of, and that none is too large to stand beside others."""

from __future__ import annotations

import pytest
import torch
from slow_sequence import OBSERVED, SCHEMES, changed, drawn, net_of, packed, padded, schema_of, sliced, some
from torch.testing import assert_close

from tabembed.nn import PeriodicEmbedding, PiecewiseLinearEmbedding
from tabembed.nn.row_columns import real_rows
from tabembed.nn.sequence_layout import layout_of

SAME = {"rtol": 0.0, "atol": 0.0}
HUGE = (1e30, -3e38)
EACH = pytest.mark.parametrize(
    ("position", "observed", "strict"),
    [
        (position, observed, strict)
        for position in SCHEMES
        for observed in (OBSERVED, ())
        for strict in (False, True)
        if not (position == "gru" and strict)
    ],
    ids=lambda x: str(x) if x != () else "known",
)


def tokens_of(net, rows, times):
    layout = layout_of(times[None], strict=net.schema.strict)
    flat = real_rows(rows, layout.real, net.schema.rows, padded=False)
    return net.tokens(flat, net.tokens.observed(flat, layout), layout, len(times))[0]


def made(position, observed=OBSERVED, strict=False, **arguments):
    return net_of(position, schema=schema_of(observed=observed, strict=strict), **arguments)


NUMERIC = [
    None,
    PeriodicEmbedding.from_columns,
    PiecewiseLinearEmbedding.from_columns,
]


@pytest.mark.parametrize("numeric", NUMERIC)
@torch.no_grad()
def test_a_huge_number_beside_others_in_every_embedding(numeric):
    for value in HUGE:
        net, (rows, times) = made("rotary", embedding={"numeric": numeric}), drawn(9, 3)
        huge = changed(changed(rows, "values", (6, slice(None)), value), "missing", (6, slice(None)), False)
        assert_close(net(huge, times)[:6], net(rows, times)[:6], **SAME)
        assert net(huge, times).isfinite().all()


@pytest.mark.parametrize("value", HUGE)
@EACH
@torch.no_grad()
def test_a_huge_number_moves_nothing_before_it(position, observed, strict, value):
    net, (rows, times) = made(position, observed, strict), drawn(9, 3)
    huge = changed(changed(rows, "values", (6, slice(None)), value), "missing", (6, slice(None)), False)
    before = times < times[6] if strict else torch.arange(9) < 6
    whole = net(huge, times)
    assert_close(whole[before], net(rows, times)[before], **SAME)
    assert whole.isfinite().all()
    beside = packed([(huge, times), drawn(5, 4)])
    assert_close(net(**beside)[9:], net(**packed([(rows, times), drawn(5, 4)]))[9:], **SAME)


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("position", SCHEMES)
def test_gradients_beside_a_huge_number_are_finite(position, value):
    net, (rows, times) = made(position), drawn(9, 3)
    huge = changed(changed(rows, "values", (6, slice(None)), value), "missing", (6, slice(None)), False)
    net(huge, times)[:6].square().sum().backward()
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("value", [*HUGE, 6e4])
@torch.no_grad()
def test_tokens_are_numbers_in_every_dtype(value, dtype):
    net, (rows, times) = made("rotary").to(dtype), drawn(9, 3)
    rows = changed(changed(rows, "values", (6, 1), value), "missing", (6, 1), False)
    tokens = tokens_of(net, rows, times)
    assert tokens.dtype == dtype
    assert tokens.isfinite().all()
    assert tokens.abs().amax() <= 1e4
    assert net(rows, times).isfinite().all()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_numbers_that_are_none_are_refused(value):
    net, parts = made("rotary"), some()
    for i in (0, 3):
        rows, times = parts[i]
        bad = changed(changed(rows, "values", (0, 1), value), "missing", (0, 1), False)
        text = r"rows\['values'\] must be finite where they are not missing, got (nan|inf|-inf)"
        with pytest.raises(ValueError, match=text):
            net(bad, times)
        others = [*parts[:i], (bad, times), *parts[i + 1 :]]
        for batch in (packed(others), padded(others, "middle")):
            with pytest.raises(ValueError, match=text):
                net(**batch)
        with pytest.raises(ValueError, match=text):
            net.step(None, **padded(others, "right"))
        absent = changed(bad, "missing", (0, 1), True)
        assert net(absent, times).isfinite().all()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@torch.no_grad()
def test_where_numbers_cannot_be_read_earlier_rows_stay(value):
    net, (rows, times) = made("rotary"), drawn(9, 3)
    bad = changed(changed(rows, "values", (6, 1), value), "missing", (6, 1), False)
    torch.compiler.reset()
    compiled = torch.compile(net, backend="eager")
    out = compiled(bad, times)
    assert out.isfinite().all()
    assert_close(out[:6], compiled(rows, times)[:6], **SAME)


@torch.no_grad()
def test_a_token_is_made_of_its_parts():
    net, (rows, times) = made("rotary"), drawn(6, 3)
    tokens = net.tokens
    layout = layout_of(times[None])
    flat = real_rows(rows, layout.real, net.schema.rows, padded=False)
    observed = tokens.observed(flat, layout)
    width = net.known.output_dim
    assert observed.shape == (1, 6, net.after.output_dim)
    whole = tokens(flat, observed, layout, 6)[0]
    shifted = tokens(flat, observed + 1, layout, 6)[0] - whole
    weight = tokens.linear.weight[:, width : width + net.after.output_dim]
    assert_close(shifted[0], torch.zeros(32))  # what nothing came before is told of no outcome
    assert_close(shifted[1:], weight.sum(1).expand(5, -1), rtol=0, atol=1e-4)
    last = sliced(padded([(rows, times)], "right", size=6), 4, 6)
    flat = real_rows(last["rows"], last["mask"], net.schema.rows, padded=True)
    assert_close(tokens(flat, observed, layout, 2)[0], whole[4:], rtol=0, atol=1e-5)


@torch.no_grad()
def test_without_columns_and_time_a_token_is_the_bias():
    net = net_of(None, clock="index", schema=schema_of(columns=(), observed=()))
    assert_close(tokens_of(net, *drawn(3, columns=())), net.tokens.linear.bias.expand(3, -1), **SAME)
