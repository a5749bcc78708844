"""How every command behaves: mistakes and warnings in one line, training on one thread."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def plain_messages() -> Iterator[None]:
    """A user's mistake is one line and exit code 2; a warning is one line, said once."""
    said = set()

    def say(message: Warning | str, *_: object, **__: object) -> None:
        if _line(message) not in said:
            said.add(_line(message))
            typer.echo(f"warning: {_line(message)}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = say
        try:
            yield
        except (ValueError, TypeError, OSError) as error:
            typer.echo(f"error: {_line(error)}", err=True)
            raise typer.Exit(2) from None


@contextmanager
def one_thread() -> Iterator[None]:
    """Train on one thread: minibatches are small, and threads that share a busy core wait for each other."""
    import torch  # noqa: F401 - only pools that are loaded are limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


def _line(message: object) -> str:
    """One line of it; a sign that is none, as a terminal's escape, is spelled out."""
    line = " ".join(str(message).split())
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in line)
