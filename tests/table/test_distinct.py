"""Counts of distinct values: free of the order of parts, exact to the bound, and honest beyond it."""

from __future__ import annotations

from collections import Counter
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tabembed.table.category
import tabembed.table.distinct as distinct
from tabembed import Categorical, CategoricalList, TableEncoder
from tabembed.table.distinct import Distinct
from tabembed.table.hashes import hashes

QUICK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
TEXT = pa.large_string()


def text(values):
    return pa.array([str(value) for value in values], TEXT)


def merged(values, n_parts):
    """Counts of parts, merged from the left; what one state of all parts would be."""
    cuts = np.array_split(np.arange(len(values)), n_parts)
    return reduce(Distinct.merge, (Distinct.of(values.take(pa.array(cut, pa.int64()))) for cut in cuts))


def as_counts(state):
    return dict(zip(state.values.to_pylist(), state.counts.tolist(), strict=True))


@pytest.mark.parametrize("block", [3, 1 << 17])
@pytest.mark.parametrize("bits", [64, 4, 0])
@QUICK
@given(
    values=st.lists(st.text(max_size=3) | st.sampled_from(["a", "b"]), min_size=1), n_parts=st.integers(2, 5)
)
def test_parts_are_counted_as_a_loop_would(monkeypatch, bits, block, values, n_parts):
    mask = np.uint64(2**bits - 1)  # few bits: most values share their hash with another
    monkeypatch.setattr(distinct, "hashes", lambda values: hashes(values) & mask)
    monkeypatch.setattr(distinct, "_BLOCK", block)
    state = merged(text(values), n_parts)
    assert as_counts(state) == Counter(values)
    backwards = merged(text(values[::-1]), n_parts + 1)
    assert state.values.equals(backwards.values)
    assert np.array_equal(state.counts, backwards.counts)


@pytest.mark.parametrize("bits", [64, 3])
@QUICK
@given(values=st.lists(st.integers(-50, 50), min_size=1, max_size=200), n_parts=st.integers(2, 6))
def test_beyond_the_bound_the_same_values_stay_whatever_the_parts(monkeypatch, bits, values, n_parts):
    mask = np.uint64(2**bits - 1)
    monkeypatch.setattr(distinct, "hashes", lambda values: hashes(values) & mask)
    monkeypatch.setattr(distinct, "CAPACITY", 10)
    count = Counter(values)
    keys = hashes(pa.array(list(count))) & mask
    expected = [value for _, value in sorted(zip(keys.tolist(), count, strict=True))][:10]
    for given_values in (values, values[::-1], sorted(values)):
        state = merged(pa.array(given_values, pa.int64()), n_parts)
        assert state.values.to_pylist() == expected
        assert as_counts(state) == {value: count[value] for value in expected}
        assert state.n_left_out == len(values) - sum(count[value] for value in expected)


def test_one_part_beyond_the_bound_is_bounded(monkeypatch):
    monkeypatch.setattr(distinct, "CAPACITY", 10)
    whole, parts = Distinct.of(text(range(500))), merged(text(range(500)), 7)
    assert whole.values.equals(parts.values)
    assert (len(whole.counts), whole.n_left_out, parts.n_left_out) == (10, 490, 490)


def test_how_many_values_there_are_is_estimated_within_its_error(monkeypatch):
    monkeypatch.setattr(distinct, "CAPACITY", 1000)
    ratios = []
    for seed in range(20):
        values = np.random.default_rng(seed).choice(10**9, 30_000, replace=False)
        estimate, error = merged(text(values), 4).n_estimated()
        assert error == pytest.approx(1 / np.sqrt(998))
        ratios.append((estimate / 30_000 - 1) / error)
    assert np.abs(ratios).max() < 4
    assert 0.5 < np.sqrt(np.mean(np.square(ratios))) < 1.6
    assert Distinct.of(text("ab")).n_estimated() == (2.0, 0.0)


