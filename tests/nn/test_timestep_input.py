from __future__ import annotations

import math

import pytest
import torch

from tabembed.nn.timestep_input import as_times, check_steps


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), ()), ((4,), (4,)), ((4, 1), (4,)), ((1, 1), (1,)), ((0, 1), (0,)), ((1, 4), (1, 4))]
    + [((2, 3, 1), (2, 3, 1))],
)
def test_only_a_column_loses_a_dimension(shape, expected):
    times = torch.arange(math.prod(shape)).view(shape)
    assert as_times(times).shape == expected
    assert torch.equal(as_times(times).flatten(), times.flatten())


def test_a_number_is_a_time_without_dimensions():
    assert as_times(999).shape == ()
    assert as_times(0.5, torch.device("meta")).is_meta
    with pytest.raises(TypeError, match="t must be a tensor or a number, got 'now'"):
        as_times("now")


HALVES = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("t", "scale"), [(-258.0, 1.0), (258.0, 0.1), (0.5, 1000.0), (0.5, -1000.0)])
def test_steps_that_rounding_may_have_lost(dtype, t, scale):
    times = torch.tensor([0.0, math.nan, t])
    check_steps(times, scale)
    check_steps(times.long() if abs(t) > 1 else t, scale)
    with pytest.raises(ValueError, match=f"got {dtype} up to {abs(t):g}: do not round times"):
        check_steps(times.to(dtype), scale)


@pytest.mark.parametrize("dtype", HALVES)
def test_steps_that_rounding_cannot_have_lost(dtype):
    check_steps(torch.tensor([256.0, -256.0, math.nan]).to(dtype))
    check_steps(torch.tensor([0.256]).to(dtype).clamp(max=0.25), 1000.0)
    check_steps(torch.empty(0, dtype=dtype))
    check_steps(torch.empty(3, dtype=dtype, device="meta"))
