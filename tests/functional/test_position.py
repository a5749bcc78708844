from __future__ import annotations

import reference
import torch
from torch.testing import assert_close

from tabembed.functional.position import position, since

FAR = 2**63 - 1
NOW = 1_700_000_000_123_456_789


def test_differences_are_those_of_whole_numbers():
    times = [FAR, -FAR, 0, NOW, NOW + 1, -1, 2**32, -(2**32)]
    for origin in (0, FAR, -FAR, NOW, 2**32 - 1, -1):
        expected = torch.tensor([float(t - origin) for t in times], dtype=torch.float64)
        assert_close(since(torch.tensor(times), torch.tensor(origin)), expected, rtol=0, atol=0)


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
