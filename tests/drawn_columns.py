"""Columns of every kind with whatever their types can hold, drawn by hypothesis."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FEW_OR_MANY = pytest.mark.parametrize(
    "n_examples", [2, pytest.param(30, marks=pytest.mark.slow)], ids=["few", "many"]
)
"""How many examples of each kind: some in every run, more in the slow tests."""

FAR = 2**53
TEXT = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        [
            "",
            " ",
            "\x00",
            "a\x00b",
            "e\u0301",
            "é",
            "\u202eabc",
            "😀",
            "🏳️‍🌈",
            "nan",
            "None",
            "\ufeffx",
            "ﬁ",
            "İ",
        ]
    ),
)
FLOATS = st.one_of(
    st.floats(width=64),
    st.sampled_from(
        [0.0, -0.0, 1.0, 2.5, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7e308, float(FAR)]
    ),
)
WHOLE = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(-4, 4), st.sampled_from([FAR, FAR + 1, -(2**63), 2**63 - 1])
)
NANOS = st.one_of(st.integers(-(2**62), 2**62), st.sampled_from([0, -1, 1, 1_709_294_400 * 10**9 + 1]))
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def instants(unit, zone=None):
    """Whole ticks of a unit, within the years that nanoseconds reach."""
    return pa.timestamp(unit, zone), NANOS.map(lambda ns: ns * PER_SECOND[unit] // 10**9)


KINDS = {
    "string": (pa.string(), TEXT),
    "large string": (pa.large_string(), TEXT),
    "string view": (pa.string_view(), TEXT),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), TEXT),
    "dictionary of ints": (pa.dictionary(pa.int32(), pa.int64()), WHOLE),
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), WHOLE),
    "uint64": (
        pa.uint64(),
        st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([2**64 - 1, 2**63, FAR + 1, 3])),
    ),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), FLOATS),
    "decimal": (pa.decimal128(20, 0), st.integers(-(10**17), 10**17).map(Decimal)),
    "date": (pa.date32(), st.dates(dt.date(1678, 1, 1), dt.date(2261, 12, 31))),
    **{f"timestamp in {unit}": instants(unit) for unit in PER_SECOND},
    "timestamp in UTC": instants("us", "UTC"),
    "timestamp in a zone": instants("ns", "America/New_York"),
    "time of day": (pa.time64("us"), st.times()),
    "list of text": (pa.list_(pa.string()), st.lists(st.none() | TEXT, max_size=3)),
    "list of ints": (pa.large_list(pa.int64()), st.lists(st.none() | WHOLE, max_size=3)),
}
LISTS = [kind for kind in KINDS if kind.startswith("list")]
ONE_A_ROW = [kind for kind in KINDS if kind not in LISTS]
NUMBERS = ["int8", "int64", "uint64", "float32", "float64", "decimal"]


def column(kind, values):
    """An Arrow column of the kind."""
    arrow = KINDS[kind][0]
    if pa.types.is_dictionary(arrow):
        return pa.array(values, arrow.value_type).dictionary_encode().cast(arrow)
    if pa.types.is_timestamp(arrow):
        return pa.array(values, pa.int64()).cast(arrow)
    return pa.array(values, arrow)


@st.composite
def known_and_given(draw, kind):
    """Values of a fit, a few of them again and again, and values of a later table: those and others."""
    value = KINDS[kind][1]
    pool = st.sampled_from(draw(st.lists(value, min_size=1, max_size=5)))
    known = draw(st.lists(st.none() | pool, min_size=1, max_size=12))
    return known, draw(st.lists(st.one_of(st.none(), pool, value), max_size=12))


def drawn(n_examples, *strategies):
    """Run a function on so many examples, the same ones in every run."""

    def run(check):
        quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much]
        settings(max_examples=n_examples, suppress_health_check=quiet, database=None)(
            given(*strategies)(check)
        )()

    return run
