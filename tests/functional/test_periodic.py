from __future__ import annotations

import math

import torch
from torch.testing import assert_close

from tabembed.functional.periodic import periodic_code, shifted_code

C = torch.tensor([[0.25, 1.5, -3.0], [0.0, 7.0, 0.125]])
PHI = torch.tensor([[0.0, 1.0, -3.0], [2.0, 0.5, math.pi]])


def test_cosines_first_then_sines_column_by_column():
    x = torch.tensor([[0.3, -1.7], [2.0, 0.01]])
    code, shifted = periodic_code(x, C), shifted_code(x, C, PHI)
    for row in range(2):
        for j in range(2):
            for k in range(3):
                angle = 2 * math.pi * C[j, k].item() * x[row, j].item()
                expected = [math.cos(angle), math.sin(angle), math.cos(angle + PHI[j, k].item())]
                found = [code[row, j, k], code[row, j, k + 3], shifted[row, j, k]]
                assert_close(torch.stack(found), torch.tensor(expected), rtol=0, atol=1e-5)


def test_large_float64_numbers_keep_their_phase():
    x = torch.tensor([1e9 + 0.25], dtype=torch.float64)
    assert_close(periodic_code(x, torch.tensor([[3.0]])), torch.tensor([[0.0, -1.0]]), rtol=0, atol=1e-6)
    assert_close(shifted_code(x, torch.tensor([[3.0]]), torch.tensor([[math.pi / 2]])), torch.tensor([[1.0]]))


def test_half_precision_numbers_and_integers_are_widened():
    assert periodic_code(torch.tensor([1.5, 2.0]).half(), C).dtype == torch.float32
    ints, floats = (periodic_code(torch.tensor(x), C) for x in ([4, 4], [4.0, 4.0]))
    assert_close(ints, floats, rtol=0, atol=1e-4)
