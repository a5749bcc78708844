"""The denoiser: a plain residual network whose layers are told the step and the label by FiLM."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabembed.nn import FiLM, GaussianFourierProjection, TimestepEmbedding, TimestepFeatures, calibrate

EMBEDDINGS = ["none", "naive", "calibrated", "Gaussian"]


def time_embedding(kind: str, n_steps: int, width: int, seed: int) -> TimestepEmbedding | None:
    """What tells the network the time, as a fraction of all steps in [0, 1)."""
    features = TimestepFeatures(2 * width)  # as they are, made for whole numbers up to a thousand
    if kind == "calibrated":
        features = calibrate(features, (0, 1), steps=n_steps)
    if kind == "Gaussian":
        features = GaussianFourierProjection(2 * width, seed=seed)
    return None if kind == "none" else TimestepEmbedding(features, width, seed=seed)


class Denoiser(nn.Module):
    """Guess the noise of the numbers and the clean categories of noisy rows.

    Args:
        n_numbers: number of numeric columns.
        sizes: number of codes of each categorical column.
        time: module from times ``(n_rows,)`` in [0, 1) to ``(n_rows, condition)``; ``None`` leaves
            the network to see by itself how noisy a row is.
        n_steps: number of steps of the diffusion.
        width: width of the hidden layers.
        condition: width of the vectors of time and label.
        depth: number of hidden layers.
    """

    def __init__(
        self,
        n_numbers: int,
        sizes: list[int],
        *,
        time: nn.Module | None,
        n_steps: int,
        width: int = 256,
        condition: int = 64,
        depth: int = 3,
    ) -> None:
        super().__init__()
        self.n_numbers, self.n_steps = n_numbers, n_steps
        self.time, self.label = time, nn.Embedding(2, condition)
        self.enter = nn.Linear(n_numbers + sum(sizes), width)
        self.films = nn.ModuleList(FiLM(condition, width) for _ in range(depth))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, n_numbers + sum(sizes))

    def forward(self, numbers: Tensor, log_codes: Tensor, t: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Noise of the numbers, logits of the categories.

        NOTE[DIFF] TabDDPM feeds the logarithms of the one-hot codes, here it is the codes themselves.
        """
        condition = self.label(label)
        if self.time is not None:
            condition = condition + self.time(t / self.n_steps)
        x = self.enter(torch.cat([numbers, log_codes.exp()], -1))
        for film, layer in zip(self.films, self.layers, strict=True):
            x = x + layer(nn.functional.silu(film(x, condition)))
        out = self.leave(nn.functional.silu(x))
        return out[:, : self.n_numbers], out[:, self.n_numbers :]
