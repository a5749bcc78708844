"""A fitted encoder of sequences as JSON and named arrays, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from tabembed.artifact import ArtifactError
from tabembed.artifact.sound import check_clock, check_names, check_sequences
from tabembed.schema import SequenceSchema, TableSchema
from tabembed.sequence.settings import Rule, check_settings
from tabembed.sequence.time_axis import TimeAxis
from tabembed.table import TableEncoder
from tabembed.table.kinds import plain, specs_from_json, specs_to_json

_TABLE = "table."


def to_artifact(encoder: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What ``from_artifact`` rebuilds."""
    params, schema = plain(encoder.get_params(deep=False)), encoder.schema_
    columns, settings = params["columns"], None
    if isinstance(columns, TableEncoder):
        settings, columns = plain(columns.get_params(deep=False)), columns.columns
        settings["columns"] = None
    table, arrays = (None, {}) if encoder.table_encoder_ is None else encoder.table_encoder_.to_artifact()
    return {
        "params": {**params, "columns": specs_to_json(columns), "observed": list(params["observed"])},
        "settings": settings,
        "table": table,
        "clock": encoder.time_axis_.to_json(),
        "entity_family": encoder.entity_family_,
        "rule": plain(asdict(encoder._rule)),
        "observed": list(schema.observed),
        "n_rows": schema.rows.n_rows,
        "n_sequences": schema.n_sequences,
        "longest": schema.longest,
        "span": schema.span,
        "gaps": list(schema.gaps),
        "names": encoder.feature_names_in_.tolist(),
        "named": encoder._named,
    }, {_TABLE + name: array for name, array in arrays.items()}


def from_artifact(cls: Any, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild what ``to_artifact`` gave.

    Raises: ArtifactError when it is damaged.
    """
    try:
        params = dict(config["params"])
        params["columns"] = specs_from_json(params["columns"])
        if config["settings"] is not None:
            params["columns"] = TableEncoder(**{**config["settings"], "columns": params["columns"]})
        check_names(names=config["names"], observed=params["observed"])
        params["observed"] = params["observed"] or ()
        table = None
        if config["table"] is not None:
            if any(not name.startswith(_TABLE) for name in arrays):
                raise ArtifactError(f"arrays must be its columns' own, got {list(arrays)!r:.80}")
            own = {name.removeprefix(_TABLE): array for name, array in arrays.items()}
            table = TableEncoder.from_artifact(config["table"], own)
        encoder = cls(**params)
        check_settings(encoder)
        rule = Rule(**config["rule"])
        schema = SequenceSchema(
            TableSchema(config["n_rows"], ()) if table is None else table.schema_,
            tuple(config["observed"]),
            rule.ties == "strict",
            config["n_sequences"],
            config["longest"],
            config["span"],
            tuple(config["gaps"]),
        )
        check_sequences(schema)
        clock = TimeAxis.from_json(config["clock"])
        check_clock(clock.column)
        kind, names = config["entity_family"], tuple(config["names"])
        if not isinstance(kind, str) or type(config["named"]) is not bool:
            raise ArtifactError(f"entity_family must be text and named a bool, got {kind!r:.60}")
        encoder._set_fitted(table, clock, kind, schema, rule, names, config["named"])
    except ArtifactError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ArtifactError(f"the saved encoder is damaged ({error!r})") from None
    return encoder
