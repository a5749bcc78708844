from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tabembed import Categorical, CategoricalList, SequenceEncoder, TableEncoder

pytestmark = pytest.mark.filterwarnings("ignore:column 'x' .categorical")


def fit(values, spec=None, **settings):
    return TableEncoder({"x": spec or Categorical()}, **settings).fit(pd.DataFrame({"x": values, "km": 1.5}))


@pytest.mark.parametrize(
    ("values", "new", "known"),
    [
        (["b", "b", "a"], ["d", "a", None, "c", "d"], ["b", "a", "c", "d"]),
        ([2, 2, 1], [9, 4, 1], [2, 1, 4, 9]),
        ([2, 2, 1], [2.5, 1.0, np.nan], [2, 1, 2.5]),
        ([1.5, 1.5, 2.5], [7, 1.5, 2], [1.5, 2.5, 2, 7]),
        ([2, 2, 1], [2**63 + 5], [2, 1, 2**63 + 5]),
        ([True, True], [False], [True, False]),
        ([None, None], ["b", "a"], ["a", "b"]),
        (["b", "a"], [], ["a", "b"]),
        (["b", "a"], [None], ["a", "b"]),
    ],
)
def test_new_values_come_after_the_known_ones(values, new, known):
    encoder = fit(values)
    more = encoder.grow({"x": new})
    assert more.categories_["x"].tolist() == known
    n_old = len(encoder.categories_["x"])
    assert encoder.categories_["x"].tolist() == known[:n_old]
    assert more.schema_["x"].counts == encoder.schema_["x"].counts + (0,) * (len(known) - n_old)
    assert more.transform(pd.DataFrame({"x": known, "km": 1})).ids[:, 0].tolist() == list(
        range(3, 3 + len(known))
    )
    rows = pd.DataFrame({"x": values, "km": 1.5})
    assert np.array_equal(more.transform(rows).ids, encoder.transform(rows).ids)
    assert more.schema_["km"] == encoder.schema_["km"]


def test_times_grow_too():
    days = pd.to_datetime(["2024-01-02", "2024-01-01"])
    more = fit(days[:1]).grow({"x": days.as_unit("s")})
    assert more.categories_["x"].tolist() == list(days)


@pytest.mark.parametrize(
    "new",
    [
        ["c", "d", "c"],
        np.array(["d", "c"]),
        pd.Series(["d", None, "c"]),
        pd.Series(["d", "c"], dtype="category"),
        pd.Categorical(["c", "d"], ["d", "c", "e"], ordered=True),
        pl.Series(["d", "c"]),
        pl.Series(["d", "c"], dtype=pl.Categorical),
        pa.array(["c", "d"]),
        pa.chunked_array([["c"], ["d", "c"]]),
    ],
    ids=lambda new: type(new).__module__ + "." + type(new).__name__,
)  # fmt: skip
def test_ids_do_not_depend_on_where_values_come_from(new):
    assert fit(["b", "b", "a"]).grow({"x": new}).categories_["x"].tolist() == ["b", "a", "c", "d"]


def test_growing_twice_appends_twice():
    encoder = fit(["b", "b", "a"])
    assert encoder.grow({"x": ["z"]}).grow({"x": ["c"]}).categories_["x"].tolist() == ["b", "a", "z", "c"]


def test_rare_values_can_become_known():
    encoder = fit(["b", "b", "a", "b"], min_frequency=2)
    more = encoder.grow({"x": ["a"]})
    assert more.schema_["x"].counts == (0, 0, 1, 3, 0)
    assert more.get_params() == encoder.get_params()


@pytest.mark.parametrize("new", [["c", "d"], [["d"], ["a", "c"], [], None], pd.Series([["d", "c"]])])
def test_lists_grow_by_values_or_by_cells(new):
    encoder = fit([["b", "a"], ["b"]], CategoricalList())
    more = encoder.grow({"x": new})
    assert more.categories_["x"].tolist() == ["b", "a", "c", "d"]
    assert more.schema_["x"].counts == (0, 0, 0, 2, 1, 0, 0)


def test_lists_in_text_are_split():
    more = fit(["b|a", "b"], CategoricalList("|")).grow({"x": ["d| c", "a", ""]})
    assert more.categories_["x"].tolist() == ["b", "a", "c", "d"]
    rows = more.transform(pd.DataFrame({"x": ["c|d"], "km": 1}))
    assert rows.lists["x"].ids.tolist() == [5, 6]
    assert more.inverse_transform(rows)["x"].tolist() == ["c|d"]


def test_declared_orders_stay():
    sizes = pd.Categorical(["low", "high", "low"], ["low", "high"], ordered=True)
    encoder = fit(sizes)
    assert encoder.grow({"x": ["mid"]}).schema_["x"].ordered == encoder.schema_["x"].ordered == (3, 4)


def test_saved_and_loaded(tmp_path):
    more = fit([2, 2, 1]).grow({"x": [2.5, 7]})
    more.save(tmp_path / "encoder")
    loaded = TableEncoder.load(tmp_path / "encoder")
    assert loaded.schema_ == more.schema_
    assert loaded.categories_["x"].tolist() == [2, 1, 2.5, 7]


def test_sequences(tmp_path):
    events = pd.DataFrame({"who": [1, 1, 2], "when": [1, 2, 3], "shop": ["a", "b", "a"]})
    encoder = SequenceEncoder("who", "when").fit(events)
    more = encoder.grow({"shop": ["c"]})
    assert more.categories_["shop"].tolist() == ["a", "b", "c"]
    assert (more.schema_.gaps, more.schema_.span) == (encoder.schema_.gaps, encoder.schema_.span)
    assert more.transform(events.assign(shop="c")).rows.ids.ravel().tolist() == [5, 5, 5]
    more.save(tmp_path / "encoder")
    assert SequenceEncoder.load(tmp_path / "encoder").schema_ == more.schema_
    with pytest.raises(
        ValueError, match=r"categories must be of columns, got \['shop'\] where there are none"
    ):
        SequenceEncoder("who", "when", []).fit(events).grow({"shop": ["c"]})


def test_what_cannot_be_added():
    encoder = fit(["b", "a"])
    with pytest.raises(TypeError, match="column 'x': must hold text as in the fit, got numbers"):
        encoder.grow({"x": [1]})
    with pytest.raises(
        ValueError, match="column 'km': must have categories to grow by, got a column that is cont"
    ):
        encoder.grow({"km": [1]})
    with pytest.raises(
        ValueError, match=r"column 'y': must have categories to grow by, got none of \['x', 'km'\]"
    ):
        encoder.grow({"y": [1]})
    for one, got in (("cd", "'cd'"), (b"c", "b'c'"), (None, "None"), (5, "5")):  # text is no list of letters
        rule = "column 'x': must be grown by a list or a column of values, got "
        with pytest.raises(TypeError, match=rule + got):
            encoder.grow({"x": one})
    with pytest.raises(TypeError, match="categories must be a dict of values by column, got list"):
        encoder.grow(["c"])
    with pytest.raises(
        ValueError, match="column 'x': must fit one type of number with the values of the fit"
    ):
        fit([2**53 + 1]).grow({"x": [0.5]})
