"""Drawn tables against the loops: sequences, appending, cutoffs, and every view of a batch."""

from __future__ import annotations

import math
import warnings
from functools import cache

import pandas as pd
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tabembed.sequence import SequenceEncoder
from tabembed.table import TableEncoder

OBSERVED = ["late", "how"]
NAMES = {"place": ["Oslo", "Rome"], "how": ["badly", "well"]}
ROW = st.tuples(
    st.sampled_from([None, 1, 2, 3, 30]),
    st.one_of(st.none(), st.integers(-5, 5), st.integers(-(10**6), 10**6)),
    st.sampled_from([None, "Oslo", "Rome"]),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.sampled_from([None, "badly", "well"]),
)
ROWS = st.lists(ROW, max_size=25)
TIES = st.sampled_from(["stable", "merge", "strict"])
MOST = st.one_of(st.none(), st.integers(1, 4))


def frame_of(rows):
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return pd.DataFrame(
        {
            "who": pd.array(columns[0], "Int64"),
            "when": pd.array(columns[1], "Int64"),
            "place": pd.array(columns[2], "string"),
            "size": pd.array(columns[3], "Float64"),
            "late": pd.array(columns[4], "Float64"),
            "how": pd.array(columns[5], "string"),
        }
    )


@cache
def encoder_of(**rules):
    """Fitted on other rows, so that the ids do not depend on the draw."""
    rows = [(1, 0, "Oslo", 1, 2, "well"), (1, 60, "Rome", 0, 1, "badly"), (2, 5, "Oslo", 3, 0, "well")]
    encoder = SequenceEncoder(
        "who", "when", TableEncoder(scaler=None), observed=OBSERVED, on_missing="drop", **rules
    )
    return encoder.fit(frame_of(rows))


def loops_of(rows, ties, most, cutoff=None):
    who, when, *cells = list(zip(*rows, strict=True)) or [()] * 6
    columns = dict(zip(["place", "size", "late", "how"], map(list, cells), strict=True))
    times = [None if t is None else t * reference.SECOND for t in when]
    cutoff = None if cutoff is None else cutoff * reference.SECOND
    return reference.sequences(
        who, times, columns, observed=OBSERVED, ties=ties, max_events=most, cutoff=cutoff
    )


def quietly(function, *args, **kwargs):
    """Rows left out are counted in warnings, which have tests of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*args, **kwargs)


def cells_of(encoder, rows):
    """Columns of a batch's rows as lists, missing ones None."""
    table, found = encoder.table_encoder_, {}
    for j, column in enumerate(table.schema_.categorical):
        known = table.categories_[column.name].tolist()
        found[column.name] = [None if i == 1 else known[i - 3] for i in rows.ids[:, j].tolist()]
    for j, column in enumerate(table.schema_.continuous):
        pairs = zip(rows.values[:, j].tolist(), rows.missing[:, j].tolist(), strict=True)
        found[column.name] = [None if missing else value for value, missing in pairs]
    return found


def alike(a, b):
    return len(a) == len(b) and all(
        x == y or (math.isnan(x) and math.isnan(y)) for x, y in zip(a, b, strict=True)
    )


def check(encoder, batch, expected, n_input):
    """Everything of a batch is what the loops say."""
    assert [int(e) for e in batch.entities] == [s["entity"] for s in expected]
    assert batch.lengths.tolist() == [len(s["row"]) for s in expected]
    for name in ("row", "times", "elapsed", "gap"):
        flat = [x for s in expected for x in s[name]]
        assert alike(getattr(batch, name).tolist(), flat), name
    cells = cells_of(encoder, batch.rows)
    for name in cells:
        assert cells[name] == [x for s in expected for x in s["cells"][name]], name
    pairs = sorted(pair for s in expected for pair in s["merged"])
    assert sorted(map(tuple, batch.merged.tolist())) == pairs
    assert batch.n_input == n_input
    assert batch.cu_seqlens.dtype == torch.int32
    assert batch.times.dtype == batch.row.dtype == torch.int64
    assert batch.elapsed.dtype == batch.gap.dtype == torch.float64


