"""Many parts into one, whatever their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def merge_all(states: Iterable[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """One state of many, in time n log n: each is merged with others of about its size.

    Args:
        states: at least one, used one by one.
        merge: makes a state of two.

    >>> merge_all("abcde", lambda a, b: f"({a}{b})")
    '(((ab)(cd))e)'
    """
    stack: list[tuple[int, Any]] = []
    for state in states:
        level = 0
        while stack and stack[-1][0] == level:
            state, level = merge(stack.pop()[1], state), level + 1
        stack.append((level, state))
    _, merged = stack.pop()
    while stack:
        merged = merge(stack.pop()[1], merged)
    return merged
