"""Fits by parts: whatever the partition and the order, the same fitted encoder."""

from __future__ import annotations

import functools
from dataclasses import asdict

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabembed import Categorical, CategoricalList, Continuous, Datetime, TableEncoder
from tabembed.schema import ContinuousColumn

SPECS = {
    "city": Categorical(),
    "code": Categorical(min_frequency=2),
    "income": Continuous(scaler="standard"),
    "joined": Datetime(),
    "tags": CategoricalList(),
}
pytestmark = pytest.mark.filterwarnings(
    "ignore:column:UserWarning"
)  # columns without a value are wanted here
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def by_parts(encoder, parts, *, right=False):
    """Fit part by part, merged from the left or from the right."""
    states = [encoder.partial(part) for part in parts]
    if right:
        return encoder.finalize(functools.reduce(lambda a, b: encoder.merge_states(b, a), reversed(states)))
    return encoder.finalize(functools.reduce(encoder.merge_states, states))


def assert_same_schema(one, other):
    assert (one.n_rows, len(one.columns)) == (other.n_rows, len(other.columns))
    for a, b in zip(one.columns, other.columns, strict=True):
        assert type(a) is type(b)
        if isinstance(a, ContinuousColumn):
            a, b = asdict(a), asdict(b)
            for moment in ("mean", "std"):
                # a standard deviation of cancelled digits is exact to the size of the numbers
                size = max(abs(a["minimum"]), abs(a["maximum"]))
                assert a.pop(moment) == pytest.approx(b.pop(moment), rel=1e-12, abs=1e-12 * size)
            for derived in ("centre", "scale"):
                assert a.pop(derived) == pytest.approx(b.pop(derived), rel=1e-9, abs=1e-12 * size)
        assert a == b


def assert_same_fit(one, other):
    assert_same_schema(one.schema_, other.schema_)
    assert {n: v.tolist() for n, v in one.categories_.items()} == {
        n: v.tolist() for n, v in other.categories_.items()
    }


ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["a", "b", "c", "é", ""]),
        st.none() | st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1, -(2**63), 2**63 - 1]),
        st.none() | st.floats(-1e6, 1e6) | st.sampled_from([np.inf, -np.inf, 0.0, 0.0]),
        st.none() | st.integers(-(10**18), 10**18),
        st.none() | st.lists(st.none() | st.sampled_from("xyz"), max_size=3),
    ),
    min_size=1,
    max_size=25,
)


def table(rows):
    city, code, income, joined, tags = zip(*rows, strict=True) if rows else ([],) * 5
    return pa.table(
        {
            "city": pa.array(city, pa.string()),
            "code": pa.array(code, pa.int64()),
            "income": pa.array(income, pa.float64()),
            "joined": pa.array(joined, pa.int64()).cast(pa.timestamp("ns")),
            "tags": pa.array(tags, pa.list_(pa.string())),
        }
    )


