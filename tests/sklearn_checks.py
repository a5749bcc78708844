"""Checks that scikit-learn keeps to itself: ``check_estimator`` does not run them."""

from __future__ import annotations

PRIVATE_CHECKS = [
    "check_dataframe_column_names_consistency",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_n_features_in",
    "check_estimators_partial_fit_n_features",
]
