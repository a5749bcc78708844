from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest

from tabembed import (
    Categorical,
    CategoricalList,
    SequenceEmbedder,
    SequenceEncoder,
    TableEmbedder,
)

pytestmark = pytest.mark.filterwarnings("ignore:TableEmbedder.transform got the table")


@pytest.fixture(scope="module")
def events():
    """Rows in time with a known, an observed and a list column."""
    draw = np.random.default_rng(0)
    X = pd.DataFrame({"who": draw.integers(0, 9, 60), "when": np.arange(60)})
    X["shop"] = draw.choice(["Oslo", "Rome", None], 60)
    X["outcome"] = draw.choice(["good", "bad", "ugly"], 60)
    X["tags"] = draw.choice(["a|b", "b|c", "c"], 60)
    return X


@pytest.fixture(scope="module")
def of_sequences(events):
    columns = {"shop": Categorical(), "outcome": Categorical(), "tags": CategoricalList("|")}
    encoder = SequenceEncoder("who", "when", columns, observed=["outcome"])
    settings = {
        "d_model": 16,
        "num_layers": 1,
        "max_iter": 1,
        "embed_dims": {"shop": 2, "outcome": 3, "tags": 4},
    }
    return SequenceEmbedder(encoder, **settings, random_state=0).fit(events, events["tags"] == "c")


def test_the_table_of_a_column_of_sequences(events, of_sequences):
    for name, width in {"shop": 2, "outcome": 3, "tags": 4}.items():
        table = of_sequences.embedding_table(name)
        assert table.shape[1] == 3 + width
        known = table[table["kind"] == "known"]
        cells = events[name].str.split("|").explode()
        assert dict(zip(known["category"], known["count"], strict=True)) == cells.value_counts().to_dict()
    half = of_sequences.network_.embedding.after.weight("outcome")
    np.testing.assert_array_equal(of_sequences.embedding_table("outcome").iloc[:, 3:], half.numpy())
    with pytest.raises(ValueError, match="column 'who': has no embedding table, only"):
        of_sequences.embedding_table("who")


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_nearest_of_a_category(fitted, metric):
    found = fitted.nearest("city", "Oslo", metric=metric)
    assert sorted(found["category"].dropna()) == ["Lima", "Rome"]
    assert sorted(found["kind"]) == ["known", "known", "missing", "unknown"]
    table = fitted.embedding_table("city")
    a, b = (table.loc[table["category"] == name, ["e0", "e1"]].to_numpy()[0] for name in ("Oslo", "Rome"))
    expected = (
        np.linalg.norm(a - b) if metric == "euclidean" else a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    )
    assert found.loc[found["category"] == "Rome"].iloc[0, 1] == pytest.approx(expected, abs=1e-6)
    pd.testing.assert_frame_equal(fitted.nearest("city", "Oslo", 2, metric=metric), found[:2])


def test_nearest_of_missing_and_unknown(fitted, of_sequences):
    for value in (None, np.nan, pd.NA):
        assert "missing" not in set(fitted.nearest("city", value)["kind"])
    found = fitted.nearest("city", "Atlantis", on_unknown="row")
    assert sorted(found["kind"]) == ["known", "known", "known", "missing"]
    assert len(of_sequences.nearest("tags", "a", k=3)) == 3
    assert set(of_sequences.nearest("outcome", "bad")["category"].dropna()) == {"good", "ugly"}


def test_the_missing_row_of_a_column_without_gaps_is_near_nothing(fitted):
    assert fitted.embedding_table("open")["count"][1] == 0
    assert sorted(fitted.nearest("open", True)["kind"]) == ["known", "unknown"]


def test_nearest_of_what_is_not_there(fitted):
    with pytest.raises(
        ValueError, match="column 'city': value must be known from the fit, got 'Atlantis'; on_"
    ):
        fitted.nearest("city", "Atlantis")
    with pytest.raises(ValueError, match="column 'km': has no embedding table, only"):
        fitted.nearest("km", 3.0)
    with pytest.raises(TypeError, match="column 'city': must hold text as in the fit, got numbers"):
        fitted.nearest("city", 3)
    with pytest.raises(ValueError, match="on_unknown must be one of error, row, got 'skip'"):
        fitted.nearest("city", "Oslo", on_unknown="skip")


