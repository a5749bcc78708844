from __future__ import annotations

import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import tabembed
from tabembed import TableEmbedder
from tabembed.plot import EmbeddingDisplay, TrainingDisplay


@pytest.fixture(scope="module")
def embedder():
    draw = np.random.default_rng(0)
    names = np.array([f"town {i}" for i in range(30)])
    town = names[np.minimum(draw.geometric(0.12, 900), 30) - 1].astype(object)
    town[::50] = None
    X = pd.DataFrame({"town": town, "flag": draw.random(900) < 0.5, "km": draw.normal(size=900)})
    y = np.array([len(str(t)) + hash_of(t) for t in town]) + X["km"]
    return TableEmbedder(max_iter=2, hidden_layer_sizes=(8,), random_state=0).fit(X, y)


def hash_of(town):
    return sum(map(ord, str(town))) % 7


def test_every_row_but_padding_is_a_point(embedder):
    display = EmbeddingDisplay.from_embedder(embedder, "town")
    table = embedder.embedding_table("town")
    expected = table[table["kind"] != "padding"].reset_index(drop=True)
    assert display.coordinates.columns.tolist() == ["category", "kind", "count", "x", "y"]
    for name in ("category", "kind", "count"):
        assert display.coordinates[name].equals(expected[name])
    assert np.isfinite(display.coordinates[["x", "y"]].to_numpy()).all()
    # No flag was missing in the fit: its row has no vector of its own.
    assert EmbeddingDisplay.from_embedder(embedder, "flag").coordinates["kind"].tolist()[0] == "unknown"


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_a_picture_shows_points_sizes_and_labels(embedder, method):
    display = EmbeddingDisplay.from_embedder(embedder, "town", method=method)
    assert display.plot(n_labels=30) is display
    points, missing, unknown = display.ax_.collections
    known = display.coordinates[display.coordinates["kind"] == "known"]
    np.testing.assert_allclose(points.get_offsets(), known[["x", "y"]])
    assert np.array_equal(
        np.argsort(-points.get_sizes(), kind="stable"), np.arange(len(known))
    )  # ids by count
    for kind, marker in {"unknown": unknown, "missing": missing}.items():
        row = display.coordinates[display.coordinates["kind"] == kind]
        np.testing.assert_allclose(marker.get_offsets(), row[["x", "y"]])
    shown = [text.get_text() for text in display.labels_]
    assert {"missing", "unknown", known["category"].iloc[0]} <= set(shown)
    assert (display.ax_.get_title(), display.ax_.get_xlabel()) == ("town", display.axis_names[0])
    display.figure_.canvas.draw()
    boxes = [Text.get_window_extent(text) for text in display.labels_]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert display._repr_png_()[1:4] == b"PNG"


def test_axes_that_are_given_are_used(embedder):
    left, right = Figure().subplots(1, 2)
    display = EmbeddingDisplay.from_embedder(embedder, "town").plot(left, n_labels=2)
    assert display.ax_ is left
    assert display.figure_ is left.figure
    assert len(display.labels_) <= 4
    assert TrainingDisplay.from_embedder(embedder).plot(right).ax_ is right
    with pytest.raises(ValueError, match="n_labels must be at least 0, got -1"):
        display.plot(n_labels=-1)
    with pytest.raises(ValueError, match="column 'km': has no embedding table"):
        EmbeddingDisplay.from_embedder(embedder, "km")


def test_the_kept_pass_is_marked(embedder):
    display = TrainingDisplay.from_embedder(embedder).plot()
    losses = embedder.validation_losses_
    assert display.kept_pass == losses.index(min(losses))
    line, kept = display.ax_.lines
    np.testing.assert_allclose(line.get_xydata(), list(enumerate(losses)))
    assert kept.get_xydata().tolist() == [[display.kept_pass, min(losses)]]
    assert "kept: pass" in display.ax_.get_legend().get_texts()[0].get_text()
    assert display._repr_png_()[1:4] == b"PNG"


def test_without_losses_or_a_plot_there_is_nothing_to_show():
    with pytest.raises(ValueError, match="losses must not be empty: a fit has held-out rows with"):
        TrainingDisplay([])
    assert TrainingDisplay([1.0])._repr_png_() is None


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        ImportError, match=r"TrainingDisplay.plot needs matplotlib: pip install 'tabembed\[plot\]'"
    ):
        TrainingDisplay([1.0, 0.5]).plot()


def test_a_picture_leaves_nothing_behind(monkeypatch):
    before = dict(matplotlib.rcParams)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # so that importing it is an error
    assert TrainingDisplay([1.0, 0.5]).plot()._repr_png_()
    assert dict(matplotlib.rcParams) == before


def test_the_room_is_at_the_front_door():
    assert tabembed.plot.EmbeddingDisplay is EmbeddingDisplay
    assert "plot" in dir(tabembed)
