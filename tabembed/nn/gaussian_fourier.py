"""Sines and cosines of a number at random frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tabembed._checks import (
    check_bool,
    check_choice,
    check_columns,
    check_integer,
    check_scale,
    check_seed,
    is_concrete,
)
from tabembed.functional.phase import ORDERS, RADIAN, angles, cos_sin, widened
from tabembed.nn.draws import generator_of, normal_, split_seed
from tabembed.nn.per_column import PerColumn
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.nn.timestep_input import as_times
from tabembed.schema import ContinuousColumn

_PRESETS: dict[str, tuple[str, float, bool]] = {  # order of the halves, scale, log
    "score_sde": ("sin_cos", 16.0, False),
    "diffusers": ("sin_cos", 16.0, True),
    "stable_audio": ("cos_sin", 1.0, False),
    "edm": ("sin_cos", 16.0, False),
    "k_diffusion": ("cos_sin", 1.0, False),
    "torchembed": ("sin_cos", 16.0, False),
}


class GaussianFourierProjection(WideModule):
    """Map a number to ``sin(2π · t · W)`` and ``cos(2π · t · W)`` with ``W ~ N(0, scale²)``.

    Two numbers ``Δ`` apart look alike as ``exp(−2 (π · scale · Δ)²)``: at scale 16 nothing is left of
    that 0.03 apart, which suits a time or a noise level in [0, 1] and makes noise of steps up to
    1,000 or of a standardised column (``from_columns`` takes a smaller scale).

    float64 and integers are multiplied exactly and lose their whole turns before they are rounded:
    right to 1e-6 up to 2·10⁹. float32 is multiplied in float32, bit by bit as the peers do it, so it
    is right to about 2e-6 · scale · \\|t\\|.

    Args:
        embed_dim: width of the output, sines and cosines together, so it is even.
        scale: standard deviation of the first frequencies, in turns per unit of ``t``.
        log: take ``ln t`` first, for noise levels over many magnitudes.
        epsilon: with ``log``, numbers below this count as this; ``None`` refuses ``t ≤ 0``.
        learnable: frequencies are a parameter rather than a buffer.
        order: which half comes first, ``"sin_cos"`` or ``"cos_sin"``.
        seed: seed of the frequencies; ``None`` draws from torch's global generator.

    Shape:
        - t: ``(*)``, integers or floats of any width, or a number. A column ``(B, 1)`` counts as
          ``(B,)``; every other shape is taken as it is: ``(B, 7)`` gives ``(B, 7, embed_dim)``.
          Phases that the precision cannot hold give NaN: 3e38 in float32, 1e300 in float64
        - output: ``(*, embed_dim)``, in the module's dtype; the same inside autocast

    Raises: ValueError for ``t ≤ 0`` with ``log`` and no ``epsilon``, as far as that can be seen without
        waiting for a device (elsewhere it gives NaN).

    Source: Tancik et al. 2020, arXiv:2006.10739, equation 5; Song et al. 2021, arXiv:2011.13456.
    NOTE: score_sde and diffusers count half of the width; kernel features (``RandomFourierFeatures``)
    count frequencies in radians.

    >>> projection = GaussianFourierProjection(8)
    >>> projection(torch.tensor([0.0, 0.5])).shape, projection(0.25).shape
    (torch.Size([2, 8]), torch.Size([8]))
    """

    wide = ("frequencies",)
    frequencies: Tensor

    def __init__(
        self,
        embed_dim: int,
        *,
        scale: float = 16.0,
        log: bool = False,
        epsilon: float | None = None,
        learnable: bool = False,
        order: str = "sin_cos",
        seed: int | None = None,
    ) -> None:
        check_integer(2, embed_dim=embed_dim)
        check_seed(seed)
        check_projection(scale, log, epsilon, order)
        check_bool(learnable=learnable)
        if embed_dim % 2:
            raise ValueError(f"embed_dim must be even, got {embed_dim}")
        super().__init__()
        self.embed_dim, self.scale, self.log, self.epsilon = embed_dim, float(scale), log, epsilon
        self.learnable, self.order, self.seed = learnable, order, seed
        frequencies = torch.empty(embed_dim // 2, dtype=wide_dtype())
        if learnable:
            self.frequencies = nn.Parameter(frequencies)
        else:
            self.register_buffer("frequencies", frequencies)
        self.reset_parameters()

    @classmethod
    def from_preset(
        cls,
        name: str,
        embed_dim: int,
        *,
        scale: float | None = None,
        learnable: bool = False,
        seed: int | None = None,
    ) -> GaussianFourierProjection:
        """The projection that a published model reads its noise level through.

        Args:
            name: one of these; in brackets what its callers pass as ``t``.

                - ``"score_sde"``: NCSN++ (ln σ), equal bit by bit given the same frequencies
                - ``"diffusers"``: ``UNet2DModel`` with ``"fourier"`` (σ, of which it takes the
                  logarithm), equal bit by bit. NOTE[DIFF]: σ ≤ 0 is an error where that gives NaN
                - ``"stable_audio"``: Stable Audio in diffusers, cosine first (t in [0, 1])
                - ``"edm"``: EDM's NCSN++ (ln(σ) / 4). EDM draws cosines first and then swaps the
                  halves; this is the order that its network gets
                - ``"k_diffusion"``: k-diffusion, cosine first (ln(σ) / 4)
                - ``"torchembed"``: torchembed (t in [0, 1])
            embed_dim: width of the output; score_sde and diffusers call half of it ``embedding_size``.
            scale: ``None`` is the model's own: 1 for Stable Audio and k-diffusion, 16 for the others.
            learnable: frequencies are a parameter; no published model learns them.
            seed: seed of the frequencies.

        Raises: ValueError for an unknown name.

        >>> GaussianFourierProjection.from_preset("k_diffusion", 6)
        GaussianFourierProjection(6, scale=1, log=False, order=cos_sin)
        """
        check_choice(_PRESETS, name=name)
        order, own_scale, log = _PRESETS[name]
        scale = own_scale if scale is None else scale
        return cls(embed_dim, scale=scale, log=log, learnable=learnable, order=order, seed=seed)

    @classmethod
    def from_columns(
        cls,
        columns: Sequence[ContinuousColumn],
        d_embedding: int = 16,
        *,
        scale: float = RADIAN,
        learnable: bool = False,
        seed: int | None = None,
    ) -> PerColumn:
        """One for each of these columns of a schema, with frequencies of its own.

        The columns are scaled to a spread of about 1, so the default scale is one radian per unit
        (0.16 turns): numbers one spread apart still look alike (0.6). At the 16 of diffusion times they
        would have to agree to a hundredth of the spread, and a network would see noise.

        Args:
            columns: columns of a schema.
            d_embedding: width of a vector, even.
            scale: standard deviation of the frequencies, in turns per unit of the scaled column.
            learnable: frequencies are trained.
            seed: seed of the frequencies and of the missing rows.
        """
        check_columns(columns, ContinuousColumn)
        seeds = split_seed(seed, len(columns) + 1)
        make = [cls(d_embedding, scale=scale, learnable=learnable, seed=own) for own in seeds[1:]]
        return PerColumn(make, d_embedding, seed=seeds[0])

    @property
    def out_features(self) -> int:
        """Width of the output."""
        return self.embed_dim

    def reset_parameters(self) -> None:
        """Draw the frequencies anew from N(0, scale²)."""
        normal_(self.frequencies, self.scale, generator_of(self.seed))

    def forward(self, t: Tensor | float) -> Tensor:
        """Features of the numbers."""
        t = widened(as_times(t, self.frequencies.device))
        t = (self._log(t) if self.log else t).unsqueeze(-1)
        if t.dtype == torch.float64:
            angle = angles(t, self.frequencies)
        else:
            angle = t * self.frequencies * (2 * math.pi)  # no other order of these is the peers' bit by bit
        return cos_sin(angle, self.order).to(self.dtype)

    def _log(self, t: Tensor) -> Tensor:
        if self.epsilon is not None:
            return t.clamp(min=self.epsilon).log()
        if is_concrete(t) and t.numel() and (smallest := t.detach().min().item()) <= 0:
            raise ValueError(f"t must be above 0 when log=True and epsilon=None, got {smallest:g}")
        return t.log()

    def extra_repr(self) -> str:
        """Arguments."""
        epsilon = "" if self.epsilon is None else f", epsilon={self.epsilon:g}"
        learnable = ", learnable=True" if self.learnable else ""
        return (
            f"{self.embed_dim}, scale={self.scale:g}, log={self.log}{epsilon}{learnable}, order={self.order}"
        )


def check_projection(scale: float, log: bool, epsilon: float | None, order: str) -> None:
    """Check what a projection and its scikit-learn skin have in common."""
    check_scale(scale=scale)
    check_bool(log=log)
    if epsilon is not None:
        check_scale(epsilon=epsilon)
        if not log:
            raise ValueError(f"epsilon must be None when log=False, got {epsilon}")
    check_choice(ORDERS, order=order)
