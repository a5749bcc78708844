"""A bank of waves in time, and a straight line."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed._checks import check_bool, check_integer, check_scale, check_seed
from tabembed.functional.cyclic import cycle_turns
from tabembed.functional.phase import radians, turns, widened
from tabembed.nn.draws import generator_of, normal_, uniform_
from tabembed.nn.number_input import as_numbers
from tabembed.nn.precision import WideModule, wide_dtype


class FrequencyEmbedding(WideModule):
    """Turn a time into ``amplitude · [t, sin(f · t + φ)] + bias``: a trend and waves.

    Args:
        embed_dim: number of waves.
        learnable: learn the frequencies, drawn at first from N(0, (2π / period)²) radians per unit of
            time; else wave ``i`` keeps ``i`` whole turns a period, and with the learned phases and
            amplitudes this is a Fourier series.
        period: length of a cycle in the unit of ``t``.
        amplitudes: learn an amplitude and a bias for every wave; else for the trend alone, and this is
            Time2Vec.
        seed: seed of the first frequencies and phases; ``None`` draws from torch's global generator.

    Shape:
        - t: ``(*)`` integers or floats, or a number; NaN gives NaN
        - output: ``(*, embed_dim + 1)``, the trend first, in the module's dtype

    Raises: ValueError for a period that is not from 1e-30 to 1e30. TypeError for a ``t`` that is no
        number.

    Source: Kazemi et al. 2019, arXiv:1907.05321, equation 1.

    >>> FrequencyEmbedding(4, learnable=False, period=24)(torch.arange(48).view(2, 24)).shape
    torch.Size([2, 24, 5])
    """

    wide = ("frequency", "phase")

    def __init__(
        self,
        embed_dim: int,
        *,
        learnable: bool = True,
        period: float = 2 * math.pi,
        amplitudes: bool = True,
        seed: int | None = None,
    ) -> None:
        check_integer(embed_dim=embed_dim)
        check_bool(learnable=learnable, amplitudes=amplitudes)
        check_scale(period=period)
        check_seed(seed)
        super().__init__()
        self.embed_dim, self.period, self.seed = embed_dim, period, seed
        self.frequency = nn.Parameter(torch.empty(embed_dim, dtype=wide_dtype())) if learnable else None
        self.phase = nn.Parameter(torch.empty(embed_dim, dtype=wide_dtype()))
        n_amplitudes = embed_dim + 1 if amplitudes else 1
        self.amplitude = nn.Parameter(torch.empty(n_amplitudes))
        self.bias = nn.Parameter(torch.empty(n_amplitudes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw frequencies and phases, U(−π, π), anew; amplitudes are 1, biases 0."""
        generator = generator_of(self.seed)
        if self.frequency is not None:
            normal_(self.frequency, 2 * math.pi / float(self.period), generator)
        uniform_(self.phase, math.pi, generator)
        nn.init.ones_(self.amplitude)
        nn.init.zeros_(self.bias)

    def turns(self, t: Tensor) -> Tensor:
        """How far every wave has turned by some times, without its phase: ``(*, embed_dim)`` float64."""
        if self.frequency is not None:
            return turns(t.unsqueeze(-1), self.frequency.double() / (2 * math.pi))
        multiples = torch.arange(1, self.embed_dim + 1, dtype=torch.float64, device=t.device)
        return turns(cycle_turns(t, self.period).unsqueeze(-1), multiples)

    def forward(self, t: Tensor | float) -> Tensor:
        """The trend and the waves."""
        t = as_numbers(t, "t", self.phase.device)
        wide = torch.promote_types(self.dtype, torch.float32)
        waves = torch.sin(radians(self.turns(t)).to(wide) + self.phase)
        terms = torch.cat((widened(t).unsqueeze(-1).to(wide), waves), -1)
        fixed = self.embed_dim + 1 - len(self.amplitude)
        amplitude, bias = F.pad(self.amplitude, (0, fixed), value=1.0), F.pad(self.bias, (0, fixed))
        return (terms * amplitude + bias).to(self.dtype)

    def extra_repr(self) -> str:
        """Arguments."""
        learnable, amplitudes = self.frequency is not None, len(self.amplitude) > 1
        return f"{self.embed_dim}, learnable={learnable}, period={self.period:g}, amplitudes={amplitudes}"
