"""The settings of an encoder of sequences: checked, and what they say of a table's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from tabembed._checks import check_choice, check_integer
from tabembed.sequence.time_axis import Clock
from tabembed.table import TableEncoder
from tabembed.table.kinds import check_name, given_specs

TIES = ("stable", "merge", "error", "strict")
ON_MISSING = ("error", "drop")


@dataclass(frozen=True)
class Rule:
    """What a fitted encoder does with rows, whatever becomes of its settings afterwards.

    Args:
        entity: column that says whose row it is.
        time: column that says when it happened.
        ties: what becomes of rows of one entity at one time.
        max_events: most rows of an entity.
        on_missing: what becomes of rows without entity or time.

    Raises: TypeError for the kind of a setting, ValueError for its value.
    """

    entity: str
    time: str
    ties: str
    max_events: int | None
    on_missing: str

    def __post_init__(self) -> None:
        check_name(entity=self.entity, time=self.time)
        if self.entity == self.time:
            raise ValueError(f"entity and time must be two columns, got {self.entity!r} twice")
        check_choice(TIES, ties=self.ties)
        check_choice(ON_MISSING, on_missing=self.on_missing)
        if self.max_events is not None:
            check_integer(max_events=self.max_events)

    @classmethod
    def of(cls, encoder: Any) -> Rule:
        """The rule that an encoder's settings say."""
        given = encoder
        return cls(given.entity, given.time, given.ties, given.max_events, given.on_missing)


def check_settings(encoder: Any) -> None:
    """Check what was given to the constructor.

    Raises: TypeError for the kind of a setting, ValueError for its value.
    """
    Rule.of(encoder)
    Clock(encoder.unit)
    observed = encoder.observed
    if isinstance(observed, str) or not hasattr(observed, "__getitem__") or isinstance(observed, Mapping):
        raise TypeError(f"observed must be a list of names, got {observed!r}")
    for name in observed:
        check_name(observed=name)
        if name in (encoder.entity, encoder.time):
            raise ValueError(f"column {name!r}: must be known when a row happens, got it in observed")
        if list(observed).count(name) > 1:
            raise ValueError(f"observed must name every column once, got {name!r} twice")


def row_encoder(encoder: Any, names: Sequence[str]) -> tuple[TableEncoder, list[str]]:
    """A new encoder for the columns of a row, and their names.

    Args:
        encoder: settings: ``entity``, ``time``, ``columns`` and ``observed``.
        names: names of the table's columns.

    Raises: ValueError for columns that are not there, or are observed but left out.
    """
    for name in (encoder.entity, encoder.time, *encoder.observed):
        if name not in names:
            raise ValueError(f"column {name!r}: must be in the table, which has {list(names)}")
    given = encoder.columns
    rows = clone(given) if isinstance(given, TableEncoder) else TableEncoder(given)
    specs = given_specs(rows.columns, names)
    for name in (encoder.entity, encoder.time):
        if rows.columns is None or name not in rows.columns:
            specs.pop(name, None)
    for name in encoder.observed:
        if name not in specs:
            raise ValueError(f"column {name!r}: is observed, so columns must not leave it out")
    return rows.set_params(columns={n: spec for n, spec in specs.items() if spec is not None}), list(specs)
