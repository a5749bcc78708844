"""Features of a diffusion timestep."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tabembed._checks import check_choice, check_integer, check_real, check_scale
from tabembed.functional.phase import ORDERS
from tabembed.functional.sinusoid import sinusoid
from tabembed.nn.gaussian_fourier import GaussianFourierProjection
from tabembed.nn.precision import WideModule
from tabembed.nn.timestep_input import as_times, check_steps

_SINUSOIDS: dict[str, tuple[str, float]] = {  # order of the halves, freq_shift
    "diffusers": ("cos_sin", 0.0),
    "ddpm": ("sin_cos", 1.0),
    "dit": ("cos_sin", 0.0),
    "edm": ("sin_cos", 1.0),
    "score_sde": ("sin_cos", 1.0),
    "tabddpm": ("cos_sin", 0.0),
}
PRECISIONS = ("fp32", "exact")
PRESETS = (*_SINUSOIDS, "k_diffusion")


class TimestepFeatures(WideModule):
    """Cosines and sines of a time at frequencies from 1 down to ``1 / max_period``.

    Frequency ``i`` is ``max_period^(−i / (half − freq_shift))`` radians per unit of ``scale · t``,
    ``half = dim // 2``. The steps 0 to 999 of a diffusion model fit as they are; a continuous time in
    [0, 1] needs ``scale=1000``, or its features hardly move (``coverage`` tells, ``calibrate`` chooses).
    This is the one place where time is scaled: pass the same ``t`` to every module.

    Args:
        dim: width of the features; an odd one ends in a zero.
        order: which half comes first, ``"cos_sin"`` or ``"sin_cos"``.
        freq_shift: 0, or 1 to end exactly at ``1 / max_period``.
        scale: what ``t`` is multiplied by.
        max_period: longest period, in units of 2π / scale.
        precision: ``"fp32"`` computes as the peers do, bit by bit, in float32 (float64 after
            ``.double()``); ``"exact"`` multiplies in float64 and takes whole turns off first: right to
            1e-6 for float64 and integers with ``|scale · t|`` up to 2·10⁹, where float32 is off by
            whole turns.

    Shape:
        - t: ``(*)``, integers or floats of any width, or a number; a column ``(B, 1)`` counts as ``(B,)``.
          Phases that the precision cannot hold give NaN: 3e38 in float32, 1e300 in float64
        - output: ``(*, dim)``, in the module's dtype; the same inside autocast

    Raises: ValueError for a half-precision ``t`` above 256 (see ``check_steps``).

    Source: Ho et al. 2020, arXiv:2006.11239, appendix B; Vaswani et al. 2017, arXiv:1706.03762, 3.5.

    >>> TimestepFeatures(4, scale=1000)(torch.tensor([0.0, 0.001]))
    tensor([[1.0000, 1.0000, 0.0000, 0.0000],
            [0.5403, 0.9999, 0.8415, 0.0100]])
    """

    def __init__(
        self,
        dim: int,
        *,
        order: str = "cos_sin",
        freq_shift: float = 0.0,
        scale: float = 1.0,
        max_period: float = 10_000.0,
        precision: str = "fp32",
    ) -> None:
        check_integer(2, dim=dim)
        check_choice(ORDERS, order=order)
        check_real(0.0, freq_shift=freq_shift)
        check_scale(scale=scale)
        check_real(1.0, max_period=max_period)
        check_choice(PRECISIONS, precision=precision)
        if freq_shift >= dim // 2:
            raise ValueError(f"freq_shift must be below dim // 2 = {dim // 2}, got {freq_shift}")
        super().__init__()
        self.dim, self.order, self.freq_shift, self.scale = dim, order, float(freq_shift), float(scale)
        self.max_period, self.precision = float(max_period), precision
        self._ladder: dict[str, Any] = {
            "order": order,
            "freq_shift": self.freq_shift,
            "scale": self.scale,
            "max_period": self.max_period,
            "exact": precision == "exact",
        }

    @classmethod
    def from_preset(
        cls, name: str, dim: int, *, seed: int | None = None
    ) -> TimestepFeatures | GaussianFourierProjection:
        """What a published model feeds its time through; k-diffusion's is a Gaussian projection.

        Args:
            name: one of these; in brackets what its callers pass as ``t``.

                - ``"diffusers"``: ``Timesteps(dim, True, 0)`` of Stable Diffusion, Flux (steps 0 to 999)
                - ``"ddpm"``: sine first, ends at 1 / 10,000 (steps 0 to 999)
                - ``"dit"``: DiT, ADM, GLIDE (steps 0 to 999; SiT and flow models with t in [0, 1]:
                  1000 · t)
                - ``"edm"``: DDPM++ as in EDM's SongUNet (ln(σ) / 4, over which this hardly moves)
                - ``"score_sde"``: DDPM++ of score_sde (999 · t, t in [0, 1])
                - ``"k_diffusion"``: ``GaussianFourierProjection.from_preset("k_diffusion", dim)``
                  (ln(σ) / 4)
                - ``"tabddpm"``: TabDDPM, dim 128 there (steps 0 to T − 1)
            dim: width of the features. NOTE: EDM rounds an odd one down; here it ends in a zero.
            seed: seed of k-diffusion's frequencies; a sinusoid draws nothing.

        Raises: ValueError for an unknown name.

        >>> TimestepFeatures.from_preset("ddpm", 128)
        TimestepFeatures(128, order=sin_cos, freq_shift=1, scale=1, max_period=10000, precision=fp32)
        """
        check_choice(PRESETS, name=name)
        if name == "k_diffusion":
            return GaussianFourierProjection.from_preset("k_diffusion", dim, seed=seed)
        order, freq_shift = _SINUSOIDS[name]
        return cls(dim, order=order, freq_shift=freq_shift)

    @property
    def out_features(self) -> int:
        """Width of the output."""
        return self.dim

    def forward(self, t: Tensor | float) -> Tensor:
        """Features of the times."""
        follows = self._follows_dtype
        check_steps(t, self.scale)
        times = as_times(t, follows.device)
        wide = torch.float64 if follows.dtype == torch.float64 else torch.float32
        return sinusoid(times, self.dim, **self._ladder, dtype=wide).to(follows.dtype)

    def extra_repr(self) -> str:
        """Arguments."""
        return (
            f"{self.dim}, order={self.order}, freq_shift={self.freq_shift:g}, scale={self.scale:g}, "
            f"max_period={self.max_period:g}, precision={self.precision}"
        )


def check_features(features: object) -> None:
    """Something gives features of a time.

    Raises: TypeError for anything else.
    """
    if not isinstance(features, TimestepFeatures | GaussianFourierProjection):
        kinds = "TimestepFeatures or a GaussianFourierProjection"
        raise TypeError(f"features must be {kinds}, got {type(features).__name__}")
