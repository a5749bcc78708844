"""The network behind learned Fourier features: the features, and a linear head."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed.batch import TableBatch
from tabembed.functional.phase import RADIAN
from tabembed.nn.learned_fourier import LearnedFourierFeatures
from tabembed.training.network import Network


class FourierNetwork(Network):
    """Predict a target linearly from learned Fourier features of the numbers.

    Args:
        features: the features; trained in place.
        n_outputs: width of the prediction.

    Shape:
        - forward: the tensors of a batch to ``(n_rows, n_outputs)``
    """

    def __init__(self, features: LearnedFourierFeatures, n_outputs: int) -> None:
        super().__init__()
        self.features = features
        # Zeros start every training from the same prediction, whatever the first draw.
        self.weight = nn.Parameter(torch.zeros(n_outputs, features.out_features))
        self.bias = nn.Parameter(torch.zeros(n_outputs))

    def forward(self, **tensors: Any) -> Tensor:
        """Predict the target of every row."""
        return F.linear(self.features(tensors["values"]), self.weight, self.bias)

    def param_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """Parameter groups for an optimiser; only matrices decay.

        Frequencies count turns and step as if they counted radians, or a step would be six times as
        long as that of any other weight.
        """
        groups: dict[str, list[nn.Parameter]] = {"frequencies": [], "weight": [], "bias": []}
        for path, parameter in self.named_parameters():
            groups[path.rpartition(".")[2].partition("_")[0]].append(parameter)
        return [
            {"params": groups["frequencies"], "lr": learning_rate * RADIAN, "weight_decay": 0.0},
            {"params": groups["weight"], "lr": learning_rate, "weight_decay": weight_decay},
            {"params": groups["bias"], "lr": learning_rate, "weight_decay": 0.0},
        ]


@torch.no_grad()
def fourier_vectors(network: FourierNetwork, batch: TableBatch) -> np.ndarray:
    """What the features make of rows, in float64: a row's vector does not depend on the rows beside it.

    Shape:
        - output: ``(n_rows, out_features)``
    """
    features = copy.deepcopy(network.features).cpu().double()
    return features(batch.values.cpu().double()).numpy()


@torch.no_grad()
def unscaled(
    features: LearnedFourierFeatures, centre: np.ndarray, scale: np.ndarray
) -> LearnedFourierFeatures:
    """The features of ``x`` that are those of ``(x − centre) / scale``.

    ``2π (x − c) F / s`` is ``2π x F'`` less an angle, and a cosine or sine of a difference is made of
    both of the first: the angles go into the first matrix behind the features.

    Args:
        features: features of the scaled numbers; left as they are.
        centre: what is subtracted.
        scale: what is divided by.

    Shape:
        - centre, scale: ``(in_features,)``

    >>> features, x = LearnedFourierFeatures(2, 3, seed=0), torch.tensor([[5.0, 7.0]])
    >>> moved = unscaled(features, np.array([4.0, 6.0]), np.array([2.0, 4.0]))
    >>> torch.allclose(moved(x), features(torch.tensor([[0.5, 0.25]])), atol=1e-5)
    True
    """
    moved = copy.deepcopy(features)
    moved.frequencies.copy_(features.frequencies.double() / torch.from_numpy(scale)[:, None])
    # Of the frequencies as they were rounded, so that both sides of the difference are the same.
    angle = 2 * torch.pi * (torch.from_numpy(centre) @ moved.frequencies.double()).remainder(1)
    weight = moved.weight if moved.weight_hidden is None else moved.weight_hidden
    of_cos, of_sin = weight.double().chunk(2, dim=1)
    turned = (of_cos * angle.cos() - of_sin * angle.sin(), of_cos * angle.sin() + of_sin * angle.cos())
    weight.copy_(torch.cat(turned, dim=1))
    return moved
