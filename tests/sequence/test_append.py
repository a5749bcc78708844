"""Rows added to a batch: what encoding everything at once would give."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from event_tables import events, plain
from hypothesis import given
from hypothesis import strategies as st

from tabembed import SequenceEncoder, TableEncoder

pytestmark = pytest.mark.filterwarnings("ignore:max_events")
OBSERVED = ["paid", "until", "tags"]
FITTED = {
    (ties, most): SequenceEncoder("who", "when", observed=OBSERVED, ties=ties, max_events=most).fit(
        events(300)
    )
    for ties in ("stable", "merge", "strict")
    for most in (None, 1, 2, 5)
}


def by_parts(encoder, frame, bounds):
    bounds = [0, *sorted(bounds), len(frame)]
    batch = encoder.transform(frame[: bounds[1]])
    for start, stop in zip(bounds[1:], bounds[2:], strict=False):
        batch = encoder.append(batch, frame[start:stop])
    return batch


@given(
    st.sampled_from(list(FITTED)),
    st.integers(0, 10**6),
    st.integers(0, 40),
    st.integers(1, 8),
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
)
def test_any_split_of_the_rows_gives_the_batch_of_all(settings, seed, n, n_entities, bounds):
    frame = events(n, seed, n_entities)
    encoder = FITTED[settings]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        got = by_parts(encoder, frame, [min(b, n) for b in bounds])
        expected = encoder.transform(frame)
    assert plain(got) == plain(expected)
    assert got.n_input == n
    assert got.rows.ids.is_contiguous()


@pytest.mark.parametrize("most", [None, 1, 3])
@pytest.mark.parametrize("unit", ["ns", "s", "D"])
def test_spans_of_years_are_exact_to_the_precision_of_seconds(unit, most):
    rng = np.random.default_rng(1)
    limit = {"ns": 2**62, "s": 2**32, "D": 50_000}[unit]
    frame = pd.DataFrame(
        {"who": rng.choice(list("abc"), 60), "when": rng.integers(-limit, limit, 60), "x": 1.0}
    )
    encoder = SequenceEncoder("who", "when", unit=unit, max_events=most).fit(frame)
    got, expected = by_parts(encoder, frame, range(5, 60, 5)), encoder.transform(frame)
    for name in ("times", "row", "cu_seqlens"):
        assert getattr(got, name).tolist() == getattr(expected, name).tolist()
    assert torch.equal(got.gap.nan_to_num(-1), expected.gap.nan_to_num(-1))
    torch.testing.assert_close(got.elapsed, expected.elapsed, rtol=4e-16, atol=0)


def test_an_early_row_moves_what_is_known_of_the_rows_that_stay():
    table = {"who": ["a"] * 4, "when": [10, 30, 40, 60], "x": 1.0}
    encoder = SequenceEncoder("who", "when", max_events=2).fit(pd.DataFrame(table))
    batch = encoder.transform(pd.DataFrame(table))
    assert (batch.elapsed.tolist(), batch.gap.tolist()) == ([30.0, 50.0], [10.0, 20.0])
    between = encoder.append(batch, pd.DataFrame({"who": ["a"], "when": [35], "x": 1.0}))
    assert (between.elapsed.tolist(), between.gap.tolist()) == ([30.0, 50.0], [5.0, 20.0])
    earlier = encoder.append(between, pd.DataFrame({"who": ["a"], "when": [4], "x": 1.0}))
    assert (earlier.elapsed.tolist(), earlier.gap.tolist()) == ([36.0, 56.0], [5.0, 20.0])
    later = encoder.append(earlier, pd.DataFrame({"who": ["a"], "when": [70], "x": 1.0}))
    assert (later.elapsed.tolist(), later.gap.tolist()) == ([56.0, 66.0], [20.0, 10.0])
    assert later.row.tolist() == [3, 6]


@pytest.mark.parametrize(
    "keys",
    [
        [3, 1, 3, 2],
        [0.5, 2.0, 2.0, 0.25],
        [True, False, True, False],
        pd.to_datetime([3, 1, 3, 2], unit="s"),
        pd.to_datetime([3, 1, 3, 2], unit="s", utc=True),
    ],
)
def test_keys_of_every_kind_are_found_again(keys):
    frame = pd.DataFrame({"who": keys, "when": [1, 2, 3, 4], "x": 1.0})
    encoder = SequenceEncoder("who", "when").fit(frame)
    batch = by_parts(encoder, frame, [2, 3])
    assert plain(batch) == plain(encoder.transform(frame))
    assert batch.entities.dtype == encoder.transform(frame).entities.dtype


def test_rows_left_out_count_as_rows_of_the_table():
    frame = events(20)
    frame.loc[[2, 12], "who"] = None
    encoder = SequenceEncoder("who", "when", on_missing="drop").fit(events(20))
    with pytest.warns(UserWarning, match="1 rows are left out: column 'who' is missing in 1"):
        batch = encoder.transform(frame[:10])
    with pytest.warns(UserWarning, match="1 rows are left out") as caught:
        batch = encoder.append(batch, frame[10:])
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="2 rows are left out"):
        assert plain(batch) == plain(encoder.transform(frame))
    assert batch.n_input == 20


def test_a_tie_with_a_row_that_is_there_is_refused():
    frame = pd.DataFrame({"who": list("aba"), "when": [1, 1, 2], "x": 1.0})
    encoder = SequenceEncoder("who", "when", ties="error").fit(frame)
    batch = encoder.transform(frame)
    with pytest.raises(
        ValueError, match="column 'when': must differ .* got 1 rows .* the first one of a at 2"
    ):
        encoder.append(batch, frame[2:])
    assert encoder.append(batch, frame.assign(when=[3, 2, 4])).lengths.tolist() == [4, 2]


def test_nothing_changes_in_the_batch_that_is_given():
    frame, encoder = events(40), FITTED["merge", None]
    batch = encoder.transform(frame[:20])
    before = plain(batch)
    encoder.append(batch, frame[20:])
    assert plain(batch) == before


def test_picked_sequences_go_on():
    frame, encoder = events(40), FITTED["stable", None]
    batch = encoder.transform(frame[:30])
    picked = batch[torch.tensor([2, 0])]
    got = encoder.append(picked, frame[30:])
    known = frame[:30]["who"].isin(picked.entities)
    kept = pd.concat([frame[:30][known], frame[30:]])
    expected = encoder.transform(kept)
    assert plain(got) == plain(replace(expected, row=torch.tensor(kept.index.to_numpy())[expected.row]))


def test_batches_that_rows_cannot_be_added_to():
    frame, encoder = events(40), FITTED["stable", None]
    batch = encoder.transform(frame)
    with pytest.raises(
        ValueError, match="batch must have every entity once, as transform gives it, got one twice"
    ):
        encoder.append(batch.cut(2), frame)
    for columns in (["place"], TableEncoder({"tags": "drop"})):
        other = SequenceEncoder("who", "when", columns).fit(frame)
        with pytest.raises(ValueError, match="batch must have the columns of this encoder, "):
            encoder.append(other.transform(frame), frame)
