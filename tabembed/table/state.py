"""What a fit knows of the rows seen so far: parts that merge in any order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tabembed.table.kinds import SPECS


@dataclass(frozen=True)
class Decided:
    """A column whose values have shown its kind.

    Args:
        spec: the spec of its kind.
        state: what that spec's ``partial`` made of the rows.
    """

    spec: Any
    state: Any

    def ranked(self) -> Decided:
        """The same in the order that a fit gives its values: the fitted column shares their memory."""
        return replace(self, state=self.state.ranked()) if hasattr(self.state, "ranked") else self

    def finalize(self, name: str, n_rows: int) -> Any:
        """The fitted column."""
        return self.spec.finalize(name, self.state, n_rows)


@dataclass(frozen=True)
class Undecided:
    """A column without a value so far: its kind waits for one.

    Args:
        spec: the spec that the type allowed, used when no value ever comes.
        n_rows: rows seen, all of them missing.
    """

    spec: Any
    n_rows: int

    def ranked(self) -> Undecided:
        """There is nothing to put in order."""
        return self

    def finalize(self, name: str, n_rows: int) -> Any:
        """The fitted column, of which nothing is known."""
        return self.spec.finalize(name, self.spec.partial(name, pa.nulls(self.n_rows)), n_rows)


@dataclass(frozen=True)
class TableState:
    """What a fit knows of the rows seen so far.

    Args:
        n_rows: number of rows.
        names: names of all columns, those that are dropped included.
        named: False when the table carried no names and the columns count by position.
        columns: state by name of the columns that are encoded.
    """

    n_rows: int
    names: tuple[str, ...]
    named: bool
    columns: dict[str, Decided | Undecided]

    def merge(self, other: TableState) -> TableState:
        """What the rows of both say, columns in the order of this one; neither changes."""
        alone = sorted(set(self.columns) ^ set(other.columns))
        if alone:
            raise ValueError(f"column {alone[0]!r}: must be in both parts, got it in one")
        columns = {name: _merge(name, own, other.columns[name]) for name, own in self.columns.items()}
        return TableState(self.n_rows + other.n_rows, self.names, self.named, columns)

    def ranked(self) -> TableState:
        """The same in the order of a fit, which then holds its values once."""
        return replace(self, columns={name: column.ranked() for name, column in self.columns.items()})


def _merge(name: str, a: Decided | Undecided, b: Decided | Undecided) -> Decided | Undecided:
    if isinstance(a, Undecided) and isinstance(b, Undecided):
        guess = min(a.spec, b.spec, key=lambda spec: list(SPECS).index(type(spec).__name__))
        return Undecided(guess, a.n_rows + b.n_rows)
    if isinstance(a, Undecided):
        return _merge(name, b, a)
    if isinstance(b, Undecided):
        return Decided(a.spec, replace(a.state, n_missing=a.state.n_missing + b.n_rows))
    if type(a.spec) is not type(b.spec):
        kinds = f"{a.spec.kind} and {b.spec.kind}"
        raise TypeError(f"column {name!r}: must be of one kind in every part, got {kinds}")
    if a.spec != b.spec:  # arguments that were changed after a fit
        raise ValueError(
            f"column {name!r}: must have the same settings in every part, got {a.spec} and {b.spec}"
        )
    return Decided(a.spec, a.spec.merge(name, a.state, b.state))
