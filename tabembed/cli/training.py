"""What ``tabembed fit`` trains: an embedder of a table, or of the sequences in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class SequenceOptions:
    """Options that need ``--entity``; ``None`` and nothing are what the classes make of them."""

    entity: str | None = None
    time: str | None = None
    observed: tuple[str, ...] = ()
    unit: str | None = None
    position: str | None = None
    clock: str | None = None

    def check(self, target: str | None) -> None:
        """Refuse options without those that they need.

        Raises: ValueError naming the option.
        """
        given = [name for name, value in asdict(self).items() if value]
        if self.entity is None and given:
            raise ValueError(f"--{given[0]} must come with --entity, the column that says whose row it is")
        if self.entity is not None and self.time is None:
            raise ValueError("--entity must come with --time, the column that says when a row happened")
        for name in ("entity", "time"):
            if target is not None and getattr(self, name) == target:
                raise ValueError(f"--target must be another column than --{name}, got {target!r} for both")


@dataclass(frozen=True)
class Request:
    """What to train on which columns."""

    table: Path
    target: str | None
    output: str | None
    target_type: str
    drop: Sequence[str]
    categorical: Sequence[str]
    seed: int
    sequence: SequenceOptions

    @property
    def columns(self) -> list[str]:
        """Columns that must be in the table."""
        own = [name for name in (self.target, self.sequence.entity, self.sequence.time) if name is not None]
        return [*own, *self.sequence.observed, *self.drop, *self.categorical]

    def rows(self, frame: pandas.DataFrame) -> tuple[pandas.DataFrame, pandas.Series | None]:
        """The rows to train on, and their target; how many are left out is said.

        Rows of sequences stay where they have no target: they are history of others.

        Raises: ValueError when no row has a target.
        """
        out = [name for name in (self.target,) if name is not None and name not in self.sequence.observed]
        if self.target is None:
            return frame.drop(columns=list(self.drop)), None
        known = frame[self.target].notna()
        if not known.any():
            raise ValueError(f"column {self.target!r}: must have a value in at least one row of {self.table}")
        if self.sequence.entity is not None:
            return frame.drop(columns=[*out, *self.drop]), frame[self.target]
        if not known.all():
            typer.echo(f"dropped {(~known).sum():,} of {len(frame):,} rows, which have no {self.target!r}")
        return frame.loc[known].drop(columns=[*out, *self.drop]), frame.loc[known, self.target]

    def check_unit(self, frame: pandas.DataFrame) -> None:
        """Refuse a unit of a column that holds times, which have one.

        Raises: ValueError naming the column.
        """
        time, unit = self.sequence.time, self.sequence.unit
        if unit is not None and frame[time].dtype.kind not in "iuf":
            kind = "times or text"
            raise ValueError(f"--unit must be for a --time of numbers, got {unit!r}: {time!r} holds {kind}")

    def embedder(self) -> Any:
        """An embedder as the options describe it."""
        from tabembed import Categorical, SequenceEmbedder, SequenceEncoder, TableEmbedder, TableEncoder

        own: dict[str, Any] = {"target_type": self.target_type, "random_state": self.seed}
        own |= {} if self.output is None else {"output": self.output}
        sequence = self.sequence
        entity, time = sequence.entity, sequence.time
        columns = {name: Categorical() for name in self.categorical if name != entity} or None
        if entity is None or time is None:
            return TableEmbedder(TableEncoder(columns), **own)
        encoder = SequenceEncoder(entity, time, columns, observed=list(sequence.observed), on_missing="drop")
        if sequence.unit is not None:
            encoder.set_params(unit=sequence.unit)
        for name in ("position", "clock"):
            if (value := getattr(sequence, name)) is not None:
                own[name] = None if value == "none" else value
        return SequenceEmbedder(encoder, **own)
