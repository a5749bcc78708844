"""A fitted encoder of a table as JSON and named arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabembed.artifact import ArtifactError
from tabembed.artifact.sound import check_names, check_same, check_table
from tabembed.table.kinds import FITTED, arrays_by_place, plain, specs_from_json, specs_to_json


def to_artifact(encoder: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What ``from_artifact`` rebuilds."""
    columns: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for i, (name, column) in enumerate(encoder.columns_.items()):
        config, own = column.to_artifact()
        columns.append({"name": name, "fitted": type(column).__name__, "config": config})
        arrays |= {f"{i}.{key}": array for key, array in own.items()}
    params = {**plain(encoder.get_params(deep=False)), "columns": specs_to_json(encoder.columns)}
    return {
        "params": params,
        "n_rows": encoder.schema_.n_rows,
        "names": encoder.feature_names_in_.tolist(),
        "named": encoder._named,
        "columns": columns,
    }, arrays


def from_artifact(cls: Any, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild what ``to_artifact`` gave.

    Raises: ArtifactError when it is damaged.
    """
    try:
        params = {**config["params"], "columns": specs_from_json(config["params"]["columns"])}
        encoder, own = cls(**params), arrays_by_place(arrays)
        fitted: dict[str, Any] = {}
        for i, column in enumerate(config["columns"]):
            name, mine = column["name"], own.get(str(i), {})
            check_names(columns=[name, *fitted])
            fitted[name] = FITTED[column["fitted"]].from_artifact(name, column["config"], mine)
        check_names(names=config["names"])
        if unknown := fitted.keys() - set(config["names"]):
            raise ArtifactError(f"columns must be of its names, got {min(unknown)!r:.80}")
        encoder._set_fitted(fitted, config["n_rows"], config["names"], config["named"])
        check_table(encoder.schema_)
        check_same(arrays, encoder.to_artifact()[1])
    except ArtifactError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ArtifactError(f"the saved encoder is damaged ({error!r})") from None
    return encoder
