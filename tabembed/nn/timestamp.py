"""Embedding of timestamps: a Gaussian Fourier projection of their place in a span, and a small network."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor

from tabembed._checks import (
    check_columns,
    check_finite,
    check_int64,
    check_integer,
    check_scale,
    check_seed,
)
from tabembed.functional.position import since
from tabembed.nn.draws import split_seed
from tabembed.nn.gaussian_fourier import GaussianFourierProjection
from tabembed.nn.number_input import as_numbers
from tabembed.nn.precision import WideModule
from tabembed.nn.time_columns import TimeColumns
from tabembed.nn.timestep_embedding import TimestepEmbedding
from tabembed.schema import DatetimeColumn


class TimestampEmbedding(WideModule):
    """Place a timestamp in a span, project it on random waves, and mix them: Linear, SiLU, Linear.

    The waves and the layers are a ``TimestepEmbedding`` of a ``GaussianFourierProjection``, ``network``.

    Integers are placed in integers, so Unix seconds and nanoseconds lose nothing; phases are
    multiplied and reduced in float64.

    Args:
        embed_dim: width of the output.
        n_frequencies: number of waves; each gives a sine and a cosine.
        scale: standard deviation of their frequencies, in turns per span.
        origin: the timestamp that is placed at 0; an integer is subtracted in integers.
        span: how far behind ``origin`` the place is 1, in the unit of the timestamps. With the default,
            timestamps are places themselves, and neighbours closer than about ``0.02 / scale`` look alike.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - t: ``(*)`` integers or floats, or a number; float32 holds Unix seconds only to 128 s
        - output: ``(*, embed_dim)``, in the dtype of the weights

    Raises: ValueError for a scale or span that is not from 1e-30 to 1e30. TypeError for a ``t`` that is
        no number.

    Source: Tancik et al. 2020, arXiv:2006.10739, equation 5; the network: Ho et al. 2020, arXiv:2006.11239.

    >>> embedding = TimestampEmbedding(8, origin=1_700_000_000, span=86_400, seed=0)
    >>> embedding(torch.tensor([[1_700_000_000, 1_700_000_060]])).shape
    torch.Size([1, 2, 8])
    """

    def __init__(
        self,
        embed_dim: int,
        *,
        n_frequencies: int = 64,
        scale: float = 10.0,
        origin: float = 0,
        span: float = 1,
        seed: int | None = None,
    ) -> None:
        check_integer(embed_dim=embed_dim, n_frequencies=n_frequencies)
        check_scale(scale=scale, span=span)
        check_finite(origin=origin)
        check_int64(origin=origin)
        check_seed(seed)
        super().__init__()
        self.embed_dim, self.origin, self.span = embed_dim, origin, span
        of_waves, of_layers = split_seed(seed, 2)
        waves = GaussianFourierProjection(2 * n_frequencies, scale=scale, seed=of_waves)
        self.network = TimestepEmbedding(waves, embed_dim, init="score_sde", seed=of_layers)

    @classmethod
    def from_columns(
        cls,
        columns: Sequence[DatetimeColumn],
        d_embedding: int = 8,
        *,
        n_frequencies: int = 64,
        scale: float = 10.0,
        seed: int | None = None,
    ) -> TimeColumns:
        """One for datetime columns of a schema: from the earliest to the latest of the fit, each its own.

        Args:
            columns: datetime columns of a schema.
            d_embedding: width of a vector.
            n_frequencies: number of waves of every column.
            scale: standard deviation of their frequencies, in turns per span of the fit.
            seed: seed of the first weights and of the rows of missing times.

        Shape:
            - times: ``(*, n_columns)`` int64 nanoseconds since 1970-01-01 UTC, −2⁶³ where missing
            - output: ``(*, n_columns, d_embedding)``

        >>> column = DatetimeColumn("departure", 9, 0, 0, 10**18, None)
        >>> TimestampEmbedding.from_columns([column], 4)(torch.tensor([[0], [10**18]])).shape
        torch.Size([2, 1, 4])
        """
        check_columns(columns, DatetimeColumn)
        of_missing, *seeds = split_seed(seed, 1 + len(columns))
        modules = [
            cls(
                d_embedding,
                n_frequencies=n_frequencies,
                scale=scale,
                origin=column.minimum,
                span=column.maximum - column.minimum or 1,
                seed=own,
            )
            for column, own in zip(columns, seeds, strict=True)
        ]
        return TimeColumns(modules, d_embedding, seed=of_missing)

    def reset_parameters(self) -> None:
        """Draw frequencies from N(0, scale²) and weights from U(±√(6 / (in + out))); biases are zero."""
        self.network.reset_parameters()

    def position(self, t: Tensor | float) -> Tensor:
        """Where timestamps stand between ``origin`` (0) and ``origin + span`` (1), float64."""
        t = as_numbers(t, "t", self._follows_dtype.device)
        if isinstance(self.origin, Integral) and not t.is_floating_point():
            origin = torch.tensor(int(self.origin), dtype=torch.int64, device=t.device)
            return since(t.long(), origin) / float(self.span)
        return (t.double() - float(self.origin)) / float(self.span)

    def forward(self, t: Tensor | float) -> Tensor:
        """Vectors of the timestamps."""
        places = self.position(t)
        vectors = self.network(places.reshape(-1))  # flat: a column (B, 1) is no (B,) here
        return vectors.reshape(*places.shape, self.embed_dim).to(self.dtype)

    def extra_repr(self) -> str:
        """Arguments."""
        return f"{self.embed_dim}, origin={self.origin}, span={self.span}"
