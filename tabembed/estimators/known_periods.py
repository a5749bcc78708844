"""Names of columns that say how long their cycle is."""

from __future__ import annotations

import re

_NAMES = {
    60: "minute, minute_of_hour, second, second_of_minute",
    24: "hour, hour_of_day",
    168: "hour_of_week",
    1440: "minute_of_day",
    86_400: "second_of_day",
    7: "weekday, week_day, day_of_week, dow, iso_weekday",
    31: "day, day_of_month, month_day",
    366: "day_of_year, year_day, doy",
    53: "week, week_of_year, iso_week",
    12: "month, month_of_year",
    4: "quarter, quarter_of_year",
    360: "angle, degrees, bearing, heading, azimuth, wind_direction, wind_dir, longitude",
    6.283185307179586: "radians",
}
_PERIODS = {
    name.strip().replace("_", ""): period for period, names in _NAMES.items() for name in names.split(",")
}


def known_period(name: str) -> float | None:
    """The period that the whole name of a column tells, or ``None``.

    Parts of time have as many steps as they have values, so that the last one stands next to the
    first and is never the same: 31 days, 53 weeks, 366 days. Upper case, spaces, points and
    underscores do not matter. Longer names are not guessed at: ``miles_per_hour`` is no hour.

    >>> known_period("dayOfWeek"), known_period("wind direction"), known_period("miles_per_hour")
    (7, 360, None)
    """
    return _PERIODS.get(re.sub(r"[\s_.\-]", "", name).lower())
