"""How a fit went: the loss on held-out rows, pass by pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from tabembed.plot.axes import Shown, axes_of


class TrainingDisplay(Shown):
    """The loss on held-out rows before training and after every pass; ``from_embedder`` makes one.

    Args:
        losses: the losses.

    Attributes:
        kept_pass: the pass whose network is kept, 0 for the untrained one.
        ax_: axes of the last ``plot``.
        figure_: their figure.

    Raises: ValueError when there are no losses.

    >>> TrainingDisplay([0.7, 0.5, 0.6]).kept_pass
    1
    """

    def __init__(self, losses: Sequence[float]) -> None:
        if not len(losses):
            raise ValueError(
                "losses must not be empty: a fit has held-out rows with validation_fraction above 0 and "
                "enough rows"
            )
        self.losses = [float(loss) for loss in losses]
        self.kept_pass = int(np.argmin(self.losses))

    @classmethod
    def from_embedder(cls, embedder: Any) -> TrainingDisplay:
        """The losses of a fit.

        Args:
            embedder: anything fitted with ``validation_losses_``: ``TableEmbedder``, ``SequenceEmbedder``,
                ``LearnedFourierTransformer``.

        Raises: ValueError when the fit held out no rows.
        """
        return cls(embedder.validation_losses_)

    def plot(self, ax: Any = None) -> Self:
        """Draw the losses, and mark the pass whose network is kept.

        Args:
            ax: axes of matplotlib; ``None`` makes a figure, ``figure_``.

        Raises: ImportError without matplotlib.
        """
        ax = axes_of(ax, type(self).__name__, size=(5, 3.5))
        ax.plot(range(len(self.losses)), self.losses, marker=".")
        best = self.losses[self.kept_pass]
        ax.plot(
            [self.kept_pass], [best], "o", color="tab:red", label=f"kept: pass {self.kept_pass}, {best:.4g}"
        )
        ax.set(xlabel="passes over the rows", ylabel="loss on held-out rows")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self
