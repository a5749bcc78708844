"""Tables as scikit-learn sees them: names and widths as in the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import validate_data

from tabembed.table.frame import read_frame


def check_table(estimator: Any, X: Any, *, reset: bool, dtype: Any = None) -> Any:
    """Check names and widths as scikit-learn does; arrays are checked wholly, but for gaps.

    Args:
        estimator: learns them in its fit, is asked for them later.
        X: a table, a dict of columns, an array or a list of rows.
        reset: whether this is the fit.
        dtype: dtype of an array, as ``check_array`` means it.

    Returns: the table itself, or the checked array.
    """
    names = column_names(X)
    if names is not None:
        validate_data(estimator, pd.DataFrame(columns=names), reset=reset, skip_check_array=True)
        return X
    if isinstance(X, list) and np.asarray(X, dtype=object).ndim == 2:
        plain = np.asarray(X)
        # numpy would turn the numbers of a mixed list into text.
        X = np.asarray(X, dtype=object) if plain.dtype.kind in "US" else plain
    rows = {"ensure_all_finite": False, "ensure_min_samples": 1 if reset else 0}
    return validate_data(estimator, X, reset=reset, dtype=dtype, **rows)


def check_rows(estimator: Any, X: Any, *, reset: bool, accept_sparse: Any = False) -> Any:
    """Check rows of numbers without gaps as scikit-learn does: float32 is kept, the rest is float64.

    Args:
        estimator: learns names and width in its fit, is asked for them later.
        X: rows ``(n_rows, n_features)``, an array or a frame.
        reset: whether this is the fit.
        accept_sparse: formats of sparse matrices that are kept, as ``check_array`` means it.

    Raises: ValueError for NaN, infinity, text, and rows that are not those of the fit.
    """
    # A list of dtypes would make float64 of polars' float32.
    X = validate_data(estimator, X, reset=reset, accept_sparse=accept_sparse, dtype="numeric")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def column_names(X: Any) -> list[str] | None:
    """Names of a table that has names, ``None`` for an array."""
    if isinstance(X, dict):
        return [str(name) for name in X]
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "columns"):
        return list(read_frame(X).names)
    return None


def gives_pandas(estimator: Any) -> bool:
    """Whether ``set_output``, or scikit-learn's configuration, asks an estimator for frames of pandas.

    scikit-learn labels the rows of such frames by itself, with the index of the input: rows that are no rows
    of the input need an index of their own, and nothing public says whether one will be wanted.
    """
    return bool(_get_output_config("transform", estimator)["dense"] == "pandas")


def check_names(estimator: Any, input_features: Any) -> None:
    """Names that ``get_feature_names_out`` was given are those of the fit, or as many.

    Raises: ValueError when they are not; nothing for ``None``.
    """
    if input_features is None:
        return
    names, n_features = np.asarray(input_features, dtype=object), estimator.n_features_in_
    if len(names) != n_features:
        raise ValueError(
            f"input_features should have length equal to number of features ({n_features}), got {len(names)}"
        )
    if not np.array_equal(getattr(estimator, "feature_names_in_", names), names):
        raise ValueError(f"input_features is not equal to feature_names_in_, got {names.tolist()}")
