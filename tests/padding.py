"""Three rows, padded on one side or not at all, for tests."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def rows(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


PADDED = {"none": (0, 0), "left": (2, 0), "right": (0, 2)}


def padded(real, form, fill=0.0):
    return F.pad(real, (0, 0, *PADDED[form]), value=fill)


def mask_of(form):
    before, after = PADDED[form]
    return torch.tensor([[False] * before + [True] * 3 + [False] * after])


def real_rows(out, form):
    return out[..., PADDED[form][0] :, :][..., :3, :]