def test_the_columns_of_the_drawn_tables():
    encoder = encoder_of()
    assert {k: v.tolist() for k, v in encoder.table_encoder_.categories_.items()} == {
        "place": ["Oslo", "Rome"],
        "how": ["well", "badly"],
    }
    assert encoder.schema_.observed == ("late", "how")
    assert [c.name for c in encoder.schema_.rows.columns] == ["place", "size", "late", "how"]


@given(ROWS, TIES, MOST)
def test_sequences_are_those_of_the_loops(rows, ties, most):
    encoder = encoder_of(ties=ties, max_events=most)
    batch = quietly(encoder.transform, frame_of(rows))
    check(encoder, batch, loops_of(rows, ties, most), len(rows))


@given(ROWS, TIES, MOST, st.integers(-5, 5))
def test_a_cutoff_is_what_was_known_then(rows, ties, most, cutoff):
    encoder = encoder_of(ties=ties, max_events=most)
    batch = quietly(encoder.transform, frame_of(rows), cutoff=cutoff)
    check(encoder, batch, loops_of(rows, ties, most, cutoff), len(rows))


@given(ROWS, TIES, MOST, st.lists(st.integers(0, 25), max_size=3))
def test_appending_gives_the_batch_of_everything_at_once(rows, ties, most, splits):
    encoder = encoder_of(ties=ties, max_events=most)
    bounds = sorted({0, len(rows), *(s for s in splits if s < len(rows))})
    batch = quietly(encoder.transform, frame_of(rows[: bounds[0]]))
    for start, stop in zip(bounds, bounds[1:], strict=False):
        batch = quietly(encoder.append, batch, frame_of(rows[start:stop]))
    check(encoder, batch, loops_of(rows, ties, most), len(rows))


@given(ROWS, TIES)
def test_ties_are_an_error_where_asked(rows, ties):
    encoder = encoder_of(ties="error")
    held = [(who, when) for who, when, *_ in rows if who is not None and when is not None]
    if len(set(held)) < len(held):
        with pytest.raises(ValueError, match="when"):
            quietly(encoder.transform, frame_of(rows))
    else:
        check(encoder, quietly(encoder.transform, frame_of(rows)), loops_of(rows, "stable", None), len(rows))


