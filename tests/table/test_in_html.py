from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline

from tabembed import SequenceEncoder, TableEmbedder, TableEncoder
from tabembed.table.in_html import html_table

HOSTILE = '<script>alert("1 & 2")</script>'


class Cells(HTMLParser):
    """Rows of cells of the last table, and every tag that is met."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "table":
            self.rows = []
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, text):
        if self.inside:
            self.rows[-1].append(text)


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            HOSTILE: ["a", "b", "b", None, "b", "c", "b", "b"],
            "km": [1.0, np.nan] * 4,
            "day": pd.date_range("2024-01-01", periods=8),
        }
    )


def test_a_fitted_encoder_shows_its_columns(table):
    shown = TableEncoder(min_frequency=2).fit(table)._repr_html_()
    assert Cells(shown).rows == [
        ["column", "kind", "known values", "missing", "unknown"],
        [HOSTILE, "categorical", "1", "12.5%", "25.0%"],
        ["km", "continuous", "-", "50.0%", "-"],
        ["day", "datetime", "-", "0.0%", "-"],
    ]
    assert HOSTILE not in shown


def test_the_picture_of_scikit_learn_stays(table):
    encoder = TableEncoder(min_frequency=2)
    before = encoder._repr_html_()
    assert "min_frequency" in before
    assert "known values" not in before
    after = encoder.fit(table)._repr_mimebundle_()["text/html"]
    assert "min_frequency" in after
    assert "known values" in after
    assert make_pipeline(encoder)._repr_html_()


def test_text_is_shown_where_scikit_learn_is_set_to(table):
    encoder = TableEncoder().fit(table)
    with config_context(display="text"):
        assert not hasattr(encoder, "_repr_html_")
        assert list(encoder._repr_mimebundle_()) == ["text/plain"]


def test_an_embedder_shows_widths(table):
    embedder = TableEmbedder(embed_dims=3, max_iter=1, random_state=0)
    assert "known values" not in embedder._repr_html_()
    rows = Cells(embedder.fit(table, np.arange(8.0))._repr_html_()).rows
    assert rows[0][-1] == "width"
    dims = embedder.network_.embedding.embedding_dims()
    assert {row[0]: int(row[-1]) for row in rows[1:]} == dims
    assert dims[HOSTILE] == 3


def test_sequences_show_what_is_known_when():
    events = pd.DataFrame(
        {"who": [1, 1, 2], "when": [1, 2, 3], "shop": ["a", "b", "a"], "end": [1.0, 2.0, 3.0]}
    )
    encoder = SequenceEncoder("who", "when", ["shop", "end"], observed=["end"])
    assert "becomes known" not in encoder._repr_html_()
    rows = Cells(encoder.fit(events)._repr_html_()).rows
    assert [row[2] for row in rows] == ["becomes known", "with the row", "after the row"]
    assert "becomes known" not in SequenceEncoder("who", "when", []).fit(events)._repr_html_()


def test_many_columns_are_counted():
    rows = Cells(html_table(pd.DataFrame({"column": [f"c{i}" for i in range(1065)], "kind": "x"}))).rows
    assert len(rows) == 62
    assert rows[-1] == ["and 1,005 more columns"]


def test_large_numbers_are_grouped():
    assert Cells(html_table(pd.DataFrame({"known values": [1_234_567]}))).rows[1] == ["1,234,567"]
