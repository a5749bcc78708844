from __future__ import annotations

import math

import pytest

from tabembed.estimators.known_periods import known_period


@pytest.mark.parametrize(
    ("name", "period"),
    [
        ("second", 60),
        ("minute_of_hour", 60),
        ("hour", 24),
        ("hour_of_week", 168),
        ("minute_of_day", 1440),
        ("second_of_day", 86_400),
        ("dow", 7),
        ("day", 31),
        ("doy", 366),
        ("week", 53),
        ("month", 12),
        ("quarter", 4),
        ("longitude", 360),
        ("radians", 2 * math.pi),
    ],
)
def test_every_cycle_has_a_name(name, period):
    assert known_period(name) == period


@pytest.mark.parametrize(
    "name", ["day_of_week", "dayOfWeek", "DAY OF WEEK", "day.of-week", "_day_of_week_", "day\tof\nweek"]
)
def test_writing_does_not_matter(name):
    assert known_period(name) == 7


@pytest.mark.parametrize("name", ["", "_", "hours", "my_hour", "hour2", "day/week", "jour", "miles_per_hour"])
def test_no_part_of_a_name_counts(name):
    assert known_period(name) is None