@pytest.mark.parametrize("rest", ["keep", "unknown"])
def test_a_table_goes_back_where_it_came_from(table, fitted, rest):
    embedder = copy.deepcopy(fitted)
    report = embedder.load_pretrained(fitted.embedding_table("city"), "city", rest=rest)
    assert (report.n_found, report.n_known, report.row_share, report.n_unused) == (3, 3, 1.0, 0)
    pd.testing.assert_frame_equal(embedder.embedding_table("city"), fitted.embedding_table("city"))
    assert np.array_equal(embedder.transform(table[0]), fitted.transform(table[0]))


def test_given_vectors_are_served_saved_and_loaded(table, fitted, of_sequences, tmp_path):
    embedder = copy.deepcopy(fitted)
    embedder.load_pretrained({"Oslo": [1.0, 2.0], "Lima": [3.0, 4.0]}, "city")
    served = embedder.transform(table[0])[:, :2]
    expected = {"Oslo": [1.0, 2.0], "Lima": [3.0, 4.0]}
    assert served.tolist() == [expected.get(city, [2.0, 3.0]) for city in table[0]["city"]]
    embedder.save(tmp_path / "model")
    assert np.array_equal(TableEmbedder.load(tmp_path / "model").transform(table[0])[:, :2], served)
    other = copy.deepcopy(of_sequences)
    assert other.load_pretrained({"bad": [1, 2, 3]}, "outcome").n_found == 1
    assert other.embedding_table("outcome").query("category == 'bad'")["e2"].tolist() == [3]


def test_a_grown_embedder_gives_what_it_gave(table, fitted, tmp_path):
    X = table[0].assign(city=["Paris", "Oslo", None] * 80)
    before, weight = fitted.transform(X), fitted.embedding_table("city")
    more = fitted.grow({"city": X["city"]})
    assert np.array_equal(more.transform(X), before)
    assert more.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()
    pd.testing.assert_frame_equal(fitted.embedding_table("city"), weight)
    pd.testing.assert_frame_equal(more.embedding_table("city")[:6], weight)
    assert more.embedding_table("city").iloc[6, :3].tolist() == ["Paris", 0, "known"]
    assert more.load_pretrained({"Paris": [7.0, 8.0]}, "city", rest="keep").n_found == 1
    served = more.transform(X)
    assert served[0, :2].tolist() == [7, 8]
    assert np.array_equal(served[1::3], before[1::3])
    more.save(tmp_path / "model")
    for other in (TableEmbedder.load(tmp_path / "model"), copy.deepcopy(more), more.grow({"open": [True]})):
        assert np.array_equal(other.transform(X), served)
    with pytest.raises(ValueError, match="column 'km': must have categories to grow by"):
        fitted.grow({"km": [1.0]})


def test_widths_stay_when_many_categories_are_added(table, fitted, tmp_path):
    more = fitted.grow({"city": [f"city {i}" for i in range(40)]})
    more.save(tmp_path / "model")
    assert TableEmbedder.load(tmp_path / "model").embedding_table("city").shape == (46, 3 + 2)


def test_a_grown_embedder_of_sequences(events, of_sequences, tmp_path):
    X = events.assign(shop="Lima", outcome="new", tags="z|a")
    before = of_sequences.transform(X)
    more = of_sequences.grow({"shop": ["Lima"], "outcome": ["new"], "tags": X["tags"]})
    assert np.array_equal(more.transform(X), before)
    more.load_pretrained({"new": [9.0, 0.0, 1.0]}, "outcome", rest="keep")
    changed = more.transform(X)
    assert not np.array_equal(changed, before)
    more.save(tmp_path / "model")
    assert np.array_equal(SequenceEmbedder.load(tmp_path / "model").transform(X), changed)


def test_widths_of_both_halves_are_shown(of_sequences):
    shown = of_sequences._repr_html_()
    for name, width in of_sequences.network_.embedding.embedding_dims().items():
        assert f"<td>{name}</td>" in shown
        assert of_sequences.embedding_table(name).shape[1] == 3 + width
    assert "<td>after the row</td>" in shown
