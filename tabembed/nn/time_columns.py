"""One module for each column of instants, and a learned row where a time is missing."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from tabembed._checks import check_integer_tensor, check_last_dim
from tabembed.nn.per_column import PerColumn
from tabembed.schema import MISSING_TIME


class TimeColumns(nn.Module):
    """Give every datetime column to a module of its own; a missing time gets a learned row.

    ``CyclicEmbedding.from_columns`` and ``TimestampEmbedding.from_columns`` make one.

    Args:
        modules: one per column, each maps int64 nanoseconds ``(n_rows, 1)`` to ``(n_rows, d_embedding)``.
        d_embedding: width of a vector.
        seed: seed of the first missing rows; ``None`` draws from torch's global generator. The
            modules draw by their own rules.

    Shape:
        - times: ``(*, n_columns)`` int64, nanoseconds since 1970-01-01 UTC, −2⁶³ where missing
        - output: ``(*, n_columns, d_embedding)``, in the dtype of the missing rows

    >>> import torch
    >>> from tabembed.nn import CyclicEmbedding
    >>> day = 86_400 * 10**9
    >>> TimeColumns([CyclicEmbedding(day), CyclicEmbedding(7 * day)], 2)(torch.tensor([[0, 0]])).shape
    torch.Size([1, 2, 2])
    """

    def __init__(self, modules: Sequence[nn.Module], d_embedding: int, *, seed: int | None = None) -> None:
        per_column = PerColumn(modules, d_embedding, seed=seed)
        super().__init__()
        self.d_embedding, self.per_column = d_embedding, per_column

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        self.per_column.reset_parameters()

    def forward(self, times: Tensor) -> Tensor:
        """Vectors of the instants."""
        check_last_dim(times, len(self.per_column.columns), "times")
        check_integer_tensor(times, "times")
        return self.per_column(times, times == MISSING_TIME)
