"""Periodic embedding of numbers: learned frequencies, then a linear layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed._checks import (
    check_choice,
    check_columns,
    check_integer,
    check_scale,
    check_seed,
)
from tabembed.functional.periodic import periodic_code, shifted_code
from tabembed.nn.draws import generator_of, normal_, truncated_normal_, uniform_
from tabembed.nn.missing import filled
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.schema import ContinuousColumn


@dataclass(frozen=True)
class Variant:
    """What a published periodic embedding is made of, and the sizes that it was published with."""

    d_embedding: int
    n_frequencies: int
    frequency_scale: float
    shared: bool = False
    activation: bool = True
    shifted: bool = False


VARIANTS = {
    "plr": Variant(24, 48, 0.01),
    "pl": Variant(24, 48, 0.01, activation=False),
    "plr-lite": Variant(24, 48, 0.01, shared=True),
    "pbld": Variant(4, 16, 0.1, activation=False, shifted=True),
}
"""PLR and PL: Gorishniy et al. 2022; PLR-lite, one layer for all columns: Gorishniy et al. 2023 (TabR);
PBLD: Holzmüller et al. 2024 (RealMLP)."""

_LIMIT = 3.0  # standard deviations that a first frequency may be away from 0


class PeriodicEmbedding(WideModule):
    """Give every number the cosines and sines of learned frequencies, and a linear layer behind them.

    ============ ======================================================================
    ``variant``  vector of the number ``x`` of column ``j``
    ============ ======================================================================
    ``plr``      ``ReLU(weight[j]ᵀ [cos(2π c[j] x), sin(2π c[j] x)] + bias[j])``
    ``pl``       the same without ReLU
    ``plr-lite`` the same as ``plr`` with one weight and one bias for all columns
    ``pbld``     ``[x, weight[j]ᵀ cos(2π c[j] x + phases[j]) + bias[j]]``, the cheapest
    ============ ======================================================================

    ``c`` is ``frequencies``; a missing number gets ``missing[j]``. Beyond the numbers seen in training
    the vector goes on as the waves do; with few turns over the data it is smooth, and with many it is
    not to be trusted there.

    Args:
        n_features: number of columns.
        d_embedding: width of a vector; ``None`` is the variant's (24; ``pbld`` 4, ``x`` included).
        variant: ``"plr"``, ``"pl"``, ``"plr-lite"`` or ``"pbld"``.
        n_frequencies: frequencies of a column; ``None`` is the variant's (48; ``pbld`` 16).
        frequency_scale: standard deviation of the first frequencies, in turns per unit of ``x``;
            ``None`` is the variant's (0.01; ``pbld`` 0.1). It matters most: too small is safe, too large
            is not.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - values: ``(*, n_features)``, scaled numbers; anything, NaN too, where missing
        - missing: ``(*, n_features)`` bool; ``None`` means that nothing is missing
        - output: ``(*, n_features, d_embedding)``, in the dtype of the weight; frequencies stay float32
          or wider

    Raises: ValueError for an unknown variant, a size below 1 (a width below 2 where ``x`` is part of the
        vector) or a scale that is not positive.
    Source: Gorishniy et al. 2022, arXiv:2203.05556, section 3.3; Gorishniy et al. 2023, arXiv:2307.14338;
        Holzmüller et al. 2024, arXiv:2407.04491.

    >>> PeriodicEmbedding(3, variant="pbld")(torch.tensor([[1.0, -0.5, 0.0]])).shape
    torch.Size([1, 3, 4])
    """

    wide = ("frequencies", "phases")

    def __init__(
        self,
        n_features: int,
        d_embedding: int | None = None,
        *,
        variant: str = "plr",
        n_frequencies: int | None = None,
        frequency_scale: float | None = None,
        seed: int | None = None,
    ) -> None:
        check_choice(list(VARIANTS), variant=variant)
        kind = VARIANTS[variant]
        d = kind.d_embedding if d_embedding is None else d_embedding
        k = kind.n_frequencies if n_frequencies is None else n_frequencies
        scale = kind.frequency_scale if frequency_scale is None else frequency_scale
        check_integer(n_features=n_features, n_frequencies=k)
        check_integer(2 if kind.shifted else 1, d_embedding=d)
        check_scale(frequency_scale=scale)
        check_seed(seed)
        super().__init__()
        self.variant, self.kind, self.seed = variant, kind, seed
        self.n_features, self.d_embedding = n_features, d
        self.n_frequencies, self.frequency_scale = k, float(scale)
        width, out = (k, d - 1) if kind.shifted else (2 * k, d)
        layers = () if kind.shared else (n_features,)
        self.frequencies = nn.Parameter(torch.empty(n_features, k, dtype=wide_dtype()))
        self.phases = nn.Parameter(torch.empty(n_features, k, dtype=wide_dtype())) if kind.shifted else None
        self.weight = nn.Parameter(torch.empty(*layers, width, out))
        self.bias = nn.Parameter(torch.empty(*layers, out))
        self.missing = nn.Parameter(torch.empty(n_features, d))
        self._product = "...fk,kd->...fd" if kind.shared else "...fk,fkd->...fd"
        self.reset_parameters()

    @classmethod
    def from_columns(
        cls,
        columns: Sequence[ContinuousColumn],
        d_embedding: int | None = None,
        *,
        variant: str = "plr",
        n_frequencies: int | None = None,
        frequency_scale: float | None = None,
        seed: int | None = None,
    ) -> PeriodicEmbedding:
        """One for these columns of a schema."""
        check_columns(columns, ContinuousColumn)
        sizes = {"n_frequencies": n_frequencies, "frequency_scale": frequency_scale}
        return cls(len(columns), d_embedding, variant=variant, **sizes, seed=seed)  # type: ignore[arg-type]

    def reset_parameters(self) -> None:
        """Draw every weight anew.

        Frequencies from N(0, frequency_scale²), within three standard deviations except for ``pbld``;
        phases from U(−π, π); the layer from U(−n^−½, n^−½), where n is what goes into it; missing rows
        from U(−d^−½, d^−½).
        """
        generator = generator_of(self.seed)
        if self.phases is None:
            truncated_normal_(self.frequencies, self.frequency_scale, _LIMIT, generator)
        else:
            normal_(self.frequencies, self.frequency_scale, generator)
            uniform_(self.phases, math.pi, generator)
        for weight in (self.weight, self.bias):
            uniform_(weight, self.weight.shape[-2] ** -0.5, generator)
        uniform_(self.missing, self.d_embedding**-0.5, generator)

    def forward(self, values: Tensor, missing: Tensor | None = None) -> Tensor:
        """Vectors of the numbers."""
        x, missing = filled(values, missing, self.n_features)
        vectors = torch.einsum(self._product, self._code(x).to(self.weight), self.weight) + self.bias
        vectors = F.relu(vectors) if self.kind.activation else vectors
        vectors = vectors if self.phases is None else torch.cat((x.unsqueeze(-1).to(vectors), vectors), -1)
        return torch.where(missing.unsqueeze(-1), self.missing, vectors.to(self.missing))

    def _code(self, x: Tensor) -> Tensor:
        if self.phases is None:
            return periodic_code(x, self.frequencies)
        return shifted_code(x, self.frequencies, self.phases)

    def extra_repr(self) -> str:
        """Sizes."""
        own = f"n_frequencies={self.n_frequencies}, frequency_scale={self.frequency_scale}"
        return f"{self.n_features}, {self.d_embedding}, variant={self.variant!r}, {own}"
