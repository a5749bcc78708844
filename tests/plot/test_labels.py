from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from tabembed.plot.labels import add_labels, free_centres, shortened


def overlaps(boxes):
    """Pairs of boxes (left, bottom, right, top) that share a point, by a loop."""
    return [
        (i, j)
        for i, a in enumerate(boxes)
        for j, b in enumerate(boxes[:i])
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]


@pytest.mark.parametrize("spread", [5, 60, 400])
def test_boxes_are_free_of_each_other_and_of_their_points(spread):
    draw = np.random.default_rng(0)
    anchors = draw.normal(250, spread, (40, 2)).clip(0, 500)
    sizes, radii = draw.uniform(8, 60, (40, 2)), draw.uniform(1, 9, 40)
    centres = free_centres(anchors, radii, sizes, points=anchors, bounds=(0, 0, 500, 500))
    boxes = [[*(c - s / 2), *(c + s / 2)] for c, s in zip(centres, sizes, strict=True) if c is not None]
    assert len(boxes) > 8
    assert overlaps(boxes) == []
    assert np.min(boxes) >= 0
    assert np.max(boxes) <= 500
    for centre, anchor, size, radius in zip(centres, anchors, sizes, radii, strict=True):
        if centre is not None:
            assert np.hypot(*np.maximum(np.abs(centre - anchor) - size / 2, 0)) >= radius


def test_a_box_stands_where_it_covers_the_fewest_points():
    around = [(20, 0), (0, 12), (0, -12), (12, 12), (12, -12), (-12, 12), (-12, 0), (20, 8)]
    points = np.array([(0, 0), *around], dtype=float) + 50
    (place,) = free_centres(
        points[:1], np.ones(1), np.array([[20.0, 8.0]]), points=points, bounds=(0, 0, 99, 99)
    )
    covered = [(x, y) for x, y in points if abs(x - place[0]) < 10 and abs(y - place[1]) < 4]
    assert covered == []
    assert np.hypot(*(place - points[0])) < 16  # in the innermost ring


def test_a_box_without_a_place_gets_none():
    places = free_centres(
        np.zeros((2, 2)),
        np.ones(2),
        np.array([[9.0, 9.0], [50.0, 5.0]]),
        points=np.zeros((1, 2)),
        bounds=(-20,) * 2 + (20,) * 2,
    )
    assert places[0] is not None
    assert places[1] is None


@pytest.mark.parametrize("dpi", [72, 150])
def test_labels_of_a_rendered_figure_do_not_overlap(dpi):
    draw = np.random.default_rng(1)
    points, names = (
        draw.normal(size=(60, 2)) * [1.0, 0.05],
        [f"category {i}" * (1 + i % 2) for i in range(60)],
    )
    figure = Figure(figsize=(7, 5), dpi=dpi, layout="constrained")
    ax = figure.add_subplot()
    areas = draw.uniform(10, 200, 60)
    ax.scatter(*points.T, s=areas)
    kept = add_labels(ax, points, areas, list(enumerate(names)))
    for again in (dpi, 2 * dpi):  # as it is saved
        figure.set_dpi(again)
        figure.draw_without_rendering()
        boxes = [Text.get_window_extent(text).extents for text in kept]
        assert len(boxes) > 20
        assert overlaps(boxes) == []
        inside = ax.get_window_extent().extents
        assert all((box[:2] >= inside[:2] - 1).all() and (box[2:] <= inside[2:] + 1).all() for box in boxes)
    assert {text.get_text() for text in ax.texts} == {text.get_text() for text in kept}


def test_an_overlap_is_found():
    assert overlaps([(0, 0, 2, 2), (3, 3, 4, 4), (1, 1, 3.5, 2)]) == [(2, 0)]


def test_labels_are_one_short_line_of_plain_text():
    assert shortened("a\n b\t c") == "a b c"
    assert shortened(3.5) == "3.5"
    assert len(shortened("x" * 99)) == 28
    ax = Figure().add_subplot()
    ax.scatter([0], [0])
    (text,) = add_labels(ax, np.zeros((1, 2)), np.ones(1), [(0, "$\\frac{1}$ and $")])
    ax.figure.canvas.draw()
    assert text.get_text() == "$\\frac{1}$ and $"
    assert add_labels(ax, np.zeros((1, 2)), np.ones(1), []) == []