@given(ROWS, MOST)
def test_what_is_left_out_is_counted(rows, most):
    encoder = encoder_of(max_events=most)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batch = encoder.transform(frame_of(rows))
    text = " ".join(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    missing = {name: sum(row[i] is None for row in rows) for i, name in enumerate(["who", "when"])}
    held = sum(row[0] is not None and row[1] is not None for row in rows)
    for name, count in missing.items():
        assert (f"column '{name}' is missing in {count}" in text) == (count > 0)
    older = held - batch.n_rows
    assert not older or str(older) in text
    assert bool(text) == (held < len(rows) or older > 0)


@given(ROWS, TIES)
def test_results_go_back_to_the_input(rows, ties):
    encoder = encoder_of(ties=ties)
    batch = quietly(encoder.transform, frame_of(rows))
    out = batch.to_input_order(batch.times.double() / reference.SECOND)
    for (who, when, *_), result in zip(rows, out.tolist(), strict=True):
        assert math.isnan(result) if who is None or when is None else result == when


# Views


def batch_of(rows, **rules):
    return quietly(encoder_of(**rules).transform, frame_of(rows))


def sequence_rows(batch):
    """Places in the input, sequence by sequence."""
    ends = batch.cu_seqlens.tolist()
    return [batch.row.tolist()[a:b] for a, b in zip(ends, ends[1:], strict=False)]


def by_key(batch):
    return {int(entity): places for entity, places in zip(batch.entities, sequence_rows(batch), strict=True)}


def real_rows(padded):
    return [row[mask].tolist() for row, mask in zip(padded.row, padded.mask, strict=True)]


@settings(max_examples=40)
@given(ROWS, st.sampled_from(["left", "right"]))
def test_padded_holds_the_same_rows(rows, side):
    batch = batch_of(rows)
    padded, lengths = batch.padded(side), batch.lengths.tolist()
    width = max(lengths, default=0)
    assert padded.mask.shape == (len(batch), width)
    for mask, length in zip(padded.mask.tolist(), lengths, strict=True):
        gap = [False] * (width - length)
        assert mask == ([*gap, *[True] * length] if side == "left" else [*[True] * length, *gap])
    for positions, mask in zip(padded.positions.tolist(), padded.mask.tolist(), strict=True):
        assert positions == reference.row_positions(mask)
    assert real_rows(padded) == sequence_rows(batch)
    assert (padded.row[~padded.mask] == -1).all()
    for name in ("times", "elapsed", "gap"):
        assert alike(getattr(padded, name)[padded.mask].tolist(), getattr(batch, name).tolist())
    for name, tensor in batch.tensors()["rows"].items():
        assert padded.rows[name][padded.mask].equal(tensor)
        assert (padded.rows[name][~padded.mask] == 0).all()
    assert padded.entities.tolist() == batch.entities.tolist()


@settings(max_examples=40)
@given(ROWS, st.integers(1, 12), st.one_of(st.none(), st.integers(0, 3)))
def test_packed_holds_every_sequence_once(rows, budget, seed):
    batch = batch_of(rows)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    parts = list(batch.packed(budget, generator=generator))
    assert all(part.n_rows <= budget or len(part) == 1 for part in parts)
    assert all(len(part) for part in parts)
    found = {
        int(e): rows for part in parts for e, rows in zip(part.entities, sequence_rows(part), strict=True)
    }
    assert sum(len(part) for part in parts) == len(batch)
    assert found == {int(e): rows for e, rows in zip(batch.entities, sequence_rows(batch), strict=True)}


@settings(max_examples=40)
@given(ROWS, st.integers(1, 5))
def test_last_keeps_the_end_and_its_facts(rows, n):
    batch = batch_of(rows)
    last, whole = batch.last(n), sequence_rows(batch)
    assert sequence_rows(last) == [places[-n:] for places in whole]
    fact = dict(
        zip(batch.row.tolist(), zip(batch.elapsed.tolist(), batch.gap.tolist(), strict=True), strict=True)
    )
    for place, elapsed, gap in zip(last.row.tolist(), last.elapsed.tolist(), last.gap.tolist(), strict=True):
        assert alike([elapsed, gap], list(fact[place]))


@settings(max_examples=40)
@given(ROWS, st.integers(1, 5))
def test_cut_loses_nothing(rows, length):
    batch = batch_of(rows)
    cut = batch.cut(length)
    assert cut.row.equal(batch.row)
    assert cut.times.equal(batch.times)
    assert alike(cut.gap.tolist(), batch.gap.tolist())
    assert all(1 <= n <= length for n in cut.lengths.tolist())
    assert len(cut) == sum(math.ceil(n / length) for n in batch.lengths.tolist())
    together: dict[int, list[int]] = {}
    for entity, places in zip(cut.entities, sequence_rows(cut), strict=True):
        together[int(entity)] = together.get(int(entity), []) + places
    assert list(together.values()) == sequence_rows(batch)


@settings(max_examples=40)
@given(ROWS, st.integers(1, 5), st.integers(1, 4))
def test_windows_are_runs_of_one_sequence(rows, length, stride):
    batch = batch_of(rows)
    windows, whole = batch.windows(length, stride), sequence_rows(batch)
    found = real_rows(windows[torch.arange(len(windows))])
    runs = {(i, j): places[j : j + length] for i, places in enumerate(whole) for j in range(len(places))}
    assert all(run in runs.values() for run in found)
    assert all(1 <= len(run) <= length for run in found)
    for places in whole:  # every full window that stride allows from one end, and no sequence without any
        mine = [run for run in found if run[0] in places]
        assert mine
        if len(places) >= length and stride == 1:
            full = [places[j : j + length] for j in range(len(places) - length + 1)]
            assert [run for run in mine if len(run) == length] == full
    order = list(range(len(windows)))[::-1]
    assert real_rows(windows[torch.tensor(order, dtype=torch.int64)]) == found[::-1]


@settings(max_examples=40)
@given(ROWS)
def test_nested_holds_the_same_rows(rows):
    batch = batch_of(rows)
    if not len(batch):
        return
    nested = batch.nested()
    flat = batch.tensors()["rows"] | {name: getattr(batch, name) for name in ("times", "elapsed", "row")}
    for name, tensor in ({k: t for k, t in nested.items() if k != "rows"} | nested["rows"]).items():
        parts = tensor.unbind()
        assert [len(part) for part in parts] == batch.lengths.tolist()
        assert name == "gap" or torch.cat(parts).equal(flat[name])


@settings(max_examples=40)
@given(ROWS, st.data())
def test_an_index_picks_sequences(rows, data):
    batch = batch_of(rows)
    if not len(batch):
        return
    chosen = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=5))
    picked, whole = batch[torch.tensor(chosen, dtype=torch.int64)], sequence_rows(batch)
    assert sequence_rows(picked) == [whole[i] for i in chosen]
    assert picked.entities.tolist() == [batch.entities[i] for i in chosen]


