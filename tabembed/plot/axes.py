"""The figure of a picture: a new one where none was given, and how a notebook shows it.

Pyplot is not asked, so nothing is left behind there.
"""

from __future__ import annotations

import io
from typing import Any


def axes_of(ax: Any, display: str, *, size: tuple[float, float]) -> Any:
    """The axes that were given, or those of a new figure.

    Args:
        ax: axes of matplotlib, or ``None``.
        display: name of the class that draws, for the message.
        size: width and height of a new figure in inches.

    Raises: ImportError without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(f"{display}.plot needs matplotlib: pip install 'tabembed[plot]'") from None
    if ax is not None:
        return ax
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


class Shown:
    """A display that a notebook shows as its figure, once it has been drawn."""

    figure_: Any

    def _repr_png_(self) -> bytes | None:
        if not hasattr(self, "figure_"):
            return None
        png = io.BytesIO()
        self.figure_.savefig(png, format="png")
        return png.getvalue()
