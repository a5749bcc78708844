from __future__ import annotations

import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.functional.position import elapsed, position, row_positions, since

FAR = 2**63 - 1
NOW = 1_700_000_000_123_456_789


def test_differences_are_those_of_whole_numbers():
    times = [FAR, -FAR, 0, NOW, NOW + 1, -1, 2**32, -(2**32)]
    for origin in (0, FAR, -FAR, NOW, 2**32 - 1, -1):
        expected = torch.tensor([float(t - origin) for t in times], dtype=torch.float64)
        assert_close(since(torch.tensor(times), torch.tensor(origin)), expected, rtol=0, atol=0)


def test_elapsed_is_a_difference_in_float64():
    assert elapsed(torch.tensor([NOW + 1]), torch.tensor(NOW)).tolist() == [1.0]
    assert elapsed(torch.tensor([FAR]), torch.tensor(-FAR)).tolist() == [2.0**64]
    seconds = torch.tensor([1.7e9 + 0.25], dtype=torch.float64, requires_grad=True)
    since_now = elapsed(seconds, torch.tensor(1.7e9, dtype=torch.float64))
    assert (since_now.item(), since_now.dtype) == (0.25, torch.float64)
    assert torch.autograd.grad(since_now.sum(), seconds)[0].item() == 1


def test_positions_by_column():
    earliest, latest = [NOW, -FAR, 5], [NOW + 1000, FAR, 5]
    times = torch.tensor([[NOW + 1, 0, 4], [NOW + 999, FAR, 7], [NOW - 10, -FAR, 5]])
    expected = [
        [reference.position(t, a, b) for t, a, b in zip(row, earliest, latest, strict=True)]
        for row in times.tolist()
    ]
    assert_close(position(times, earliest, latest), torch.tensor(expected, dtype=torch.float64))
    narrow = torch.tensor([[5, -7, 6]], dtype=torch.int32)
    assert_close(
        position(narrow, earliest, latest), position(narrow.long(), earliest, latest), rtol=0, atol=0
    )
    assert position(times[:0], earliest, latest).shape == (0, 3)


def test_row_positions_count_the_real_rows():
    unpadded = torch.ones(1, 3, dtype=torch.bool)
    left = torch.tensor([False, False, True, True, True])
    right, gaps = left.flip(0), torch.tensor([True, False, True, False, True])
    assert row_positions(unpadded).tolist() == [[0, 1, 2]]
    for mask in (left, right, gaps):
        assert row_positions(mask)[mask].tolist() == [0, 1, 2]
        assert row_positions(mask)[~mask].tolist() == [0, 0]
    assert row_positions(torch.stack((left, ~left))).tolist() == [[0, 0, 0, 1, 2], [0, 1, 0, 0, 0]]
    assert row_positions(torch.zeros(2, 0, dtype=torch.bool)).shape == (2, 0)
    assert row_positions(left).dtype == torch.int64


def test_row_positions_take_a_bool_mask():
    with pytest.raises(TypeError, match=r"^mask must be bool, got torch.int64$"):
        row_positions(torch.tensor([1, 0]))


def test_a_mask_is_a_tensor():
    for mask in ([True, False], None):
        with pytest.raises(TypeError, match=f"^mask must be a tensor, got {type(mask).__name__}$"):
            row_positions(mask)
