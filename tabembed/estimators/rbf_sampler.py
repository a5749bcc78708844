"""A ``RandomFourierTransformer`` from scikit-learn's ``RBFSampler``, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.utils.validation import check_is_fitted

_COLUMNS = ("n_features_in_", "feature_names_in_")


def from_rbf_sampler(cls: Any, sampler: RBFSampler) -> Any:
    """A fitted transformer of class ``cls`` that gives the features of a fitted ``RBFSampler``."""
    if not isinstance(sampler, RBFSampler):
        raise TypeError(f"sampler must be an RBFSampler, got {type(sampler).__name__}")
    check_is_fitted(sampler)
    lengthscale = (2 * float(sampler._gamma)) ** -0.5
    transformer = cls(
        len(sampler.random_offset_),
        lengthscale=lengthscale,
        sampler="iid",
        features="cos",
        random_state=sampler.random_state,
    )
    _copy_columns(sampler, transformer)
    weights, offsets = (a.astype(np.float64) for a in (sampler.random_weights_, sampler.random_offset_))
    transformer._hold(weights * lengthscale, offsets, seed=None, dtype=sampler.random_weights_.dtype)
    # Taken as they are: divided by a lengthscale they would lose the last bit.
    transformer.frequencies_, transformer.lengthscale_ = weights, lengthscale
    return transformer


def to_rbf_sampler(transformer: Any) -> RBFSampler:
    """A fitted ``RBFSampler`` that gives the features of a fitted transformer.

    Raises: ValueError when the map has what an ``RBFSampler`` cannot express.
    """
    for name, needed in (("kernel", "rbf"), ("features", "cos")):
        if (got := transformer._law[name]) != needed:
            raise ValueError(f"{name} must be {needed!r} for an RBFSampler, got {got!r}")
    if np.ndim(transformer.lengthscale_):
        raise ValueError("lengthscale must be one number for an RBFSampler, got one for each feature")
    gamma, n_components = 0.5 / transformer.lengthscale_**2, transformer._n_features_out
    sampler = RBFSampler(gamma=gamma, n_components=n_components, random_state=transformer.random_state)
    sampler._gamma, sampler._n_features_out = gamma, n_components
    sampler.random_weights_ = transformer.frequencies_.astype(transformer._weights_dtype)
    sampler.random_offset_ = transformer.offsets_.astype(transformer._weights_dtype)
    _copy_columns(transformer, sampler)
    return sampler


def _copy_columns(source: Any, goal: Any) -> None:
    for name in _COLUMNS:
        if hasattr(source, name):
            setattr(goal, name, getattr(source, name))