# What must not matter: the order of rows that differ in time, and whose rows lie beside


def untied(rows):
    """The first row of every entity and time: among others the order of the table decides."""
    first = {(who, when): row for row in reversed(rows) for who, when, *_ in [row]}
    return list(first.values())


def of_entities(batch, names=None):
    """Everything of a batch by entity, places in the table aside."""
    found = {}
    for i, entity in enumerate(batch.entities.tolist()):
        if names is None or entity in names:
            one = batch[torch.tensor([i])]
            tensors = (one.rows.ids, one.rows.values, one.rows.missing, one.times, one.elapsed, one.gap)
            found[entity] = [str(tensor.tolist()) for tensor in tensors]
    return found


@settings(max_examples=40)
@given(ROWS, st.randoms(use_true_random=False), MOST)
def test_rows_in_another_order_are_the_same_sequences(rows, shuffler, most):
    rows = untied(rows)
    order = list(range(len(rows)))
    shuffler.shuffle(order)
    one, other = (batch_of(part, max_events=most) for part in (rows, [rows[i] for i in order]))
    assert one.entities.tolist() == other.entities.tolist()
    assert of_entities(one) == of_entities(other)
    assert one.row.tolist() == [order[place] for place in other.row.tolist()]


@settings(max_examples=40)
@given(ROWS, ROWS, TIES, MOST)
def test_an_entitys_sequence_does_not_depend_on_the_others(rows, others, ties, most):
    names = {who for who, *_ in rows} - {None}
    beside = [row for row in others if row[0] not in names]
    alone = batch_of(rows, ties=ties, max_events=most)
    for together in ([*beside, *rows], [*rows, *beside]):
        found = of_entities(batch_of(together, ties=ties, max_events=most), names)
        assert found == of_entities(alone)


@settings(max_examples=40)
@given(ROWS, st.integers(0, 25), TIES)
def test_parts_that_are_appended_are_the_whole_bit_by_bit(rows, cut, ties):
    encoder = encoder_of(ties=ties)
    whole = batch_of(rows, ties=ties)
    first = batch_of(rows[:cut], ties=ties)
    assert of_entities(quietly(encoder.append, first, frame_of(rows[cut:]))) == of_entities(whole)
