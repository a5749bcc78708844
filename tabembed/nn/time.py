"""Linear embedding of instants."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from tabembed._checks import check_columns, check_integer_tensor, check_last_dim
from tabembed.functional.position import position
from tabembed.nn.linear import LinearEmbedding
from tabembed.schema import MISSING_TIME, DatetimeColumn


class TimeEmbedding(nn.Module):
    """Place an instant between the earliest (0) and the latest (1) of the fit, then embed it linearly.

    Args:
        columns: datetime columns of a schema.
        d_embedding: width of a vector.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - times: ``(*, n_features)`` int64, nanoseconds since 1970-01-01 UTC, −2⁶³ where missing
        - output: ``(*, n_features, d_embedding)``, in the dtype of the weights

    >>> import torch
    >>> from tabembed.schema import DatetimeColumn
    >>> day = 86_400 * 10**9
    >>> embedding = TimeEmbedding([DatetimeColumn("departure", 9, 0, 0, 10 * day, "UTC")])
    >>> embedding.position(torch.tensor([[5 * day]])).tolist()
    [[0.5]]
    """

    def __init__(
        self, columns: Sequence[DatetimeColumn], d_embedding: int = 8, *, seed: int | None = None
    ) -> None:
        check_columns(columns, DatetimeColumn)
        linear = LinearEmbedding(len(columns), d_embedding, seed=seed)
        super().__init__()
        self.d_embedding = d_embedding
        self.earliest = tuple(column.minimum for column in columns)
        self.latest = tuple(column.maximum for column in columns)
        self.linear = linear

    @classmethod
    def from_columns(
        cls, columns: Sequence[DatetimeColumn], d_embedding: int = 8, *, seed: int | None = None
    ) -> TimeEmbedding:
        """One for these columns of a schema."""
        return cls(columns, d_embedding, seed=seed)

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        self.linear.reset_parameters()

    def position(self, times: Tensor) -> Tensor:
        """Where instants stand between the earliest and the latest of the fit, float32."""
        return position(times, self.earliest, self.latest).float()

    def forward(self, times: Tensor) -> Tensor:
        """Vectors of the instants."""
        check_last_dim(times, len(self.earliest), "times")
        check_integer_tensor(times, "times")
        return self.linear(self.position(times), times == MISSING_TIME)
