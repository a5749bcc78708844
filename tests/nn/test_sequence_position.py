"""Schemes by name, laid from the gaps."""

from __future__ import annotations

import math

import torch
from torch.testing import assert_close

from tabembed.nn.sequence_layout import layout_of
from tabembed.nn.sequence_position import LearnedOffsets, SequencePosition
from tabembed.nn.time_scale import TimeScale

CLOCK = TimeScale(True, 10.0, 40.0, 5000.0)


def scheme(name, clock=CLOCK, causal=True):
    return SequencePosition(name, clock, d_model=32, n_heads=2, causal=causal, seed=0)


def test_waves_half_lives_and_slopes_follow_the_clock():
    periods = 2 * math.pi / scheme("rotary").rotary.frequencies
    assert len(periods) == 8
    assert_close(periods[[0, -1]], torch.tensor([20.0, 15_000.0], dtype=torch.float64))
    periods = 2 * math.pi / scheme("sinusoidal").added.waves.frequencies
    assert len(periods) == 16
    assert_close(periods[[0, -1]], torch.tensor([20.0, 15_000.0], dtype=torch.float64))
    lives = scheme("decay").rotary.half_lives
    assert_close(lives[[0, 7]], torch.tensor([160.0, 5000.0], dtype=torch.float64))
    assert scheme("decay", TimeScale(True, 1.0, 1.0, 2.0)).rotary.half_lives.unique().tolist() == [4.0]
    assert (scheme("alibi").bias.unit, scheme("alibi").bias.mode) == (40.0, "causal")
    assert scheme("alibi", causal=False).bias.mode == "symmetric"
    assert (scheme(None).rotary, scheme(None).bias, scheme(None).added) == (None, None, None)


def test_rows_of_a_table_by_elapsed_time():
    offsets = LearnedOffsets(CLOCK, 4, seed=0)
    passed = torch.tensor([0.0, 9.99, 10.0, 4999.0, 5001.0, 1e12], dtype=torch.float64)
    assert offsets.places(passed).tolist() == [0, 0, 1, 62, 63, 63]
    ratio = 500 ** (1 / 62)
    middle = 10.0 * ratio ** (torch.arange(62, dtype=torch.float64) + 0.5)
    assert offsets.places(middle).tolist() == list(range(1, 63))
    x = torch.zeros(1, 6, 4)
    assert_close(offsets(x, positions=passed[None])[0], offsets.table.weight[[0, 0, 1, 62, 63, 63]])


def test_rows_of_a_table_by_number():
    offsets = LearnedOffsets(TimeScale(False, 1.0, 1.0, 3.0), 4, seed=0)
    assert offsets.table.num_positions == 4
    positions = torch.arange(6)[None]
    assert_close(
        offsets(torch.zeros(1, 6, 4), positions=positions)[0], offsets.table.weight[[0, 1, 2, 3, 3, 3]]
    )


def test_what_is_added_counts_from_the_first_row():
    tokens = torch.zeros(1, 3, 32)
    for name in ("sinusoidal", "learned"):
        out = scheme(name)(tokens, layout_of(torch.tensor([[0, 50, 900]])))
        assert_close(scheme(name)(tokens, layout_of(torch.tensor([[0, 50, 900]]) + 2**61)), out)
        assert len({tuple(row) for row in out[0].tolist()}) == 3
    for name in ("rotary", "alibi", "decay", None):
        assert scheme(name)(tokens, layout_of(torch.tensor([[0, 50, 900]]))) is tokens
