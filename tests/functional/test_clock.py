from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from torch.testing import assert_close

from tabembed.functional.clock import Clock, clock_of, on_the_wall

SECOND = 10**9
START, END = 946_684_800 * SECOND, 1_735_689_600 * SECOND  # 2000 to 2025
FAR = 2**63 - 1


@pytest.mark.parametrize(
    "zone",
    [
        "America/New_York",
        "Europe/Oslo",
        "Australia/Lord_Howe",  # half an hour
        "Africa/Casablanca",  # no summer time in Ramadan
        "America/Sao_Paulo",
        "Pacific/Apia",  # a day skipped
        "Asia/Kathmandu",
        "+05:30",
        "-03:00",
        "UTC",
    ],
)
def test_shows_what_arrow_shows(zone):
    changes = torch.tensor(clock_of(zone, START, END).changes, dtype=torch.int64)
    near = torch.cat([changes - 1, changes, changes + 1])
    near = near[(near > START) & (near < END)]
    drawn = torch.randint(START, END, (20_000,), generator=torch.Generator().manual_seed(0))
    times = torch.cat([near, drawn]) // 1000 * 1000
    theirs = pc.local_timestamp(pa.array(times.numpy()).cast(pa.timestamp("ns", zone))).cast(pa.int64())
    ours = on_the_wall(times, clock_of(zone, START, END))
    assert np.array_equal(ours.numpy(), theirs.to_numpy())


def test_no_zone_shows_what_it_is_given():
    assert clock_of(None, START, END) == Clock((), (0,))
    times = torch.tensor([START, 5])
    assert on_the_wall(times, clock_of(None, START, END)) is times


def test_range_of_the_changes():
    clock = clock_of("Europe/Oslo", START, END)
    year = 31_556_952 * SECOND
    assert START - 2 * year < clock.changes[0] < START
    assert END + 29 * year < clock.changes[-1] < END + 31 * year
    times = torch.tensor([START - 50 * year, END + 50 * year])
    held = torch.tensor([clock.offsets[0], clock.offsets[-1]])
    assert_close(on_the_wall(times, clock), times + held)


def test_the_whole_of_int64():
    clock = clock_of("Europe/Oslo", -FAR, FAR)
    assert 100 < len(clock.changes) < 700


def test_shapes():
    clock = clock_of("Europe/Oslo", START, END)
    times = torch.randint(START, END, (3, 4), generator=torch.Generator().manual_seed(1))
    assert_close(on_the_wall(times.t(), clock), on_the_wall(times, clock).t())
    assert_close(on_the_wall(times[0, 0], clock), on_the_wall(times, clock)[0, 0])
    assert on_the_wall(times[:0], clock).shape == (0, 4)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "+2", ""])
def test_unknown_zone(zone):
    with pytest.raises(ValueError, match="time zone must be one of the time zone database, got"):
        clock_of(zone, START, END)
