"""Embedding of a diffusion timestep: features, then a small network."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tabembed._checks import check_choice, check_integer, check_seed
from tabembed.nn.draws import generator_of, normal_, orthogonal_, split_seed, undrawn_linear, uniform_
from tabembed.nn.gaussian_fourier import GaussianFourierProjection
from tabembed.nn.timestep import PRESETS, TimestepFeatures, check_features
from tabembed.nn.timestep_input import check_steps

Drawing = Callable[[nn.Linear, torch.Generator | None], None]


def _torch(layer: nn.Linear, generator: torch.Generator | None) -> None:
    uniform_(layer.weight, layer.in_features**-0.5, generator)
    uniform_(layer.bias, layer.in_features**-0.5, generator)


def _dit(layer: nn.Linear, generator: torch.Generator | None) -> None:
    normal_(layer.weight, 0.02, generator)
    nn.init.zeros_(layer.bias)


def _score_sde(layer: nn.Linear, generator: torch.Generator | None) -> None:
    uniform_(layer.weight, (6 / (layer.in_features + layer.out_features)) ** 0.5, generator)
    nn.init.zeros_(layer.bias)


def _k_diffusion(layer: nn.Linear, generator: torch.Generator | None) -> None:
    orthogonal_(layer.weight, generator)
    uniform_(layer.bias, layer.in_features**-0.5, generator)


_INITS: dict[str, Drawing] = {
    "torch": _torch,
    "dit": _dit,
    "score_sde": _score_sde,
    "k_diffusion": _k_diffusion,
}
_PRESETS: dict[
    str, tuple[Callable[[int], int], str]
] = {  # width of the features from that of the output, init
    "diffusers": (lambda out: out // 4, "torch"),
    "ddpm": (lambda out: out // 4, "score_sde"),
    "dit": (lambda out: 256, "dit"),
    "edm": (lambda out: out // 4, "score_sde"),
    "score_sde": (lambda out: out // 4, "score_sde"),
    "tabddpm": (lambda out: out, "torch"),
    "k_diffusion": (lambda out: out, "k_diffusion"),
}


class TimestepEmbedding(nn.Module):
    """Features of a time, then Linear, SiLU, Linear.

    Args:
        features: ``TimestepFeatures`` or ``GaussianFourierProjection``. Time is scaled there and
            nowhere else.
        out_features: width of the output.
        hidden_features: width in between; ``None`` takes ``out_features``.
        init: first weights. ``"torch"``: as any ``nn.Linear``; ``"dit"``: N(0, 0.02²), zero biases;
            ``"score_sde"``: U(±√(6 / (in + out))), zero biases (DDPM and EDM too);
            ``"k_diffusion"``: orthogonal, biases as any ``nn.Linear``.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - t: ``(*)``, integers or floats of any width, or a number; a column ``(B, 1)`` counts as ``(B,)``
        - output: ``(*, out_features)``, in the dtype of the weights; inside autocast in that of its layers

    Raises: ValueError for a half-precision ``t`` above 256 (see ``check_steps``).
    Source: Ho et al. 2020, arXiv:2006.11239, appendix B; Peebles & Xie 2023, arXiv:2212.09748 (DiT).

    >>> embedding = TimestepEmbedding(TimestepFeatures(64, scale=1000), 128, seed=0)
    >>> embedding(torch.rand(5)).shape
    torch.Size([5, 128])
    """

    def __init__(
        self,
        features: TimestepFeatures | GaussianFourierProjection,
        out_features: int,
        *,
        hidden_features: int | None = None,
        init: str = "torch",
        seed: int | None = None,
    ) -> None:
        hidden_features = out_features if hidden_features is None else hidden_features
        check_integer(out_features=out_features, hidden_features=hidden_features)
        check_seed(seed)
        check_features(features)
        check_choice(_INITS, init=init)
        super().__init__()
        self.out_features, self.hidden_features = out_features, hidden_features
        self.init, self.seed, self.features = init, seed, features
        first = undrawn_linear(features.out_features, hidden_features)
        self.mlp = nn.Sequential(first, nn.SiLU(), undrawn_linear(hidden_features, out_features))
        self._draw()

    @classmethod
    def from_preset(cls, name: str, out_features: int, *, seed: int | None = None) -> TimestepEmbedding:
        """The time embedding of a published model: its features, widths and first weights.

        Args:
            name: see ``TimestepFeatures.from_preset``, also for what to pass as ``t``. The width of the
                features is a quarter of ``out_features`` for ``"diffusers"``, ``"ddpm"``, ``"edm"`` and
                ``"score_sde"``, 256 for ``"dit"``, the same for ``"tabddpm"`` and ``"k_diffusion"``.
            out_features: width of the output and in between.
            seed: seed of the first weights, also of a Gaussian projection's frequencies.

        NOTE: EDM applies a SiLU to the result, too, and k-diffusion has GELU in both places.

        Raises: ValueError for an unknown name, or a width that the model cannot have.
        """
        check_integer(out_features=out_features)
        check_seed(seed)
        check_choice(PRESETS, name=name)
        width, init = _PRESETS[name]
        if width(4) == 1 and out_features % 4:
            raise ValueError(f"out_features must be a multiple of 4 for {name!r}, got {out_features}")
        of_features, of_weights = split_seed(seed, 2)
        features = TimestepFeatures.from_preset(name, width(out_features), seed=of_features)
        return cls(features, out_features, init=init, seed=of_weights)

    def reset_parameters(self) -> None:
        """Draw every weight anew, the projection's frequencies too."""
        if isinstance(self.features, GaussianFourierProjection):
            self.features.reset_parameters()
        self._draw()

    def _draw(self) -> None:
        generator = generator_of(self.seed)
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                _INITS[self.init](layer, generator)

    def forward(self, t: Tensor | float) -> Tensor:
        """Embeddings of the times."""
        check_steps(t)
        return self.mlp(self.features(t))

    def extra_repr(self) -> str:
        """Sizes and init."""
        return f"{self.out_features}, hidden_features={self.hidden_features}, init={self.init}"