@pytest.mark.parametrize("kind", [Categorical(), CategoricalList(",")], ids=["categories", "lists"])
def test_a_fit_says_what_it_does_not_count(monkeypatch, tmp_path, kind):
    monkeypatch.setattr(distinct, "CAPACITY", 100)
    rows = {"who": [f"k{i}" for i in range(1000)] * 2 + [None]}
    encoder = TableEncoder({"who": kind})
    with pytest.warns(UserWarning, match="who") as said:
        encoder.fit(rows)
    (warning,) = said
    message = str(warning.message)
    assert warning.filename == __file__
    assert message.startswith("column 'who': has about ")
    assert "values (± 10.10%), more than the 100 that are counted" in message
    assert message.endswith("the 1,800 of its cells with the others count as unknown")
    assert 600 < int(message.split("about ")[1].split()[0].replace(",", "")) < 1400
    column = encoder.schema_["who"]
    assert column.counts == (0, 1, 1800) + (2,) * 100
    assert column.n_values == 2000
    with pytest.warns(UserWarning, match="column 'who': has about"):
        again = TableEncoder({"who": kind}).fit({"who": rows["who"][1500:]})
    with pytest.warns(UserWarning, match="column 'who': has about"):
        again.partial_fit({"who": rows["who"][:1500]})
    assert again.schema_ == encoder.schema_


@pytest.mark.parametrize("n", [0, 1, 7, 20])
def test_long_columns_are_counted_in_slices(monkeypatch, n):
    monkeypatch.setattr(tabembed.table.category, "_AT_A_TIME", 3)
    values = [None if i % 4 == 3 else f"{i % 5}" for i in range(n)]
    state = Categorical().partial("x", pa.array(values, pa.string()))
    assert as_counts(state.distinct) == Counter(value for value in values if value is not None)
    assert state.n_missing == values.count(None)


def test_whole_numbers_join_floats_where_float64_holds_them():
    encoder = TableEncoder({"x": Categorical()})
    ints, floats = encoder.partial({"x": [2**60, 7]}), encoder.partial({"x": [0.5, 7.0]})
    encoder.finalize(floats.merge(ints))
    assert encoder.categories_["x"].tolist() == [7.0, 0.5, 2.0**60]
    with pytest.raises(
        ValueError, match="column 'x': its parts must fit one type of number .float64 cannot hold"
    ):
        encoder.partial({"x": [2**60 + 1]}).merge(floats)


def test_a_hash_is_one_for_equal_values_and_another_for_others():
    numbers = [0, -1, 2**53 + 2, 7, -(2**63)]
    assert np.array_equal(hashes(pa.array(numbers)), hashes(pa.array([float(x) for x in numbers])))
    wide = [2**63, 2**64 - 2048, 5]
    assert np.array_equal(hashes(pa.array(wide, pa.uint64())), hashes(pa.array([float(x) for x in wide])))
    floats = [0.5, -0.5, np.inf, -np.inf, 1e300, 2.0**64, *numbers, *wide]
    assert len(set(hashes(pa.array(sorted(set(map(float, floats))))).tolist())) == len(
        set(map(float, floats))
    )
    assert hashes(pa.array([-1]))[0] != hashes(pa.array([2**64 - 1], pa.uint64()))[0]
    assert hashes(pa.array([True, False])).tolist() == hashes(pa.array([1, 0])).tolist()
    assert len(hashes(pa.nulls(0))) == 0
    assert hashes(pa.array(["stable"], TEXT)).tolist() == [STABLE]


STABLE = 5073964587186204566
"""Of every version and machine: states that are merged may come from another process."""


@pytest.mark.parametrize("size", [1, 3, 1 << 22])
def test_texts_hash_alike_wherever_they_lie(monkeypatch, size):
    rng = np.random.default_rng(0)
    texts = sorted({"".join(rng.choice(list("aé\0"), n)) for n in rng.integers(0, 40, 500)})
    texts += ["a" * n for n in (100, 5000, 5001)] + ["\0" * n for n in range(41, 60)]
    whole = hashes(pa.array(texts, TEXT))
    assert len(set(whole.tolist())) == len(texts)
    monkeypatch.setattr("tabembed.table.hashes._BYTES", size * 32)
    assert np.array_equal(hashes(pa.array(texts, TEXT)), whole)
    assert np.array_equal(hashes(pa.array(["x", *texts, "y"], TEXT)[1:-1]), whole)
    assert [hashes(pa.array([one], TEXT))[0] for one in texts[::50]] == whole[::50].tolist()
