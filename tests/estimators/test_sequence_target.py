from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from tabembed.estimators.sequence_target import in_key_order, sequence_target
from tabembed.sequence import SequenceEncoder
from tabembed.sequence.batch import SequenceBatch, example


def two_entities() -> SequenceBatch:
    """Entities 7 (input rows 4, 0) and 9 (input rows 1, 3) of a table of 5 rows; row 2 is left out."""
    one = example()
    rows = one.rows[[0, 1, 2, 0]]
    flat = {name: getattr(one, name)[[0, 1, 0, 1]] for name in ("times", "elapsed", "gap")}
    return SequenceBatch(
        rows,
        torch.tensor([0, 2, 4], dtype=torch.int32),
        np.array([7, 9]),
        **flat,
        row=torch.tensor([4, 0, 1, 3]),
        n_input=5,
    )


@pytest.mark.parametrize(
    "kind", [list, np.array, pd.Series, pl.Series, torch.tensor, lambda y: [[v] for v in y]]
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_one_value_a_row_comes_in_the_order_of_the_batch(kind):
    target = sequence_target(kind([10, 20, 30, 40, 50]), two_entities())
    assert (target.values.tolist(), target.per) == ([50, 10, 20, 40], "row")
    assert target.labelled.all()


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_one_value_an_entity_comes_in_the_order_of_the_entities(kind):
    target = sequence_target(kind({9: "late", 7: "early"}), two_entities())
    assert (target.values.tolist(), target.per) == (["early", "late"], "entity")
    assert not in_key_order(kind({9: "late", 7: "early"}), two_entities())
    assert in_key_order(kind({7: "early", 9: "late"}), two_entities())
    assert in_key_order([1, 2, 3, 4, 5], two_entities())


@pytest.mark.parametrize("index", [[9, 7], [0, 1], [7, 9]])
def test_a_series_of_as_many_values_as_rows_is_by_row_whatever_its_labels(index):
    pairs = replace(two_entities(), n_input=2, row=torch.tensor([0, 0, 1, 1]))
    target = sequence_target(pd.Series([1.0, 2.0], index=index), pairs)
    assert (target.values.tolist(), target.per) == ([1.0, 1.0, 2.0, 2.0], "row")


DAYS = [pd.Timestamp("2024-03-01"), pd.Timestamp("2024-01-02 03:04:05.000000006")]


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (DAYS, DAYS),
        (DAYS, [day.to_datetime64() for day in DAYS]),
        ([day.date() for day in DAYS], [day.date() for day in DAYS]),
        ([day.date() for day in DAYS], [pd.Timestamp(day.date()) for day in DAYS]),
        ([day.tz_localize("Asia/Tokyo") for day in DAYS], [day.tz_localize("Asia/Tokyo") for day in DAYS]),
        ([day.tz_localize("UTC") for day in DAYS], [day.tz_localize("UTC").tz_convert(3600) for day in DAYS]),
        ([7, 3], [np.int32(7), np.int32(3)]),
        ([7.0, 3.0], [7, 3]),
        ([7, 3], [7.0, 3.0]),
        ([3.0, 0.5], [np.float64(3.0), np.float64(0.5)]),
        (["b", "a"], [np.str_("b"), np.str_("a")]),
        ([True, False], [np.True_, np.False_]),
    ],
    ids=str,
)  # fmt: skip
def test_keys_are_read_as_entities_are(column, keys):
    table = pd.DataFrame({"who": [*column, column[0]], "when": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    batch = SequenceEncoder("who", "when").fit(table).transform(table)
    for y in (dict(zip(keys, ["first", "second"], strict=True)), pd.Series(["first", "second"], index=keys)):
        target = sequence_target(y, batch)
        assert (target.values.tolist(), target.per) == (["second", "first"], "entity")
        assert not in_key_order(y, batch)


@pytest.mark.parametrize(
    ("kind", "name"), [(list, "list"), (tuple, "tuple"), (np.array, "ndarray"), (set, "set")], ids=str
)
def test_several_values_an_entity_are_none(kind, name):
    for y in ({7: kind([1, 2]), 9: kind([3, 4])}, {7: 1, 9: kind([3])}):
        entity = 7 if len(set(map(type, y.values()))) == 1 else 9
        text = f"y must have one value for every entity, got a {name} for entity {entity}"
        with pytest.raises(TypeError, match=text):
            sequence_target(y, two_entities())


def test_keys_of_several_kinds_and_keys_that_are_one():
    with pytest.raises(TypeError, match="y must have keys of one kind, those of the entities"):
        sequence_target({7: 1, "9": 2}, two_entities())
    moments = {DAYS[0]: 1, DAYS[0].date(): 2, DAYS[1]: 3}
    with pytest.raises((TypeError, ValueError), match="keys of one kind|once, got"):
        sequence_target(moments, replace(two_entities(), entities=np.array(DAYS, "datetime64[ns]")))


@pytest.mark.parametrize("gap", [np.nan, None, pd.NA, pd.NaT])
def test_rows_may_lack_a_value(gap):
    target = sequence_target(np.array([10, gap, 30, 40, gap], object), two_entities())
    assert target.labelled.tolist() == [False, True, False, True]
    assert target.values[target.labelled].tolist() == [10, 40]
    assert target.values.dtype.kind == "i"
    floats = sequence_target(pd.Series([10, np.nan, 30, 40, np.nan]), two_entities())
    assert floats.labelled.tolist() == [False, True, False, True]
    with pytest.raises(ValueError, match="y must have a value for at least one row, got none for 4 rows"):
        sequence_target([gap, gap, 30, gap, gap], two_entities())


@pytest.mark.parametrize("gap", [np.nan, None, pd.NA, "text"])
def test_values_of_rows_that_are_left_out_are_not_read(gap):
    target = sequence_target(np.array([10, 20, gap, 40, 50], object), two_entities())
    assert target.values.tolist() == [50, 10, 20, 40]
    assert target.labelled.all()


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([1, 2], "one value for every row of X, which has 5, or be a dict or a series with one for every "
                 "entity, of which there are 2, got 2 values"),
        (3.0, "got one value"),
        (pd.Series([1, 2, 3], index=[7, 9, 9]), "got 3 values"),
        (pd.Series([1, 2, 3], index=[7, 9, 11]), "for the entities of X alone, got 1 others, such as 11"),
        ({7: 1, 9: 2, 11: 3, 13: 4}, "for the entities of X alone, got 2 others, such as 11"),
        ({7: 1}, "a value for every entity of X, got none for 1 of 2, such as 9"),
        ({7: 1, 9: None}, "have no missing value, got NaN for entity 9"),
        ([1, 2, 3, np.inf, 5], "be finite, got infinity in row 3"),
        ([1, 1, 2, 1, 1], "have at least two distinct values"),
        ({7: 1, 9: 1}, "have at least two distinct values"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_target(y, text):
    with pytest.raises(ValueError, match="^y must .*" + re.escape(text)):
        sequence_target(y, two_entities())


@pytest.mark.parametrize("y", [{7: 1, 9: "late"}, np.array([1, 2, 3, "x", 5], dtype=object)], ids=str)
def test_one_kind_alone(y):
    with pytest.raises(TypeError, match="y must be of one kind, got int and str"):
        sequence_target(y, two_entities())


def test_a_masked_value_is_none():
    y = np.ma.masked_array([0, 7, 1], [False, True, False])
    one, other = sequence_target(y, example()), sequence_target([0, None, 1], example())
    assert one.labelled.tolist() == other.labelled.tolist()
    assert one.values[one.labelled].tolist() == other.values[other.labelled].tolist()
