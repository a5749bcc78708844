from __future__ import annotations

from fractions import Fraction

import pytest
import reference
import torch

from tabembed.functional.exact_phase import in_turns
from tabembed.kernels.phase_plain import single, turns

FREQUENCIES = [1.0, 0.37, 1e-3, 1e-12, 0.0, -0.8]
TURNS = in_turns(torch.tensor(FREQUENCIES, dtype=torch.float64))
PHASES = torch.tensor([0.0, 0.25, -0.4, 0.75, 0.5, 3.125], dtype=torch.float64)


def whole(position: float, frequency: float, phase: float) -> Fraction:
    return Fraction(position) * Fraction(frequency) / reference.TURN + Fraction(phase)


@pytest.mark.parametrize(
    ("positions", "once"),
    [
        ([0, 1, -5, 6_000_000], True),
        ([7, -7_000_000], False),
        ([2**63 - 1, -(2**63), 3], False),
        ([0.1, -1e6 - 0.3], True),
        ([1e7 + 0.1, 2.0**62, -123456789.123], False),
    ],
)
def test_right_to_a_billionth_of_a_turn_either_way(positions, once):
    kind = torch.int64 if isinstance(positions[0], int) else torch.float64
    column = torch.tensor(positions, dtype=kind).unsqueeze(-1)
    sums = single(column, TURNS)
    assert (sums is not None) == once
    got = turns(column, TURNS, PHASES, sums)
    assert got.abs().max() <= 0.5
    for p, row in zip(positions, got.tolist(), strict=True):
        for f, phase, turned in zip(FREQUENCIES, PHASES.tolist(), row, strict=True):
            off = Fraction(turned) - whole(p, f, phase)
            assert abs(off - round(off)) <= 1e-9


def test_what_is_no_number_stays_none():
    column = torch.tensor([[torch.nan], [torch.inf], [1.0]], dtype=torch.float64)
    got = turns(column, TURNS[:, :4], PHASES[:4], single(column, TURNS[:, :4]))
    assert got[:2].isnan().all()
    assert not got[2].isnan().any()
