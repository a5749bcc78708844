from __future__ import annotations

import math
from datetime import date, timedelta

import pyarrow as pa
import pytest
import torch

from tabembed.estimators.cycles import Cycles, find_cycles
from tabembed.table.frame import read_frame

NOON = pa.array([12 * 3600, None], pa.timestamp("s"))
ZONED = pa.array([12 * 3600, None], pa.timestamp("s", "Asia/Tokyo"))
DAY = 86_400 * 10**9


def find(period, **columns):
    return find_cycles(read_frame(columns), period)


def test_types_and_names_tell_the_cycles():
    hour, when, zoned, born = find("auto", hour=[1], when=NOON[:1], zoned=ZONED[:1], born=[date(2024, 1, 1)])
    assert hour == Cycles("hour", False, None, (24,), ("",))
    year = round(365.2425 * DAY)
    assert when == Cycles("when", True, "", (DAY, 7 * DAY, year), ("day", "week", "year"))
    assert zoned == Cycles("zoned", True, "Asia/Tokyo", (DAY, 7 * DAY, year), ("day", "week", "year"))
    assert born == Cycles("born", True, None, (7 * DAY, year), ("week", "year"))


def test_what_is_given_counts_for_more():
    hour, tide = find({"tide": (12.42, 24), "hour": 12}, hour=[1], tide=[0.5])
    assert hour == Cycles("hour", False, None, (12,), ("",))
    assert tide == Cycles("tide", False, None, (12.42, 24), ("12.42", "24"))
    (when,) = find(timedelta(hours=6), when=NOON)
    assert when == Cycles("when", True, "", (DAY // 4,), ("21600s",))
    assert [c.periods for c in find(5, a=[1], b=[2.0])] == [(5,), (5,)]


def test_phases_are_turns_and_nan_where_missing():
    (hour,) = find("auto", hour=[6])
    (phase,) = hour.phases(pa.array([6, None, 30]))
    torch.testing.assert_close(phase.double(), torch.tensor([0.25, math.nan, 0.25]).double(), equal_nan=True)
    (when,) = find({"t": ["day"]}, t=NOON)
    (phase,) = when.phases(NOON)
    torch.testing.assert_close(phase.double(), torch.tensor([0.5, math.nan]).double(), equal_nan=True)
    (tokyo,) = find({"t": "day"}, t=ZONED)
    assert tokyo.phases(ZONED)[0][0] % 1 == 0.875  # 12:00 UTC is 21:00 there


def test_a_zone_must_be_that_of_the_fit():
    (plain,), (zoned,) = find("auto", t=NOON), find("auto", t=ZONED)
    with pytest.raises(
        ValueError, match="column 't': must have no time zone as in the fit, got 'Asia/Tokyo'"
    ):
        plain.phases(ZONED)
    with pytest.raises(ValueError, match="column 't': must have a time zone as in the fit, got none"):
        zoned.phases(NOON)
