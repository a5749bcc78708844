"""Sines and cosines at learned frequencies, then a linear layer or a small network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed._checks import (
    check_choice,
    check_columns,
    check_integer,
    check_last_dim,
    check_number_tensor,
    check_scale,
    check_seed,
)
from tabembed.functional.phase import RADIAN, cos_sin, radians, widened, without_autocast
from tabembed.nn.draws import generator_of, normal_, split_seed
from tabembed.nn.per_column import PerColumn
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.schema import ContinuousColumn

_HIDDEN = {"torchembed": None, "li2021": 32}
"""Width of the hidden layer of every preset."""


class LearnedFourierFeatures(WideModule):
    """Map ``x`` to ``Linear([cos(2π · xF), sin(2π · xF)])`` with learned frequencies ``F``.

    Frequencies count turns per unit of ``x``, as in ``GaussianFourierProjection``. NOTE[DIFF]:
    torchembed and Li et al. count radians and write ``cos(xF)``: divide their frequencies by 2π.

    Args:
        in_features: number of features of a row.
        out_features: width of the output.
        n_frequencies: number of frequencies, half of what the linear layer reads.
        hidden_features: width of a hidden layer with GELU before the linear one; ``None`` has none.
        scale: standard deviation of the first frequencies, in turns per unit of ``x``; one radian (0.16
            turns) gives the features of a Gaussian kernel of lengthscale 1. For ``d`` standardised
            features, a ``√d``-th of that keeps neighbours alike.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - x: ``(*, in_features)``, integers or floats of any width
        - output: ``(*, out_features)``, in the dtype of the weights. Phases are computed in float32,
          for float64 and integers in float64, also inside autocast, and lose their whole turns there

    Source: Li et al. 2021, arXiv:2106.02795, algorithm 1; Rahimi & Recht 2007 for the features.

    >>> LearnedFourierFeatures(3, 16)(torch.randn(5, 3)).shape
    torch.Size([5, 16])
    """

    wide = ("frequencies",)
    weight_hidden: nn.Parameter | None
    bias_hidden: nn.Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        n_frequencies: int = 64,
        hidden_features: int | None = None,
        scale: float = RADIAN,
        seed: int | None = None,
    ) -> None:
        check_integer(in_features=in_features, out_features=out_features, n_frequencies=n_frequencies)
        if hidden_features is not None:
            check_integer(hidden_features=hidden_features)
        check_scale(scale=scale)
        check_seed(seed)
        super().__init__()
        self.in_features, self.out_features, self.n_frequencies = in_features, out_features, n_frequencies
        self.hidden_features, self.scale, self.seed = hidden_features, float(scale), seed
        self.frequencies = nn.Parameter(torch.empty(in_features, n_frequencies, dtype=wide_dtype()))
        self.weight_hidden, self.bias_hidden = None, None
        if hidden_features is not None:
            self.weight_hidden = nn.Parameter(torch.empty(hidden_features, 2 * n_frequencies))
            self.bias_hidden = nn.Parameter(torch.empty(hidden_features))
        self.weight = nn.Parameter(torch.empty(out_features, hidden_features or 2 * n_frequencies))
        self.bias = nn.Parameter(torch.empty(out_features))
        self.reset_parameters()

    @classmethod
    def from_preset(
        cls,
        name: str,
        in_features: int,
        out_features: int,
        *,
        n_frequencies: int = 64,
        scale: float = RADIAN,
        seed: int | None = None,
    ) -> LearnedFourierFeatures:
        """The map of a peer; give it the peer's weights, and the numbers are the peer's.

        Args:
            name: one of

                - ``"torchembed"``: a linear layer alone. ``frequencies`` is its ``freq / 2π``
                - ``"li2021"``: Li et al., one hidden layer (32 wide) with GELU. ``frequencies`` is
                  ``Wrᵀ / 2π``, and ``weight_hidden`` is ``W1ᵀ / √(2 · n_frequencies)``: the factor
                  before their features stands in the weights here
            in_features: number of features of a row.
            out_features: width of the output.
            n_frequencies: number of frequencies; Li et al. count twice as many.
            scale: ``1 / (2π · σ)`` for their ``sigma_init`` or ``γ``, which are 1 unless given.
            seed: seed of the first weights.

        Raises: ValueError for an unknown name.

        >>> LearnedFourierFeatures.from_preset("li2021", 2, 8)
        LearnedFourierFeatures(2, 8, n_frequencies=64, hidden_features=32, scale=0.159)
        """
        check_choice(_HIDDEN, name=name)
        return cls(
            in_features,
            out_features,
            n_frequencies=n_frequencies,
            hidden_features=_HIDDEN[name],
            scale=scale,
            seed=seed,
        )

    @classmethod
    def from_columns(
        cls,
        columns: Sequence[ContinuousColumn],
        d_embedding: int = 16,
        *,
        n_frequencies: int = 16,
        scale: float = RADIAN,
        seed: int | None = None,
    ) -> PerColumn:
        """One for each of these columns of a schema.

        The columns are scaled to a spread of about 1, so the default scale is one radian per unit
        (0.16 turns): a column starts as a smooth curve, and training adds what detail it needs.

        Args:
            columns: columns of a schema.
            d_embedding: width of a vector.
            n_frequencies: frequencies of a column.
            scale: standard deviation of the first frequencies, in turns per unit of the scaled column.
            seed: seed of the first weights and of the missing rows.
        """
        check_columns(columns, ContinuousColumn)
        seeds = split_seed(seed, len(columns) + 1)
        make = [cls(1, d_embedding, n_frequencies=n_frequencies, scale=scale, seed=own) for own in seeds[1:]]
        return PerColumn(make, d_embedding, seed=seeds[0])

    def reset_parameters(self) -> None:
        """Draw frequencies from N(0, scale²), weights so that first outputs vary by about 1; biases 0."""
        generator = generator_of(self.seed)
        normal_(self.frequencies, self.scale, generator)
        widest = self.n_frequencies  # cos² + sin² = 1: every pair counts once
        if self.weight_hidden is not None and self.bias_hidden is not None:
            normal_(self.weight_hidden, widest**-0.5, generator)
            nn.init.zeros_(self.bias_hidden)
            widest = self.weight.shape[1]
        normal_(self.weight, widest**-0.5, generator)
        nn.init.zeros_(self.bias)

    def waves(self, x: Tensor) -> Tensor:
        """Cosines, then sines of the phases ``(*, 2 · n_frequencies)``, in float32 or wider."""
        check_last_dim(x, self.in_features, "x")
        check_number_tensor(x, "x")
        x = widened(x)
        wide = torch.promote_types(x.dtype, self.frequencies.dtype)
        with without_autocast(x.device):
            turns = x.to(wide) @ self.frequencies.to(wide)
        turns = turns - turns.detach().round()
        return cos_sin(radians(turns.to(self.frequencies.dtype)), "cos_sin")

    def forward(self, x: Tensor) -> Tensor:
        """Vectors of the rows."""
        hidden = self.waves(x).to(self.weight.dtype)
        if self.weight_hidden is not None:
            hidden = F.gelu(F.linear(hidden, self.weight_hidden, self.bias_hidden))
        return F.linear(hidden, self.weight, self.bias).to(self.weight.dtype)

    def extra_repr(self) -> str:
        """Arguments."""
        hidden = "" if self.hidden_features is None else f", hidden_features={self.hidden_features}"
        sizes = f"{self.in_features}, {self.out_features}, n_frequencies={self.n_frequencies}{hidden}"
        return f"{sizes}, scale={self.scale:.3g}"
