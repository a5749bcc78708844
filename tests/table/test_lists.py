"""Several categories in one cell: ids and offsets; empty, missing and a gap inside are three things."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from tabembed import CategoricalList, TableEncoder
from tabembed.batch import Ragged
from tabembed.schema import MISSING, UNKNOWN, ListColumn

CELLS = [["b", "a"], [], None, ["a", None, "a"], ["c"]]

TABLES = {
    "python lists": lambda: {"tags": CELLS},
    "pandas object": lambda: pd.DataFrame({"tags": pd.Series(CELLS, dtype=object)}),
    "pandas arrow": lambda: pd.DataFrame(
        {"tags": pd.Series(CELLS, dtype=pd.ArrowDtype(pa.list_(pa.string())))}
    ),
    "polars": lambda: pl.DataFrame({"tags": pl.Series(CELLS, dtype=pl.List(pl.String))}),
    "arrow list": lambda: pa.table({"tags": pa.array(CELLS, pa.list_(pa.string()))}),
    "arrow large list": lambda: pa.table({"tags": pa.array(CELLS, pa.large_list(pa.large_string()))}),
    "arrow list view": lambda: pa.table({"tags": pa.array(CELLS, pa.list_view(pa.string()))}),
    "arrow sliced": lambda: pa.table({"tags": pa.array([["z"], *CELLS, ["z"]])}).slice(1, len(CELLS)),
    "arrow chunked": lambda: pa.table(
        {"tags": pa.chunked_array([CELLS[:2], CELLS[2:]], pa.list_(pa.string()))}
    ),
}


def lists(encoder, table, name="tags"):
    ragged = encoder.transform(table).lists[name]
    return ragged.ids.tolist(), ragged.offsets.tolist(), ragged.missing.tolist()


@pytest.mark.parametrize("fitted", TABLES)
@pytest.mark.parametrize("given", TABLES)
def test_empty_missing_and_a_gap_are_three_things(fitted, given):
    encoder = TableEncoder().fit(TABLES[fitted]())
    assert encoder.kinds_ == {"tags": "list"}
    assert lists(encoder, TABLES[given]()) == (
        [4, 3, 3, MISSING, 3, 5],
        [0, 2, 2, 2, 5, 6],
        [False, False, True, False, False],
    )


def test_types_of_the_batch():
    table = {"tags": CELLS, "city": ["a"] * 5}
    batch = TableEncoder().fit(table).transform(table)
    ragged = batch.lists["tags"]
    assert isinstance(ragged, Ragged)
    assert (ragged.ids.dtype, ragged.offsets.dtype, ragged.missing.dtype) == (
        torch.int64,
        torch.int64,
        torch.bool,
    )
    assert len(batch) == 5
    assert batch.ids.shape == (5, 1)
    assert list(batch.lists) == ["tags"]


def test_the_schema_counts_values():
    column = TableEncoder().fit({"tags": CELLS}).schema_["tags"]
    assert isinstance(column, ListColumn)
    assert column.counts == (0, 2, 0, 3, 1, 1)  # a missing cell and a gap inside a cell are missing once each
    assert column.n_known == 3


def test_values_never_seen_and_rare_ones_are_unknown():
    cells = [["a", "b"], ["a"], ["c", "b"]]
    encoder = TableEncoder(min_frequency=2).fit({"tags": cells})
    assert encoder.categories_["tags"].tolist() == ["a", "b"]
    assert lists(encoder, {"tags": [["c", "zz", "b"], ["a"]]})[0] == [UNKNOWN, UNKNOWN, 4, 3]
    spec = CategoricalList(min_frequency=1, max_categories=1)
    assert TableEncoder({"tags": spec}, min_frequency=2).fit({"tags": cells}).categories_[
        "tags"
    ].tolist() == ["a"]


def test_order_and_repetition_inside_a_cell_stay():
    encoder = TableEncoder().fit({"tags": [["a", "b", "b"]]})
    assert lists(encoder, {"tags": [["a", "b", "a", "a"]]})[0] == [4, 3, 4, 4]


def test_lists_of_numbers():
    encoder = TableEncoder(columns={"n": CategoricalList()}).fit({"n": [[2, 1], [2], [3, None]]})
    assert lists(encoder, {"n": [[1, 2, 3, 9], [None]]}, "n") == (
        [4, 3, 5, UNKNOWN, MISSING],
        [0, 4, 5],
        [False, False],
    )
    assert lists(encoder, {"n": [[1.0, np.nan, 2.5]]}, "n")[0] == [4, MISSING, UNKNOWN]


def test_text_with_a_separator():
    frame = pd.DataFrame({"genres": ["drama|war", None, "drama", "comedy|war|drama"]})
    encoder = TableEncoder(columns={"genres": CategoricalList(separator="|")}).fit(frame)
    assert encoder.kinds_ == {"genres": "list"}
    assert encoder.categories_["genres"].tolist() == ["drama", "war", "comedy"]
    assert lists(encoder, frame, "genres") == (
        [3, 4, 3, 5, 4, 3],
        [0, 2, 2, 3, 6],
        [False, True, False, False],
    )


def test_a_separator_is_text_not_a_pattern():
    encoder = TableEncoder(columns={"t": CategoricalList(separator=".")}).fit({"t": ["a.b", "abc"]})
    assert encoder.categories_["t"].tolist() == ["a", "abc", "b"]


def test_without_a_separator_text_is_an_error():
    with pytest.raises(TypeError, match=r"column 't': .*separator"):
        TableEncoder(columns={"t": CategoricalList()}).fit({"t": ["a|b"]})


@pytest.mark.parametrize("given", [[[1, 2]], [["a"], [True]]], ids=["numbers", "mixed"])
def test_values_of_another_family_are_an_error(given):
    encoder = TableEncoder().fit({"tags": [["a", "b"]]})
    with pytest.raises(TypeError, match=r"column 'tags': "):
        encoder.transform({"tags": given})


@pytest.mark.parametrize("given", [["a"], [1], [1.5]], ids=["text", "ints", "floats"])
def test_cells_that_are_no_lists_are_an_error(given):
    encoder = TableEncoder().fit({"tags": [["a", "b"]]})
    with pytest.raises(TypeError, match=r"column 'tags': "):
        encoder.transform({"tags": given})


@pytest.mark.parametrize("cells", [[None, None], [[], []], [[None], []]], ids=str)
def test_lists_without_a_value_at_fit(cells):
    encoder = TableEncoder(columns={"tags": CategoricalList()}).fit({"tags": cells})
    assert encoder.schema_["tags"].n_known == 0
    assert lists(encoder, {"tags": [["a", None], [], None]}) == (
        [UNKNOWN, MISSING],
        [0, 2, 2, 2],
        [False, False, True],
    )


def test_zero_rows_and_a_column_of_gaps():
    encoder = TableEncoder().fit({"tags": CELLS})
    assert lists(encoder, pa.table({"tags": pa.array([], pa.list_(pa.string()))})) == ([], [0], [])
    assert lists(encoder, {"tags": pa.nulls(2)}) == ([], [0, 0, 0], [True, True])


def test_rows_of_the_batch_take_their_lists_along():
    batch = TableEncoder().fit({"tags": CELLS}).transform({"tags": CELLS})
    part = batch[torch.tensor([3, 1, 0])].lists["tags"]
    assert part.ids.tolist() == [3, MISSING, 3, 4, 3]
    assert part.offsets.tolist() == [0, 3, 3, 5]


def test_lists_come_back():
    cells = [["b", "a"], None, ["a", None], []]
    encoder = TableEncoder().fit({"t": cells[:2]})
    back = encoder.inverse_transform(encoder.transform({"t": cells}))["t"]
    plain = [
        [None if pd.isna(v) else v for v in cell] if pd.api.types.is_list_like(cell) else None
        for cell in back
    ]
    assert plain == cells


def test_text_with_a_separator_comes_back_as_text():
    encoder = TableEncoder(columns={"t": CategoricalList("|")}).fit({"t": ["b|a", None]})
    back = encoder.inverse_transform(encoder.transform({"t": ["b| a", None, "a|zz", "", "|"]}))["t"]
    assert [None if pd.isna(cell) else cell for cell in back] == ["b|a", None, "a|", "", "|"]


def test_an_unknown_value_comes_back_as_a_gap():
    encoder = TableEncoder().fit({"t": [["a"]]})
    back = encoder.inverse_transform(encoder.transform({"t": [["zz", "a"]]}))["t"][0]
    assert [None if pd.isna(v) else v for v in back] == [None, "a"]


def test_blanks_gaps_and_nothing_in_text():
    encoder = TableEncoder(columns={"t": CategoricalList(separator=",")}).fit({"t": ["b, a", "a"]})
    assert encoder.categories_["t"].tolist() == ["a", "b"]
    cells = {"t": [" a ,b", "a,,b", "", None]}
    assert lists(encoder, cells, "t") == ([3, 4, 3, MISSING, 4], [0, 2, 5, 5, 5], [False, False, False, True])


def test_a_share_counts_occurrences_per_row():
    cells = [["a", "a", "b"], ["a", "c"], [], None]  # a: 3 in 4 rows; b and c: 1 in 4 rows
    assert TableEncoder(min_frequency=0.5).fit({"t": cells}).categories_["t"].tolist() == ["a"]
    assert TableEncoder(min_frequency=0.25).fit({"t": cells}).categories_["t"].tolist() == ["a", "b", "c"]


def test_whole_numbers_beside_a_gap_come_back_to_the_last_digit():
    cells = [[2**53 + 1, None], [2**53], None, []]
    encoder = TableEncoder().fit({"x": pa.array(cells)})
    back = encoder.inverse_transform(encoder.transform({"x": pa.array(cells)}))["x"]
    assert [None if cell is None else list(cell) for cell in back] == cells
    whole = encoder.inverse_transform(encoder.transform({"x": pa.array(cells[1:])}))["x"]
    assert whole[0].dtype == np.int64
