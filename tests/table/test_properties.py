"""What holds of a table encoder whatever stands in a column: ids, rows, order, merging, libraries."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from drawn_columns import FEW_OR_MANY, KINDS, LISTS, NUMBERS, ONE_A_ROW, column, drawn, known_and_given
from hypothesis import assume
from hypothesis import strategies as st

from tabembed import Categorical, TableEncoder
from tabembed.schema import ContinuousColumn

pytestmark = pytest.mark.filterwarnings("ignore:column:UserWarning")  # columns without a value are wanted
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
AS_A_CATEGORY = pytest.mark.parametrize("kind", ONE_A_ROW)


def table(kind, values):
    return pa.table({"x": column(kind, values)})


def spec(kind, categorical):
    """By the dtype alone, or a category whatever the dtype; two kinds are none in every library."""
    told = kind in ("time of day", "dictionary of ints") or (categorical and kind not in LISTS)
    return {"x": Categorical()} if told else None


def fitted(kind, known, categorical=False):
    return TableEncoder(spec(kind, categorical)).fit(table(kind, known))


def lanes(batch):
    """Every number of a batch, lists row by row."""
    flat = [batch.ids, batch.values, batch.missing, batch.times]
    rows = [[tuple(r) for r in t.tolist()] for t in flat]
    for ragged in batch.lists.values():
        ends = ragged.offsets.tolist()
        cells = [tuple(ragged.ids[a:b].tolist()) for a, b in zip(ends, ends[1:], strict=False)]
        rows += [cells, ragged.missing.tolist()]
    return list(zip(*rows, strict=True))


def plain(values):
    """Values as Python compares them: NaN is a gap."""
    return [None if v is None or v != v else v for v in values]


@AS_A_CATEGORY
@FEW_OR_MANY
def test_ids_are_a_bijection_by_falling_count_then_by_value(kind, n_examples):
    @drawn(n_examples, known_and_given(kind), st.sampled_from([1, 70]))
    def check(values, repeat):
        known, given = values
        encoder = fitted(kind, known, categorical=True)
        counts = Counter(v for v in plain(column(kind, known).to_pylist()) if v is not None)
        ranked = sorted(counts, key=lambda v: (-counts[v], v))
        ids = {None: 1} | {v: 3 + i for i, v in enumerate(ranked)}
        found = encoder.transform(table(kind, given * repeat)).ids[:, 0].tolist()
        assert found == [ids.get(v, 2) for v in plain(column(kind, given).to_pylist())] * repeat
        assert encoder.schema_["x"].counts[3:] == tuple(counts[v] for v in ranked)


@EVERY_KIND
@FEW_OR_MANY
def test_a_row_does_not_depend_on_the_rows_beside_it(kind, n_examples):
    @drawn(n_examples, known_and_given(kind), st.booleans())
    def check(values, categorical):
        known, given = values
        encoder = fitted(kind, known, categorical)
        alone = [lanes(encoder.transform(table(kind, [value])))[0] for value in given]
        assert lanes(encoder.transform(table(kind, given))) == alone
        assert lanes(encoder.transform(table(kind, given * 70))) == alone * 70
        assert lanes(encoder.transform(table(kind, [*given, None]).slice(0, len(given)))) == alone


@EVERY_KIND
@FEW_OR_MANY
def test_rows_in_another_order_give_that_order(kind, n_examples):
    @drawn(n_examples, known_and_given(kind), st.randoms(use_true_random=False))
    def check(values, shuffler):
        known, given = values
        encoder = fitted(kind, known)
        order = list(range(len(given)))
        shuffler.shuffle(order)
        rows = encoder.transform(table(kind, [given[i] for i in order]))
        assert lanes(rows) == lanes(
            encoder.transform(table(kind, given))[torch.tensor(order, dtype=torch.int64)]
        )
        again = list(known)
        shuffler.shuffle(again)
        assert same_fit(fitted(kind, again), encoder)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NUMBERS])
@FEW_OR_MANY
def test_what_was_encoded_comes_back(kind, n_examples):
    @drawn(n_examples, known_and_given(kind))
    def check(values):
        known, _ = values
        encoder = fitted(kind, known)
        back = encoder.inverse_transform(encoder.transform(table(kind, known)))["x"]
        assert alike(pa.array(back, from_pandas=True), column(kind, known))


@pytest.mark.parametrize("kind", NUMBERS)
@FEW_OR_MANY
def test_numbers_that_are_categories_come_back(kind, n_examples):
    @drawn(n_examples, known_and_given(kind))
    def check(values):
        known, _ = values
        encoder = fitted(kind, known, categorical=True)
        back = encoder.inverse_transform(encoder.transform(table(kind, known)))["x"]
        assert alike(pa.array(back, from_pandas=True), column(kind, known))


def alike(back, given):
    """Equal values, whichever type they are kept in."""
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if pa.types.is_temporal(given.type):
        nanos = pa.time64("ns") if pa.types.is_time(given.type) else pa.timestamp("ns")
        back, given = (
            a.cast(pa.timestamp("ns", a.type.tz)) if getattr(a.type, "tz", None) else a.cast(nanos)
            for a in (back, given)
        )
        back, given = back.cast(pa.int64()), given.cast(pa.int64())
    return plain(back.to_pylist()) == plain(given.to_pylist())


def same_fit(one, other):
    """Ids equal bit by bit, moments to 1e-12 of the numbers' size."""
    a, b = one.schema_["x"], other.schema_["x"]
    if isinstance(a, ContinuousColumn) and isinstance(b, ContinuousColumn):
        a, b = asdict(a), asdict(b)
        size = max(abs(a["minimum"]), abs(a["maximum"]))
        for name in ("mean", "std", "centre", "scale"):
            if not math.isclose(a.pop(name), b.pop(name), rel_tol=1e-9, abs_tol=1e-12 * size):
                return False
        for name in ("points", "counts"):  # of the scaled values: a last bit of the scale moves them
            a.pop(name), b.pop(name)
    names = [{n: v.tolist() for n, v in e.categories_.items()} for e in (one, other)]
    return a == b and str(names[0]) == str(names[1])


