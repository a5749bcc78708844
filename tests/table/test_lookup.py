from __future__ import annotations

import pandas as pd
import pytest

from tabembed import Categorical, CategoricalList, TableEncoder
from tabembed.table.lookup import column_with_ids, ids_of


@pytest.fixture(scope="module")
def encoder():
    table = pd.DataFrame(
        {
            "city": ["Rome", "Oslo", "Rome", None],
            "tags": ["a|b", "b", "", None],
            "zip": [7, 8, 8, 8],
            "day": pd.to_datetime(["2024-01-02", "2024-01-02", "2024-01-01", None]),
            "km": [1.0, 2.0, 3.0, 4.0],
        }
    )
    kinds = {"tags": CategoricalList("|"), "zip": Categorical(), "day": Categorical()}
    return TableEncoder(kinds).fit(table)


@pytest.mark.parametrize(
    ("column", "values", "ids"),
    [
        ("city", ["Oslo", None, float("nan"), "Lima", "Rome"], [4, 1, 1, 2, 3]),
        ("tags", ["b", "a", "c"], [3, 4, 2]),
        ("zip", [8, 7.0, 9], [3, 4, 2]),
        ("day", [pd.Timestamp("2024-01-01"), pd.NaT], [4, 1]),
        ("city", pd.Series(["Rome"], dtype="category"), [3]),
        ("city", [], []),
    ],
)
def test_values_have_the_ids_of_cells(encoder, column, values, ids):
    assert ids_of(encoder, column, values).tolist() == ids


def test_categories_read_back_have_their_ids(encoder):
    for name, known in encoder.categories_.items():
        assert ids_of(encoder, name, list(known)).tolist() == list(range(3, 3 + len(known)))
    assert encoder.categories_["day"][0] == pd.Timestamp("2024-01-02")


def test_only_columns_with_categories_have_ids(encoder):
    with pytest.raises(ValueError, match=r"column 'km': has no embedding table, only \['city', 'tags', 'zip"):
        ids_of(encoder, "km", [1.0])
    with pytest.raises(ValueError, match=r"column 'city': has no embedding table, only \[\] have one"):
        column_with_ids(None, "city")


def test_values_of_another_type_are_refused(encoder):
    with pytest.raises(TypeError, match="column 'city': must hold text as in the fit, got numbers"):
        ids_of(encoder, "city", [3])
