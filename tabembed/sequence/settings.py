"""The settings of an encoder of sequences: checked, and what they say of a table's columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from sklearn.base import clone

from tabembed.table import TableEncoder
from tabembed.table.frame import Frame
from tabembed.table.kinds import given_specs

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
    """

    entity: str
    time: str
    ties: str
    max_events: int | None
    on_missing: str

    @classmethod
    def of(cls, encoder: Any) -> Rule:
        """The rule that an encoder's settings say."""
        most = None if encoder.max_events is None else int(encoder.max_events)
        return cls(encoder.entity, encoder.time, encoder.ties, most, encoder.on_missing)


def check_settings(encoder: Any) -> None:
    """Check what was given to the constructor.

    Raises: TypeError for the kind of a setting, ValueError for its value.
    """
    for name in ("entity", "time"):
        if not isinstance(getattr(encoder, name), str):
            raise TypeError(f"{name} must be the name of a column, got {getattr(encoder, name)!r}")
    if encoder.entity == encoder.time:
        raise ValueError(f"entity and time must be two columns, got {encoder.entity!r} twice")
    observed = encoder.observed
    if isinstance(observed, str) or not isinstance(observed, Sequence):
        raise TypeError(f"observed must be a list of names, got {observed!r}")
    for name in observed:
        if name in (encoder.entity, encoder.time):
            raise ValueError(f"column {name!r}: must be known when a row happens, got it in observed")
    for name, allowed in (("ties", TIES), ("on_missing", ON_MISSING)):
        if getattr(encoder, name) not in allowed:
            raise ValueError(f"{name} must be one of {list(allowed)}, got {getattr(encoder, name)!r}")
    count = encoder.max_events
    if count is not None and (isinstance(count, bool) or not isinstance(count, Integral)):
        raise TypeError(f"max_events must be None or an int, got {count!r}")
    if count is not None and count < 1:
        raise ValueError(f"max_events must be at least 1, got {count}")


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


def places_in(frame: Frame, needed: Collection[str], encoder: Any) -> dict[str, int]:
    """Place of every column in a table: by name, or by position where either has no names.

    Args:
        frame: the table.
        needed: names of the columns that must be there.
        encoder: a fitted encoder, which knows the columns of its table.

    Raises: ValueError for a column that is not there, or another number of columns.
    """
    names = set(frame.names)
    if frame.named and (encoder._named or names.issuperset(needed)):
        for name in needed:
            if name not in names:
                raise ValueError(f"column {name!r}: must be in the table, which has {list(frame.names)}")
        return {name: i for i, name in enumerate(frame.names)}
    if len(frame.names) != encoder.n_features_in_:
        raise ValueError(
            f"X has {len(frame.names)} features, but {type(encoder).__name__} is expecting "
            f"{encoder.n_features_in_} features as input"
        )
    return {name: i for i, name in enumerate(encoder.feature_names_in_)}
