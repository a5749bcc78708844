"""A column's vectors as points, the categories that are alike beside each other."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd

from tabembed._checks import check_integer
from tabembed.estimators.nearest import is_taught, vectors_of
from tabembed.plot.axes import Shown, axes_of
from tabembed.plot.labels import add_labels
from tabembed.plot.plane import on_plane

_SMALLEST, _LARGEST = 12.0, 320.0
"""Areas of the points of the rarest and the most frequent category, in square points."""
_RESERVED = {"unknown": ("X", "tab:red"), "missing": ("D", "tab:orange")}
"""Marker and colour of the rows that are no categories."""


class EmbeddingDisplay(Shown):
    """The learned vectors of a column as points of a plane; ``from_embedder`` makes one.

    Args:
        coordinates: frame with ``category``, ``kind``, ``count``, ``x`` and ``y``, one row a point.
        column: name of the column.
        axis_names: what the two axes are called.

    Attributes:
        ax_: axes of the last ``plot``.
        figure_: their figure.
        labels_: the labels that stand in it, as annotations of matplotlib.

    >>> from tabembed import TableEmbedder
    >>> X = pd.DataFrame({"city": ["Rome", "Oslo", "Bergen"] * 20})
    >>> embedder = TableEmbedder(random_state=0).fit(X, X["city"] != "Rome")
    >>> display = EmbeddingDisplay.from_embedder(embedder, "city")
    >>> display.coordinates["kind"].tolist()
    ['unknown', 'known', 'known', 'known']
    >>> display.plot().figure_.savefig("city.png")  # doctest: +SKIP
    """

    def __init__(self, coordinates: pd.DataFrame, *, column: str, axis_names: tuple[str, str]) -> None:
        self.coordinates = coordinates
        self.column = column
        self.axis_names = axis_names

    @classmethod
    def from_embedder(
        cls, embedder: Any, column: str, *, method: str = "pca", random_state: int = 0
    ) -> EmbeddingDisplay:
        """Find the points; ``plot`` draws them.

        Padding is left out, and so is the row of missing values where the fit had none.

        Args:
            embedder: a fitted ``TableEmbedder`` or ``SequenceEmbedder``.
            column: name of a categorical column or a column of lists.
            method: ``"pca"``, the plane on which the vectors vary most, or ``"tsne"``, which keeps
                neighbours together and does not keep distances.
            random_state: what t-SNE draws follows from it.

        Raises: ValueError when there is no such column or method.
        """
        table = embedder.embedding_table(column)
        table = table[is_taught(table)].reset_index(drop=True)
        points, names = on_plane(vectors_of(table), method, random_state=random_state)
        coordinates = table[["category", "kind", "count"]].assign(x=points[:, 0], y=points[:, 1])
        return cls(coordinates, column=column, axis_names=names)

    def plot(self, ax: Any = None, *, n_labels: int = 25) -> Self:
        """Draw a point for every category, larger ones for more rows, and labels that do not overlap.

        The unknown row is a red cross, that of missing values an orange diamond. The most frequent categories
        have labels, as far as there is room, for the figure as large as it is now. In a window:
        ``figure, ax = plt.subplots()``, then ``plot(ax)``. A notebook shows what this returns.

        Args:
            ax: axes of matplotlib; ``None`` makes a figure, ``figure_``.
            n_labels: most categories that get a label.

        Raises: ImportError without matplotlib. ValueError when ``n_labels`` is negative.
        """
        check_integer(0, n_labels=n_labels)
        ax = axes_of(ax, type(self).__name__, size=(7, 6))
        table, points = self.coordinates, self.coordinates[["x", "y"]].to_numpy()
        areas = _areas(table["count"].to_numpy())
        known = (table["kind"] == "known").to_numpy()
        ax.scatter(*points[known].T, s=areas[known], alpha=0.6, linewidths=0)
        reserved = []
        for i in np.flatnonzero(~known):
            kind = table["kind"][i]
            marker, colour = _RESERVED[kind]
            areas[i] = 60.0
            ax.scatter(*points[[i]].T, s=areas[i], marker=marker, color=colour, zorder=3)
            reserved.append((int(i), kind))
        ax.set(title=self.column, xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        ax.set_aspect("equal", adjustable="datalim")  # a distance is as long in every direction
        ax.margins(0.1)
        order = np.flatnonzero(known)[np.argsort(-table["count"].to_numpy()[known], kind="stable")]
        named = [(int(i), table["category"][i]) for i in order[:n_labels]]
        self.ax_, self.figure_ = ax, ax.figure
        self.labels_ = add_labels(ax, points, areas, [*reserved, *named] if n_labels else reserved)
        return self


def _areas(counts: np.ndarray) -> np.ndarray:
    """Areas that grow with the number of rows."""
    return _SMALLEST + (_LARGEST - _SMALLEST) * counts / max(counts.max(initial=0), 1)
