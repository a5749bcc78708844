"""Linear embedding of instants."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tabembed._checks import check_integer_tensor, check_last_dim
from tabembed.nn.linear import LinearEmbedding
from tabembed.schema import MISSING_TIME, DatetimeColumn

_LOW = 2**32


class TimeEmbedding(nn.Module):
    """Place an instant between the earliest (0) and the latest (1) of the fit, then embed it linearly.

    Args:
        columns: datetime columns of a schema.
        d_embedding: width of a vector.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - times: ``(*, n_features)`` int64, nanoseconds since 1970-01-01 UTC, −2⁶³ where missing
        - output: ``(*, n_features, d_embedding)``, in the dtype of the weights

    >>> from tabembed.schema import DatetimeColumn
    >>> day = 86_400 * 10**9
    >>> embedding = TimeEmbedding([DatetimeColumn("departure", 9, 0, 0, 10 * day, "UTC")])
    >>> embedding.position(torch.tensor([[5 * day]])).tolist()
    [[0.5]]
    """

    def __init__(
        self, columns: Sequence[DatetimeColumn], d_embedding: int = 8, *, seed: int | None = None
    ) -> None:
        linear = LinearEmbedding(len(columns), d_embedding, seed=seed)
        super().__init__()
        self.d_embedding = d_embedding
        self.origin = tuple(column.minimum for column in columns)
        self.span = tuple(float(column.maximum - column.minimum or 1) for column in columns)
        self.linear = linear

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        self.linear.reset_parameters()

    def position(self, times: Tensor) -> Tensor:
        """Where instants stand between the earliest and the latest of the fit, float32."""
        origin = torch.tensor(self.origin, dtype=torch.int64, device=times.device)
        span = torch.tensor(self.span, dtype=torch.float64, device=times.device)
        # Integers all the way, in two halves: 292 years of nanoseconds are the whole of int64.
        high = (times >> 32) - (origin >> 32)
        low = (times & (_LOW - 1)) - (origin & (_LOW - 1))
        return ((high.double() * _LOW + low.double()) / span).float()

    def forward(self, times: Tensor) -> Tensor:
        """Vectors of the instants."""
        check_last_dim(times, len(self.origin), "times")
        check_integer_tensor(times, "times")
        return self.linear(self.position(times), times == MISSING_TIME)
