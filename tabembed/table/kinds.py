"""The kinds of column there are, and which of them a column gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa

from tabembed.table.category import Categorical, CategoryEncoder
from tabembed.table.datetime import Datetime, TimeEncoder
from tabembed.table.lists import CategoricalList, ListEncoder
from tabembed.table.number import Continuous, NumberEncoder

SPECS: dict[str, Any] = {c.__name__: c for c in (CategoricalList, Datetime, Continuous, Categorical)}
"""The kinds of column, in the order in which they are asked whether they accept a type."""
FITTED: dict[str, Any] = {c.__name__: c for c in (CategoryEncoder, NumberEncoder, TimeEncoder, ListEncoder)}


def given_specs(columns: Any, names: Sequence[str]) -> dict[str, Any]:
    """Spec by name for the columns that are not dropped, None where the type is to decide.

    Args:
        columns: what the user gave: a dict of specs, a list of names, or None.
        names: names of the table.

    Raises: ValueError for a column that is not there, TypeError for what is no spec.
    """
    if columns is None:
        return dict.fromkeys(names)
    if isinstance(columns, str) or not isinstance(columns, Mapping | Sequence):
        raise TypeError(f"columns must be a dict of specs or a list of names, got {columns!r}")
    for name in columns:
        check_name(columns=name)
        if name not in names:
            raise ValueError(f"column {name!r}: has a spec, but the table has only {list(names)}")
    if not isinstance(columns, Mapping):
        return {name: None for name in names if name in columns}
    for name, spec in columns.items():
        if spec != "drop" and type(spec) not in SPECS.values():
            raise TypeError(f"column {name!r}: its spec must be one of {list(SPECS)} or 'drop', got {spec!r}")
    return {name: columns.get(name) for name in names if columns.get(name) != "drop"}


def check_name(**names: Any) -> None:
    """Each name of a column, given by the setting that names it, is text, as the names of a table are.

    Raises: TypeError for another kind; of a number or a tuple it says what to write.
    """
    for setting, name in names.items():
        if not isinstance(name, str):
            hint = f": a table's names are taken as text, so write {str(name)!r}"
            hint = hint if isinstance(name, Integral | tuple) else ""
            raise TypeError(f"{setting} must name a column by text, got {name!r}{hint}")


def spec_by_type(name: str, kind: pa.DataType) -> Any:
    """The spec that a type alone decides on.

    Raises: TypeError when no kind of column accepts the type.
    """
    for candidate in SPECS.values():
        if candidate.accepts(kind):
            return candidate()
    raise TypeError(f"column {name!r}: must be of a kind in {list(SPECS)}, got {kind}: cast or drop it")


def arrays_by_place(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """The arrays of a saved encoder by the number of their column, then by their own name."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for key, array in arrays.items():
        place, _, name = key.partition(".")
        found.setdefault(place, {})[name] = array
    return found


def specs_to_json(columns: Any) -> Any:
    """The ``columns`` of an encoder as JSON."""
    if not isinstance(columns, Mapping):
        return columns if columns is None else list(columns)
    return {
        n: s if s == "drop" else {"spec": type(s).__name__, **plain(asdict(s))} for n, s in columns.items()
    }


def plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with Python's numbers in the place of numpy's, which JSON does not know."""
    return {
        name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()
    }


def specs_from_json(columns: Any) -> Any:
    """The ``columns`` of an encoder, from what ``specs_to_json`` gave."""
    if not isinstance(columns, dict):
        return columns

    def spec(saved: Any) -> Any:
        if not isinstance(saved, dict):
            return saved
        return SPECS[saved["spec"]](**{key: value for key, value in saved.items() if key != "spec"})

    return {name: spec(saved) for name, saved in columns.items()}
