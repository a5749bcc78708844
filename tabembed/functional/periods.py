"""Frequencies on the time scale of the data."""

from __future__ import annotations

import math

from tabembed._checks import check_integer, check_scale


def frequencies_from_periods(shortest: float, longest: float, n: int) -> list[float]:
    """Frequencies whose periods grow from the shortest to the longest in equal ratios.

    The rule: shortest is twice the smallest gap that matters, so that rows that far apart stand half a turn
    apart; longest is a few times the longest span of a sequence, so that no two rows look alike.

    Args:
        shortest: period of the first wave, in the unit of the positions.
        longest: period of the last wave, in the same unit.
        n: number of waves; one alone has the shortest period.

    Returns: radians per unit, falling.

    Raises: ValueError for periods that are not from 1e-30 to 1e30, or a longest below the shortest.

    Waves of an hour to a year, for positions that are nanoseconds since 1970:

    >>> second = 10**9
    >>> frequencies = frequencies_from_periods(3600 * second, 365 * 86_400 * second, 4)
    >>> [round(2 * math.pi / frequency / second / 3600) for frequency in frequencies]
    [1, 21, 425, 8760]
    """
    check_scale(shortest=shortest, longest=longest)
    check_integer(n=n)
    if longest < shortest:
        raise ValueError(f"longest must be at least shortest, {shortest:g}, got {longest:g}")
    shortest, longest = float(shortest), float(longest)
    ratio = math.log(shortest / longest) / max(int(n) - 1, 1)
    return [2 * math.pi / shortest * math.exp(i * ratio) for i in range(int(n))]
