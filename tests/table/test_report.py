"""The report of a fitted encoder: every kind of change is told, nothing is raised, nothing changes."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from tabembed import CategoricalList, SequenceEncoder, TableEncoder
from tabembed.table import DriftReport, describe

COLUMNS = [
    "column", "kind", "type", "type_fit", "missing", "missing_fit", "unseen", "unseen_fit", "out_of_range",
    "distance", "by_chance", "shift", "note",
]  # fmt: skip


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "city": rng.choice(["Oslo", "Rome", None], n),
            "km": rng.normal(size=n),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="h"),
            "tags": [["a", "b"][: k % 3] for k in range(n)],
        }
    )


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder().fit(table())


def row(report: DriftReport, name: str) -> pd.Series:
    return report.frame.set_index("column").loc[name]


def test_the_table_of_the_fit_has_not_changed(encoder):
    report = encoder.report(table())
    assert list(report.frame) == COLUMNS
    assert (report.n_rows, report.n_rows_fit) == (200, 200)
    assert report.frame["kind"].tolist() == ["categorical", "continuous", "datetime", "list"]
    assert (report.frame["type"] == report.frame["type_fit"]).all()
    assert (report.frame["note"] == "").all()
    assert (report.frame["missing"] == report.frame["missing_fit"]).all()
    assert row(report, "city")["distance"] == 0
    assert row(report, "km")[["distance", "shift", "out_of_range"]].tolist() == [0, 0, 0]
    assert row(report, "when")["out_of_range"] == 0
    assert np.isnan(row(report, "when")["distance"])
    assert row(report, "tags")["distance"] == 0


def test_the_table_given_stays_as_it_is(encoder):
    now = table(50, seed=1)
    before = now.copy(deep=True)
    encoder.report(now)
    pd.testing.assert_frame_equal(now, before)


def test_times_outside_the_range(encoder):
    now = pd.Series(pd.to_datetime(["2023-01-01", "2024-01-05", "2030-01-01", None]))
    found = row(encoder.report(table(4).assign(when=now)), "when")
    assert (found["out_of_range"], found["missing"]) == (0.5, 0.25)


def test_what_is_absent_and_what_is_new(encoder):
    report = encoder.report(table().drop(columns="km").assign(price=1.0))
    assert row(report, "km")["note"] == "absent: transform needs it"
    assert row(report, "price")["note"] == "not in the fit: passed over"
    assert row(report, "km")["type"] == ""
    assert np.isnan(row(report, "km")["missing"])
    assert report.frame["column"].tolist() == ["city", "km", "when", "tags", "price"]


def test_dropped_columns_are_no_news():
    encoder = TableEncoder({"city": "drop"}).fit(table())
    assert encoder.report(table()).frame["column"].tolist() == ["km", "when", "tags"]


@pytest.mark.parametrize(
    ("name", "values", "type", "type_fit"),
    [
        ("city", [1, 2, None, 4], "numbers", "text"),
        ("km", ["1.5", "a", None, "b"], "text", "numbers"),
        ("when", ["2024-01-01", "x", None, "y"], "text", "times without a zone"),
        ("when", pd.to_datetime(["2024-01-01"] * 4, utc=True), "times with a zone", "times without a zone"),
        ("tags", ["a", "b", None, "a"], "text", "lists of text"),
        ("tags", [[1], [2], None, []], "lists of numbers", "lists of text"),
        ("city", [["a"], ["b"], None, []], "lists of text", "text"),
    ],
)
def test_a_changed_type_is_told_as_transform_would(encoder, name, values, type, type_fit):
    now = table(4).assign(**{name: values})
    found = row(encoder.report(now), name)
    assert (found["type"], found["type_fit"]) == (type, type_fit)
    with pytest.raises((TypeError, ValueError), match=f"column '{name}': ") as raised:
        encoder.transform(now)
    assert found["note"] == f"refused: {str(raised.value).removeprefix(f'column {name!r}: ')}"
    assert np.isnan(found["distance"])
    assert found["missing"] == pd.isna(now[name]).mean()


def test_a_mix_of_types_is_told(encoder):
    found = row(encoder.report(table(2).assign(city=["Oslo", 3])), "city")
    assert found["type"] == "a mix"
    assert found["note"].startswith("refused: must hold values of one type")
    assert np.isnan(found["missing"])


@pytest.mark.parametrize("values", [[None] * 3, [np.nan] * 3])
@pytest.mark.parametrize("name", ["city", "km", "when", "tags"])
def test_a_column_without_values(encoder, name, values):
    found = row(encoder.report(table(3).assign(**{name: values})), name)
    assert (found["type"], found["missing"], found["note"]) == ("nothing", 1.0, "")


def test_no_value_in_the_fit_and_no_rows():
    with pytest.warns(UserWarning, match="nothing is known"):
        encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0], "b": [None, None], "c": [np.nan] * 2}))
    report = encoder.report(pd.DataFrame({"a": [1.0], "b": ["x"], "c": [3.0]}))
    assert report.frame["type_fit"].tolist() == ["numbers", "nothing", "nothing"]
    assert report.frame["note"].tolist() == ["", "", ""]
    nothing = encoder.report(pd.DataFrame({"a": [1.0], "b": ["x"], "c": [3.0]})[:0])
    assert nothing.n_rows == 0
    assert nothing.frame["distance"].isna().all()


def test_whole_numbers_and_separated_text_are_the_same_type():
    then = pd.DataFrame({"n": [1.5, 2.0], "tags": ["a|b", "a"], "code": pd.Categorical([1, 2])})
    encoder = TableEncoder({"tags": CategoricalList("|")}).fit(then)
    report = encoder.report(pa.table({"n": [1, 2], "tags": [["a"], ["b"]], "code": [1.0, 2.0]}))
    assert (report.frame["type"] == report.frame["type_fit"]).all()
    assert (report.frame["note"] == "").all()


@pytest.mark.parametrize("library", [pl.from_pandas, lambda frame: pa.Table.from_pandas(frame)])
def test_every_library_gives_the_same_report(encoder, library):
    now = table(90, seed=2)
    expected = encoder.report(now).frame
    pd.testing.assert_frame_equal(encoder.report(library(now)).frame, expected)


def test_a_table_without_names_goes_by_position():
    encoder = TableEncoder().fit(np.arange(6.0).reshape(3, 2))
    report = encoder.report(np.full((1, 1), 9.0))
    assert report.frame["note"].tolist() == ["", "absent: transform needs it"]
    assert report.frame["out_of_range"][0] == 1.0
    more = encoder.report(np.zeros((1, 3)))
    assert more.frame["column"].tolist() == ["x0", "x1", "x2"]
    assert more.frame["note"][2] == "not in the fit: passed over"


@pytest.mark.parametrize("opened", [str, lambda path: path, lambda path: dataset.dataset(path)])
def test_parquet_goes_by_parts(encoder, tmp_path, opened, monkeypatch):
    now = pa.Table.from_pandas(table(1000, seed=3).assign(more=1), preserve_index=False)
    parquet.write_table(now, tmp_path / "now.parquet", row_group_size=70)
    expected = encoder.report(now)
    report = encoder.report(opened(tmp_path / "now.parquet"))
    assert report.n_rows == 1000
    pd.testing.assert_frame_equal(report.frame, expected.frame)


def test_parquet_of_a_fit_without_names_goes_by_place(tmp_path):
    now = pa.table({"a": [1.0, 2.0, 9.0], "b": [4.0, 5.0, None]})
    parquet.write_table(now, tmp_path / "now.parquet")
    encoder = TableEncoder().fit(np.array([[1.0, 2.0], [3.0, 4.0]]))
    report = encoder.report(tmp_path / "now.parquet")
    assert report.n_rows == 3
    pd.testing.assert_frame_equal(report.frame, encoder.report(now).frame)


def test_parquet_without_a_column_of_the_fit(encoder, tmp_path):
    parquet.write_table(pa.table({"more": [1, 2, 3]}), tmp_path / "now.parquet")
    report = encoder.report(tmp_path / "now.parquet")
    assert report.n_rows == 3
    assert row(report, "city")["note"] == "absent: transform needs it"


def test_parquet_without_rows(encoder, tmp_path):
    parquet.write_table(pa.Table.from_pandas(table(3))[:0], tmp_path / "none.parquet")
    report = encoder.report(tmp_path / "none.parquet")
    assert report.n_rows == 0
    assert row(report, "city")["type"] == "nothing"


def test_large_tables_go_by_threads(encoder):
    now = table(60_000, seed=4)
    large, parts = encoder.report(now), [encoder.report(now[i::2]) for i in range(2)]
    assert row(large, "city")["missing"] == pytest.approx(np.mean([row(p, "city")["missing"] for p in parts]))


def test_it_is_shown_as_text_and_html(encoder):
    report = encoder.report(table(10).assign(**{"<b>": datetime.date(2024, 1, 1)}))
    text, html = str(report), report._repr_html_()
    assert text.startswith("10 rows beside the 200 of the fit\n")
    assert "out of range" in text
    assert html.startswith("<p>10 rows beside")
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "note" not in str(encoder.report(table(10)))


def test_all_columns_are_shown_in_html():
    wide = pd.DataFrame(np.zeros((3, 70)))
    assert TableEncoder().fit(wide).report(wide)._repr_html_().count("<tr>") == 71


def test_an_encoder_must_be_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        TableEncoder().report(table())


def test_sequences_report_their_rows():
    events = pd.DataFrame({"who": [1, 1, 2], "when": [1, 2, 3], "shop": ["a", "b", "a"]})
    encoder = SequenceEncoder("who", "when").fit(events)
    report = encoder.report(events.assign(shop=["a", "z", "z"], more=0))
    assert report.frame["column"].tolist() == ["shop", "more"]
    assert report.frame["unseen"][0] == pytest.approx(2 / 3)
    rows = events.assign(shop=[5, 1, 1]).to_numpy(object).astype(float)
    numbers = SequenceEncoder("x0", "x1").fit(rows)
    assert numbers.report(rows).frame[["column", "distance"]].to_numpy().tolist() == [["x2", 0.0]]
    bare = SequenceEncoder("who", "when", []).fit(events[["who", "when"]])
    with pytest.raises(ValueError, match="report must be of columns, got SequenceEncoder of entity"):
        bare.report(events)


def test_describe_is_one_row_a_column(encoder):
    assert describe(encoder)["n_known"].isna().tolist() == [False, True, True, False]