def merged(*states):
    total, *others = states
    for state in others:
        total = total.merge(state)
    return total


@EVERY_KIND
@FEW_OR_MANY
def test_merging_is_associative_and_commutative(kind, n_examples):
    @drawn(
        n_examples, known_and_given(kind), st.lists(st.integers(0, 24), min_size=2, max_size=2), st.booleans()
    )
    def check(values, cuts, categorical):
        rows = [*values[0], *values[1]]
        encoder = TableEncoder(spec(kind, categorical))
        first, second = sorted(cuts)
        a, b, c = (
            encoder.partial(table(kind, part)) for part in (rows[:first], rows[first:second], rows[second:])
        )
        whole = TableEncoder(encoder.columns).fit(table(kind, rows))
        for state in (a.merge(b).merge(c), a.merge(b.merge(c)), c.merge(a).merge(b), b.merge(c.merge(a))):
            assert same_fit(TableEncoder(encoder.columns).finalize(state), whole)
        assert same_fit(
            TableEncoder(encoder.columns).finalize(a.merge(b).merge(c)), whole
        )  # none was used up


def forms(kind, values):
    """One column in every library, and in every form of it that loses no digit."""
    array = column(kind, values)
    nullable = {pa.int8(): pd.Int8Dtype(), pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    found = {
        "arrow": pa.table({"x": array}),
        "arrow in chunks": pa.table({"x": pa.chunked_array([array[:1], array[1:1], array[1:]], array.type)}),
        "pandas of arrow": pa.table({"x": array}).to_pandas(types_mapper=pd.ArrowDtype),
        "dict of arrow": {"x": array},
    }
    if kind in LISTS:  # Arrow makes floats of whole numbers beside a gap inside a cell
        found["pandas"] = pd.DataFrame({"x": pd.Series(array.to_pylist(), dtype=object)})
    elif kind != "decimal":  # pandas and polars know them as objects and as another width
        found["pandas"] = pa.table({"x": array}).to_pandas(types_mapper=nullable.get)
    text = pa.types.is_large_string(array.type) or pa.types.is_string(array.type)
    if text:
        for dtype in ("object", "str", "string", "category"):
            found[f"pandas {dtype}"] = pd.DataFrame({"x": pd.Series(values, dtype=object).astype(dtype)})
    if kind not in LISTS:
        found["dict of objects"] = {"x": array.to_pylist()}
        found["pandas object"] = pd.DataFrame({"x": pd.Series(array.to_pylist(), dtype=object)})
    if kind in ("bool", *NUMBERS) and None not in values and kind != "decimal":
        found["numpy"] = array.to_numpy(zero_copy_only=False)[:, None]
        found["numpy, bytes swapped"] = {
            "x": array.to_numpy(zero_copy_only=False).astype(found["numpy"].dtype.newbyteorder())
        }
    found["polars"] = pl.DataFrame({"x": pl.from_arrow(array)})
    if not pa.types.is_dictionary(array.type):
        found["duckdb"] = duckdb.from_arrow(pa.table({"x": array}))
    return found


@EVERY_KIND
@FEW_OR_MANY
def test_every_library_says_the_same(kind, n_examples):
    @drawn(n_examples, known_and_given(kind), st.booleans())
    def check(values, categorical):
        known, given = values
        assume(any(v is not None and v == v for v in known))  # of gaps alone the types say too little
        told = spec(kind, categorical)
        encoder = TableEncoder(told).fit(table(kind, known))
        expected = lanes(encoder.transform(table(kind, given)))
        for name, form in forms(kind, given).items():
            assert lanes(encoder.transform(form)) == expected, name
        for name, form in forms(kind, known).items():
            other = TableEncoder({"x0": Categorical()} if told and name == "numpy" else told).fit(form)
            assert (
                lanes(
                    other.transform(
                        table(kind, given) if name != "numpy" else pa.table({"x0": column(kind, given)})
                    )
                )
                == expected
            ), name
