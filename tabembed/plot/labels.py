"""Labels beside points, none over another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_GAP = 2.0
"""Least distance between two labels, and of a label from its point, in pixels."""
_RINGS = (0.0, 1.0, 2.0, 3.5, 5.0)
"""How far from its point a label may move, in heights of a label."""
_DIRECTIONS = [(np.cos(angle), np.sin(angle)) for angle in np.arange(16) * np.pi / 8]
_WIDER = 1.05
_LONGEST = 28
"""Most characters of a label."""


def free_centres(
    anchors: np.ndarray,
    radii: np.ndarray,
    sizes: np.ndarray,
    *,
    points: np.ndarray,
    bounds: tuple[float, float, float, float],
) -> list[np.ndarray | None]:
    """Centres of boxes beside their anchors that do not overlap each other and stay within bounds.

    The boxes are placed one after the other, each as close to its anchor as it can be and there where it
    covers the fewest points. A box for which there is no place gets none.

    Args:
        anchors: what the boxes belong to, the most important first.
        radii: how far a box must stay away from its own anchor.
        sizes: widths and heights of the boxes.
        points: centres of all points.
        bounds: left, bottom, right and top end of where boxes may be.

    Shape:
        - anchors, sizes: ``(n, 2)`` pixels
        - radii: ``(n,)`` pixels
        - points: ``(m, 2)`` pixels

    >>> places = free_centres(np.zeros((2, 2)), np.ones(2), np.full((2, 2), 4.0), points=np.zeros((1, 2)),
    ...     bounds=(-9, -9, 9, 9))
    >>> [place.round(1).tolist() for place in places]
    [[5.0, 0.0], [-2.0, 4.8]]
    """
    low, high = np.array(bounds[:2]), np.array(bounds[2:])
    taken: list[tuple[np.ndarray, np.ndarray]] = []
    centres: list[np.ndarray | None] = []
    for anchor, radius, size in zip(anchors, radii, sizes, strict=True):
        half, found = size / 2, None
        for ring in _RINGS:
            free: list[tuple[int, int, np.ndarray]] = []
            for direction in np.array(_DIRECTIONS):
                outward = direction / np.abs(direction).max()
                centre = anchor + direction * (radius + _GAP + ring * size[1]) + outward * half
                within = (centre - half >= low).all() and (centre + half <= high).all()
                if within and not any(_overlap(centre, half, *other) for other in taken):
                    covered = int((np.abs(points - centre) < half + _GAP).all(1).sum())
                    free.append((covered, len(free), centre))
            if free:
                found = min(free, key=lambda place: place[:2])[2]
                taken.append((found, half))
                break
        centres.append(found)
    return centres


def _overlap(a: np.ndarray, half_a: np.ndarray, b: np.ndarray, half_b: np.ndarray) -> bool:
    return bool((np.abs(a - b) < half_a + half_b + _GAP).all())


def add_labels(
    ax: Any, points: np.ndarray, areas: np.ndarray, labels: Sequence[tuple[int, str]]
) -> list[Any]:
    """Write labels beside points; one for which there is no room is left out.

    They are placed for the figure as large as it is now, with the limits that the axes have now.

    Args:
        ax: axes of matplotlib that show the points.
        points: all points, in the coordinates of the axes.
        areas: how large each is drawn, in square points, as ``scatter`` takes it.
        labels: numbers of the points to label and their labels, the most important first.

    Shape:
        - points: ``(n, 2)``
        - areas: ``(n,)``

    Returns: the labels that stand, as matplotlib's annotations.
    """
    from matplotlib.text import Text

    if not labels:
        return []
    figure = ax.figure
    figure.draw_without_rendering()  # limits, aspect and layout are final only now
    pixels, per_point = ax.transData.transform(points), figure.dpi / 72
    numbers = [i for i, _ in labels]
    radii = np.sqrt(areas[numbers]) / 2 * per_point
    texts = [
        ax.annotate(
            shortened(label),
            points[i],
            (0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize="small",
            parse_math=False,
            arrowprops={"arrowstyle": "-", "lw": 0.5, "color": "0.6", "shrinkA": 0, "shrinkB": 0},
        )
        for i, label in labels
    ]
    for text in texts:
        text.set_in_layout(False)
    # An annotation's own extent reaches to its point; that of its text alone is wanted.
    boxes = [Text.get_window_extent(text) for text in texts]
    # Letters are fitted to pixels: in a figure that is saved larger, text may be a little wider.
    sizes = np.array([[box.width * _WIDER, box.height] for box in boxes])
    bounds = ax.get_window_extent().extents
    centres = free_centres(pixels[numbers], radii, sizes, points=pixels, bounds=tuple(bounds))
    kept = []
    for i, text, radius, centre, size in zip(numbers, texts, radii, centres, sizes, strict=True):
        if centre is None:
            text.remove()
            continue
        offset = centre - pixels[i]
        text.set_position(tuple(offset / per_point))
        if (np.maximum(np.abs(offset) - size / 2, 0) <= radius + 2 * _GAP).all():  # stands beside its point
            text.arrow_patch.set_visible(False)
        kept.append(text)
    return kept


def shortened(label: Any) -> str:
    """A category as one short line.

    >>> shortened("a long name\\nof a place that goes on")
    'a long name of a place that…'
    """
    text = " ".join(str(label).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"
