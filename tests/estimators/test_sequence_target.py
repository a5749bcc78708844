from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from tabembed.estimators.sequence_target import sequence_target
from tabembed.sequence.batch import SequenceBatch, example


def two_entities() -> SequenceBatch:
    """Entities 7 (input rows 4, 0) and 9 (input rows 1, 3) of a table of 5 rows; row 2 is left out."""
    one = example((10, 20, 30, 40)[:3])
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
    values, per = sequence_target(kind([10, 20, 30, 40, 50]), two_entities())
    assert (values.tolist(), per) == ([50, 10, 20, 40], "row")


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_one_value_an_entity_comes_in_the_order_of_the_entities(kind):
    values, per = sequence_target(kind({9: "late", 7: "early"}), two_entities())
    assert (values.tolist(), per) == (["early", "late"], "entity")


def test_a_series_with_the_labels_of_the_table_is_by_row_even_where_they_are_the_entities():
    batch = replace(two_entities()[:1], n_input=2, row=torch.tensor([1, 0]))
    batch = replace(batch[[0]], entities=np.array([0]))
    y = pd.Series([1.0, 2.0])
    assert sequence_target(y, batch, pd.RangeIndex(2))[1] == "row"
    pairs = replace(two_entities(), n_input=2, row=torch.tensor([0, 0, 1, 1]))
    by_label = pd.Series([1.0, 2.0], index=[9, 7])
    assert sequence_target(by_label, pairs, [9, 7])[1] == "row"
    assert sequence_target(by_label, pairs, [0, 1])[0].tolist() == [2.0, 1.0]


@pytest.mark.parametrize("gap", [np.nan, None, pd.NA, "text"])
def test_values_of_rows_that_are_left_out_are_not_read(gap):
    assert sequence_target(np.array([10, 20, gap, 40, 50], object), two_entities())[0].tolist() == [
        50,
        10,
        20,
        40,
    ]


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
        ([1, 2, 3, np.nan, 5], "have no missing value, got NaN in row 3"),
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
