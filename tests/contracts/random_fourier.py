"""Cases of the random features of kernels."""

from __future__ import annotations

from typing import Any

import reference
import torch
from torch import Tensor

from contracts.case import Case, by_row, drawn
from tabembed.nn import RandomFourierFeatures


def rows(leading: tuple[int, ...], n: int) -> tuple[Tensor]:
    return (torch.randn(*leading, n, generator=drawn(3), dtype=torch.float64).float(),)


def expect(m: Any, inputs: tuple[Any, ...]) -> Tensor:
    W, offsets = m.frequencies.tolist(), None if m.offsets is None else m.offsets.tolist()
    scales = m.lengthscale.expand(m.in_features).tolist()
    return by_row(
        lambda x: reference.random_features(x, W, scales, m.features, offsets, m.out_features),
        inputs[0].shape[:-1],
        inputs[0],
    )


CASES = [
    Case(
        "RandomFourierFeatures",
        lambda seed: RandomFourierFeatures(3, 10, lengthscale=1.5, seed=seed),
        lambda leading: rows(leading, 3),
        expect,
    ),
    Case(
        "RandomFourierFeatures-cos-frequencies",
        lambda seed: RandomFourierFeatures(
            2, 7, kernel="matern52", features="cos", trainable="frequencies", seed=seed
        ),
        lambda leading: rows(leading, 2),
        expect,
    ),
    Case(
        "RandomFourierFeatures-lengthscale",
        lambda seed: RandomFourierFeatures(
            3, 8, lengthscale=[0.5, 1.0, 2.0], sampler="sobol", trainable="lengthscale", seed=seed
        ),
        lambda leading: rows(leading, 3),
        expect,
    ),
]