@QUICK
@given(rows=ROWS, data=st.data(), right=st.booleans())
def test_any_partition_in_any_order_is_the_whole_fit(rows, data, right):
    shuffled = data.draw(st.permutations(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    edges = [0, *cuts, len(rows)]
    parts = [table(shuffled[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    encoder = TableEncoder(SPECS)
    by_parts(encoder, parts, right=right)
    whole = TableEncoder(SPECS).fit(table(rows))
    assert_same_fit(encoder, whole)
    a, b = encoder.transform(table(rows)), whole.transform(table(rows))
    assert a.ids.equal(b.ids)
    assert a.times.equal(b.times)
    assert a.missing.equal(b.missing)
    assert a.lists["tags"].ids.equal(b.lists["tags"].ids)
    np.testing.assert_allclose(a.values, b.values, rtol=1e-5, atol=1e-5)


@QUICK
@given(a=ROWS, b=ROWS, c=ROWS)
def test_merging_is_associative_and_symmetric(a, b, c):
    encoder = TableEncoder(SPECS)
    x, y, z = (encoder.partial(table(rows)) for rows in (a, b, c))
    one = TableEncoder(SPECS).finalize(encoder.merge_states(encoder.merge_states(x, y), z))
    other = TableEncoder(SPECS).finalize(encoder.merge_states(z, encoder.merge_states(y, x)))
    assert_same_fit(one, other)


@QUICK
@given(a=ROWS, b=ROWS)
def test_merging_leaves_both_states_unchanged(a, b):
    encoder = TableEncoder(SPECS)
    x, y = encoder.partial(table(a)), encoder.partial(table(b))
    encoder.merge_states(x, y)
    encoder.finalize(encoder.merge_states(y, x))
    for state, rows in ((x, a), (y, b)):
        after, fresh = TableEncoder(SPECS).finalize(state), TableEncoder(SPECS).fit(table(rows))
        assert after.schema_ == fresh.schema_
        assert_same_fit(after, fresh)


def test_a_state_is_not_used_up_by_finalizing():
    encoder = TableEncoder(SPECS)
    state = encoder.partial(table([("a", 1, 1.0, 1, ["x"])]))
    first = encoder.finalize(state).schema_
    assert encoder.finalize(state).schema_ == first
    assert encoder.finalize(encoder.merge_states(state, state)).schema_.n_rows == 2


def test_partial_and_merge_leave_the_encoder_alone():
    encoder = TableEncoder().fit({"x": ["a", "b"]})
    before = encoder.schema_
    state = encoder.partial({"x": ["c"]})
    encoder.merge_states(state, state)
    assert encoder.schema_ == before


def test_fit_is_partial_then_finalize():
    rows = table([("a", 1, 2.5, 7, ["x"]), (None, 2, 1.0, None, None)])
    encoder = TableEncoder(SPECS)
    assert encoder.finalize(encoder.partial(rows)) is encoder
    assert encoder.schema_ == TableEncoder(SPECS).fit(rows).schema_


EMPTY = {
    "pandas": pd.DataFrame({"c": pd.Series([], dtype=object), "n": pd.Series([], dtype=float)}),
    "pandas, no dtype": pd.DataFrame({"c": [], "n": []}),
    "polars": pl.DataFrame({"c": [], "n": []}, schema={"c": pl.String, "n": pl.Float64}),
    "arrow nulls": pa.table({"c": pa.nulls(0), "n": pa.nulls(0)}),
}


@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("first", [True, False])
def test_empty_parts_add_nothing(empty, first):
    rows = pd.DataFrame({"c": ["b", "a", "b", None], "n": [1.0, 2.0, np.nan, 4.0]})
    encoder = by_parts(TableEncoder(), [empty, rows] if first else [rows, empty])
    assert encoder.schema_ == TableEncoder().fit(rows).schema_
    assert encoder.kinds_ == {"c": "categorical", "n": "continuous"}


def test_only_empty_parts_are_an_error():
    encoder = TableEncoder()
    empty = encoder.partial(EMPTY["pandas"])
    with pytest.raises(ValueError, match="0 rows"):
        encoder.finalize(encoder.merge_states(empty, empty))


NULLS = {
    "object": pd.Series([None, None], dtype=object),
    "float": pd.Series([np.nan, np.nan]),
    "arrow": pa.nulls(2),
}
VALUES = {
    "text": (pd.Series(["b", "a"], dtype=object), "categorical"),
    "booleans": (np.array([True, False]), "categorical"),
    "ints": (np.array([5, 7]), "continuous"),
    "floats": (np.array([0.5, 0.75]), "continuous"),
    "times": (np.array(["2024-01-01", "2024-01-02"], "datetime64[us]"), "datetime"),
    "lists": (pa.array([["b"], ["a"]]), "list"),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("nulls", NULLS)
def test_a_part_of_gaps_waits_for_the_kind(nulls, values, first):
    gaps, (seen, kind) = {"x": NULLS[nulls]}, VALUES[values]
    parts = [gaps, {"x": seen}] if first else [{"x": seen}, gaps]
    encoder = by_parts(TableEncoder(), parts)
    assert encoder.kinds_ == {"x": kind}
    column = encoder.schema_["x"]
    assert encoder.schema_.n_rows == 4
    if kind == "categorical":
        assert column.counts == (0, 2, 0, 1, 1)
    elif kind != "list":
        assert (column.n_values, column.n_missing) == (2, 2)


def test_only_gaps_are_decided_at_the_end():
    with pytest.warns(UserWarning, match="column 'x'"):
        encoder = by_parts(TableEncoder(), [{"x": pa.nulls(2)}, {"x": pa.nulls(1)}])
    assert encoder.kinds_ == {"x": "categorical"}


@pytest.mark.parametrize("spec", [Categorical(), None], ids=["categorical", "by dtype"])
@pytest.mark.parametrize("first", [True, False])
def test_a_part_of_ints_and_a_part_of_floats(spec, first):
    ints, floats = {"x": np.array([1, 2, 2])}, {"x": np.array([2.0, np.nan, 3.5])}
    columns = None if spec is None else {"x": spec}
    encoder = by_parts(TableEncoder(columns), [ints, floats] if first else [floats, ints])
    assert_same_fit(encoder, TableEncoder(columns).fit({"x": np.array([1, 2, 2, 2, np.nan, 3.5])}))
    if spec:
        assert encoder.categories_["x"].tolist() == [2, 1, 3.5]
        assert encoder.transform({"x": np.array([1, 2, 3])}).ids[:, 0].tolist() == [4, 3, 2]


def test_wide_integers_survive_a_part_of_floats_with_a_gap():
    ints, floats = {"x": np.array([2**53, 2**53 + 1])}, {"x": np.array([1.0, np.nan])}
    encoder = by_parts(TableEncoder({"x": Categorical()}), [ints, floats])
    assert [int(v) for v in encoder.categories_["x"]] == [1, 2**53, 2**53 + 1]


@pytest.mark.parametrize(
    ("a", "b"),
    [(["a"], [1]), ([True], [1]), (["a"], [True]), ([1], np.array(["2024-01-01"], "datetime64[ns]"))],
    ids=str,
)
def test_parts_of_different_families_are_an_error(a, b):
    encoder = TableEncoder()
    with pytest.raises(TypeError, match="column 'x': "):
        encoder.finalize(encoder.merge_states(encoder.partial({"x": a}), encoder.partial({"x": b})))


def test_parts_of_the_largest_numbers_have_a_finite_mean():
    encoder = by_parts(TableEncoder(scaler="standard"), [{"x": [1.7e308]}, {"x": [-1.7e308]}])
    assert encoder.schema_["x"].mean == 0.0
    assert np.isfinite(encoder.schema_["x"].scale)


def test_parts_with_other_settings_are_an_error():
    encoder = TableEncoder().fit({"x": ["a", "b", "b"]}).set_params(min_frequency=2)
    other = TableEncoder(min_frequency=2).fit({"x": ["b", "c"]})
    for call in (lambda: encoder.partial_fit({"x": ["c"]}), lambda: encoder.merge(other)):
        with pytest.raises(ValueError, match="column 'x': must have the same settings in every part, got"):
            call()


def test_parts_with_different_columns_are_an_error():
    encoder = TableEncoder()
    with pytest.raises(ValueError, match="column 'y': "):
        encoder.merge_states(encoder.partial({"x": [1], "y": [2]}), encoder.partial({"x": [1]}))


def test_reordered_columns_of_a_part_give_the_same_fit():
    whole = pd.DataFrame({"a": ["x", "y", "y"], "b": [1, 2, 3]})
    encoder = by_parts(TableEncoder(), [whole[:1], whole[1:][["b", "a"]]])
    assert encoder.schema_ == TableEncoder().fit(whole).schema_


def test_quantiles_are_exact_to_the_cap_and_do_not_depend_on_the_order():
    x = np.random.default_rng(0).permutation(65_536) * 0.37
    encoder = by_parts(TableEncoder(), [{"x": part} for part in np.array_split(x, 7)])
    quantiles = encoder.schema_["x"].quantiles
    np.testing.assert_allclose(quantiles, np.quantile(x, np.linspace(0, 1, len(quantiles))), rtol=1e-12)
    assert quantiles == TableEncoder().fit({"x": np.sort(x)}).schema_["x"].quantiles


def test_beyond_the_cap_quantiles_stay_close_and_free_of_the_order():
    x = np.random.default_rng(1).normal(size=200_000)
    parts = [{"x": part} for part in np.array_split(x, 5)]
    forward, backward = (
        by_parts(TableEncoder(), parts).schema_["x"],
        by_parts(TableEncoder(), parts[::-1]).schema_["x"],
    )
    assert forward.quantiles == backward.quantiles == TableEncoder().fit({"x": x}).schema_["x"].quantiles
    ranks = np.searchsorted(np.sort(x), forward.quantiles) / len(x)
    assert np.abs(ranks - np.linspace(0, 1, len(ranks))).max() < 0.01
    assert (forward.minimum, forward.maximum) == (x.min(), x.max())
    assert forward.mean == pytest.approx(x.mean(), rel=1e-9)
    assert forward.std == pytest.approx(x.std(), rel=1e-12)


def test_moments_by_parts_to_twelve_digits_far_from_zero():
    x = 1e9 + np.random.default_rng(2).normal(size=10_000)
    encoder = by_parts(TableEncoder(), [{"x": part} for part in np.array_split(x, 13)])
    whole = TableEncoder().fit({"x": x}).schema_["x"]
    assert encoder.schema_["x"].mean == pytest.approx(whole.mean, rel=1e-12)
    assert encoder.schema_["x"].std == pytest.approx(whole.std, rel=1e-12)
    assert whole.std == pytest.approx(np.std(x - 1e9), rel=1e-9)


def test_shuffled_rows_give_the_same_fit():  # H40
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"c": [f"k{i}" for i in rng.integers(0, 1000, 3000)], "n": rng.normal(size=3000)})
    one, other = TableEncoder().fit(frame), TableEncoder().fit(frame.sample(frac=1, random_state=0))
    assert_same_fit(one, other)


def test_declared_orders_of_parts():
    def size(values, order):
        return {"s": pd.Categorical(values, categories=order, ordered=True)}

    same = by_parts(TableEncoder(), [size(["hi"], ["lo", "hi"]), size(["lo", "hi"], ["lo", "hi"])])
    assert same.schema_["s"].ordered == (4, 3)
    assert same.schema_["s"].counts == (0, 0, 0, 2, 1)


def test_warnings_name_the_line_that_called():
    frame = pd.DataFrame({"empty": [None, None], "big": [2**24 + 1, 2**24 + 3]})
    encoder = TableEncoder(scaler=None)
    for call, text in (
        (lambda: encoder.fit(frame), "no value in the fit"),
        (lambda: encoder.finalize(encoder.partial(frame)), "no value in the fit"),
        (lambda: encoder.transform(frame), "float32 changes its whole numbers"),
    ):
        with pytest.warns(UserWarning, match=text) as said:
            call()
        assert [warning.filename for warning in said] == [__file__]
