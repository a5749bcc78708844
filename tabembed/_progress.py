"""A bar for calls that take long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")


@contextmanager
def progress(title: str, n_steps: int, verbose: int) -> Iterator[Callable[..., Any]]:
    """A bar while the block runs; what it gives is called after every step, or with a number of steps.

    Args:
        title: stands before the bar.
        n_steps: number of steps.
        verbose: 0 shows nothing.

    >>> with progress("fit", 3, verbose=0) as advance:
    ...     for step in range(3):
    ...         advance()
    """
    if not verbose:
        yield lambda n=1: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bar:
        task = bar.add_task(title, total=n_steps)
        yield lambda n=1: bar.advance(task, n)


def tracked(
    items: Iterable[Item],
    title: str,
    n_steps: int,
    verbose: int,
    *,
    size: Callable[[Item], int] = lambda item: 1,
) -> Iterator[Item]:
    """The items, with a bar that counts those that are done.

    Args:
        items: what there is to do.
        title: stands before the bar.
        n_steps: number of steps of all items.
        verbose: 0 shows nothing.
        size: how many steps an item is.

    >>> list(tracked("abc", "vectors", 3, verbose=0))
    ['a', 'b', 'c']
    """
    with progress(title, n_steps, verbose) as advance:
        for item in items:
            yield item
            advance(size(item))
