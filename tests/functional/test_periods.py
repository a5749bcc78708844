from __future__ import annotations

import math

import numpy as np
import pytest

from tabembed.functional.periods import frequencies_from_periods


def test_periods_are_geometric_between_the_ends():
    periods = [2 * math.pi / f for f in frequencies_from_periods(3, 3 * 4**6, 7)]
    assert periods == pytest.approx([3 * 4**i for i in range(7)], rel=1e-13)


def test_one_wave_and_equal_ends():
    assert frequencies_from_periods(5, 50, 1) == [2 * math.pi / 5]
    assert frequencies_from_periods(5, 5, 3) == [2 * math.pi / 5] * 3


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="^longest must be at least shortest, 7, got 6.5$"):
        frequencies_from_periods(7, 6.5, 3)
    with pytest.raises(ValueError, match="^shortest must be finite and positive, got 0$"):
        frequencies_from_periods(0, 1, 3)
    with pytest.raises(ValueError, match="^longest must be from 1e-30 to 1e\\+30, got 1e\\+31$"):
        frequencies_from_periods(1, 1e31, 3)
    with pytest.raises(ValueError, match="^n must be at least 1, got 0$"):
        frequencies_from_periods(1, 2, 0)


def test_numpys_numbers_are_pythons():
    assert frequencies_from_periods(np.float32(1), np.int8(2), np.int64(3)) == frequencies_from_periods(
        1, 2, 3
    )
    assert {type(f) for f in frequencies_from_periods(np.float32(1), np.float32(2), 3)} == {float}
