"""Vectors of sequences, against loops."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tabembed.nn.pooling import pooling_of
from tabembed.nn.sequence_layout import layout_of
from tabembed.nn.time_scale import TimeScale

TIMED, COUNTED = TimeScale(True, 1.0, 4.0, 9.0), TimeScale(False, 1.0, 1.0, 9.0)
TIMES = torch.tensor([[0, 1, 5, 5, 90], [3, 3, 3, 3, 3], [0, 2, 4, 6, 8]]) + 2**61
MASK = torch.tensor([[1, 0, 1, 1, 0], [0] * 5, [1] * 5]).bool()


@pytest.mark.parametrize("clock", [TIMED, COUNTED])
@pytest.mark.parametrize("pooling", ["last", "mean", "decay"])
def test_by_loops(pooling, clock):
    module, layout = pooling_of(pooling, clock), layout_of(TIMES, MASK)
    vectors = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out = module.double()(vectors, layout)
    for i in range(3):
        rows = torch.where(MASK[i])[0].tolist()
        if not rows:
            assert out[i].tolist() == [0.0, 0.0]
            continue
        stand = [int(TIMES[i, j]) for j in rows] if clock.timed else list(range(len(rows)))
        weights = {
            "last": [float(j == rows[-1]) for j in rows],
            "mean": [1.0 for _ in rows],
            "decay": [2.0 ** (-(stand[-1] - t) / (clock.typical * clock.longest) ** 0.5) for t in stand],
        }[pooling]
        total = sum(w * vectors[i, j] for w, j in zip(weights, rows, strict=True))
        assert_close(out[i], total / sum(weights))


def test_a_longer_half_life_weighs_older_rows_more():
    module, layout = pooling_of("decay", TIMED), layout_of(torch.tensor([[0, 60]]))
    vectors = torch.tensor([[[1.0], [0.0]]])
    short = module(vectors, layout)
    assert module.half_life == 6
    with torch.no_grad():
        module.log_ratio.fill_(2.0)
    assert module(vectors, layout) > short
    module.half()
    assert module.log_ratio.dtype == torch.float32
    assert module(vectors.half(), layout).dtype == torch.float16
    module.reset_parameters()
    assert module.half_life == 6


def test_sums_of_halves_are_not_rounded_on_the_way():
    layout = layout_of(torch.zeros(1, 4096).long())
    out = pooling_of("mean", COUNTED)(torch.full((1, 4096, 1), 1.01).bfloat16(), layout)
    assert out == torch.tensor(1.01).bfloat16()


def test_words():
    assert pooling_of(None, TIMED) is None
    with pytest.raises(ValueError, match="pooling must be one of None, last, mean, decay, got 'max'"):
        pooling_of("max", TIMED)
