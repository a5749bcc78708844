"""A scikit-learn transformer that learns Fourier features from a target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tabembed._checks import check_integer
from tabembed.batch import TableBatch
from tabembed.estimators.fingerprint import fingerprint, warn_of_fit
from tabembed.estimators.module_rows import module_rows
from tabembed.estimators.tables import check_rows
from tabembed.functional.phase import RADIAN
from tabembed.nn.learned_fourier import LearnedFourierFeatures
from tabembed.training.crossfit import fit_with_folds, make_splits
from tabembed.training.fourier import FourierNetwork, fourier_vectors, unscaled
from tabembed.training.loop import Settings
from tabembed.training.modes import own_modes
from tabembed.training.objective import check_target, make_objective

_FACTORS = (1, 4, 16)
"""First scales that are tried, in radians over the root of the number of columns."""
_BETTER, _HARDLY = 0.95, 0.97
"""Share of a loss below which a larger scale is better, and above which nothing was learned."""


class LearnedFourierTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn waves of the rows, and mixtures of them, by predicting a target.

    Trains ``LearnedFourierFeatures`` with a linear head. Columns are standardised inside, and the
    learned map takes them as they come.

    ``fit_transform`` gives every training row vectors from a network that was not trained on it
    (out-of-fold), so a model that is trained on them is not fooled; ``transform`` uses the network
    of all rows. So ``fit(X, y).transform(X)`` differs from ``fit_transform(X, y)`` on purpose, and
    warns. There is no ``sample_weight``, as in ``TableEmbedder``.

    Args:
        n_components: width of the output.
        n_frequencies: number of frequencies.
        hidden_features: width of a hidden layer with GELU between waves and output; ``None`` has none.
        scale: standard deviation of the first frequencies, in turns per standard deviation of a
            column. It matters most: a target with many waves over a column needs a large one, and a
            larger one than needed fits noise. ``"auto"`` trains with one, four and sixteen radians over
            the root of the number of columns and takes a larger one only where the loss on held-out
            rows falls by 5 %; it is one without held-out rows. A fit that has learned hardly anything
            warns (``ConvergenceWarning``).
        target_type: ``"continuous"``, ``"binary"``, ``"multiclass"``, or ``"auto"``: two distinct
            values are binary; text, booleans and integers of at most 50 distinct values are
            classes; the rest are numbers.
        cv: folds of ``fit_transform``: a number (shuffled, stratified for classes), a splitter, or
            an iterable of splits. Every row must be tested exactly once.
        alpha: weight decay.
        max_iter: largest number of passes over the rows.
        batch_size: rows in a minibatch; ``"auto"`` makes about 128 steps a pass, of 16 to 1024 rows.
        learning_rate_init: largest learning rate; it rises to this, then falls to zero.
        validation_fraction: share of the rows that is held out to stop early; 0 never stops early.
        n_iter_no_change: passes without a better loss on the held-out rows before it stops.
        device: ``"auto"`` (a GPU if there is one), or a device of PyTorch.
        random_state: everything random follows from it; global generators are not touched.
        verbose: 1 shows a progress bar.

    Attributes:
        weights_: the learned map as arrays, by the names of ``LearnedFourierFeatures``;
            ``frequencies`` are in turns per unit of X.
        target_type_: the target type in use.
        classes_: the classes, ``None`` for numbers.
        n_iter_: passes that were made.
        validation_losses_: loss on the held-out rows before training and after every pass; the
            pass with the smallest is kept, and the folds of ``fit_transform`` make as many passes.
        n_features_in_: number of columns.
        feature_names_in_: their names, where they had any.

    float32 in gives float32 out, anything else float64. A column whose mean is more than a thousand of
    its standard deviations has lost digits as float32: give it as float64.

    Raises: ValueError when an argument or ``y`` breaks its rule, with its name in the message, and
        when X holds NaN or infinity.

    Source: Li et al. 2021, arXiv:2106.02795, for the map.

    >>> draw = np.random.RandomState(0)
    >>> X = draw.uniform(-3, 3, (300, 2))
    >>> y = np.sin(2 * X[:, 0])
    >>> transformer = LearnedFourierTransformer(4, cv=2, random_state=0)
    >>> transformer.fit_transform(X, y).shape
    (300, 4)
    """

    _seen: str | None

    def __init__(
        self,
        n_components: int = 16,
        *,
        n_frequencies: int = 64,
        hidden_features: int | None = None,
        scale: float | str = "auto",
        target_type: str = "auto",
        cv: Any = 5,
        alpha: float = 0.01,
        max_iter: int = 20,
        batch_size: int | str = "auto",
        learning_rate_init: float = 0.01,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_frequencies = n_frequencies
        self.hidden_features = hidden_features
        self.scale = scale
        self.target_type = target_type
        self.cv = cv
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> LearnedFourierTransformer:
        """Train on all rows.

        Args:
            X: rows ``(n_rows, n_features)``, an array or a frame.
            y: the target, one value a row, required.
        """
        self._fit(X, y, out_of_fold=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Train on all rows and on every fold's; give each row the vector of the fold without it.

        Args:
            X: rows, as in ``fit``.
            y: the target, one value a row, required.

        Shape:
            - output: ``(n_rows, n_components)``
        """
        return self._fit(X, y, out_of_fold=True)

    @own_modes()
    def transform(self, X: Any) -> Any:
        """Vectors of rows.

        Args:
            X: rows ``(n_rows, n_features)``, an array or a frame.

        Shape:
            - output: ``(n_rows, n_components)``
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        if self._seen is not None and self._seen == _mark(X):
            warn_of_fit(self, "rows")
        module = self.to_module(torch.float32 if X.dtype == np.float32 else torch.float64)
        return module_rows(module, X, self._n_features_out)

    def to_module(self, dtype: torch.dtype = torch.float32) -> LearnedFourierFeatures:
        """The fitted map as a PyTorch module; rows of this dtype give the same numbers in both.

        Args:
            dtype: dtype of the module.
        """
        check_is_fitted(self)
        n_features, n_frequencies = self.weights_["frequencies"].shape
        with torch.device("meta"):  # nothing is drawn
            module = LearnedFourierFeatures(
                n_features,
                self._n_features_out,
                n_frequencies=n_frequencies,
                hidden_features=len(self.weights_["weight_hidden"])
                if "weight_hidden" in self.weights_
                else None,
                scale=self._scale,
                seed=0,
            )
        module = module.to(dtype).to_empty(device="cpu")
        module.load_state_dict({name: torch.from_numpy(array) for name, array in self.weights_.items()})
        return module

    @classmethod
    def from_module(cls, module: LearnedFourierFeatures) -> LearnedFourierTransformer:
        """A fitted transformer that gives the numbers of a module. Fitting it again trains another.

        Args:
            module: its weights are copied.
        """
        transformer = cls(
            module.out_features,
            n_frequencies=module.n_frequencies,
            hidden_features=module.hidden_features,
            scale=module.scale,
        )
        transformer.n_features_in_ = module.in_features
        return transformer._take(module)

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_["bias"])

    @own_modes()
    def _fit(self, X: Any, y: Any, *, out_of_fold: bool) -> Any:
        settings = Settings.of(self)
        check_integer(n_components=self.n_components)
        if y is None:
            check_target(y, 0, type(self).__name__)
        X = check_rows(self, X, reset=True)
        y = check_target(y, len(X))
        objective, target = make_objective(y, self.target_type)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        # Before the long work, so that a wrong cv is known at once.
        classes = objective.classes is not None
        splits = make_splits(self.cv, X, y, classes=classes, seed=seed) if out_of_fold else []
        scaler = StandardScaler().set_output(transform="default").fit(X)  # whatever scikit-learn is set to
        check_spread(scaler.scale_)
        batch = _batch(scaler.transform(X))

        def fit_from(scale: float, splits: Sequence[Any]) -> Any:
            features = LearnedFourierFeatures(
                X.shape[1],
                self.n_components,
                n_frequencies=self.n_frequencies,
                hidden_features=self.hidden_features,
                scale=scale,
                seed=seed,
            )
            return fit_with_folds(
                FourierNetwork(features, objective.n_outputs),
                batch,
                target,
                objective,
                settings,
                splits=splits,
                seed=seed,
                vectors=fourier_vectors,
                aligned=[slice(None)],
            )

        scale = self._first_scale(X.shape[1], lambda scale: min(fit_from(scale, [])[1], default=0.0))
        network, losses, vectors = fit_from(scale, splits)
        self._take(unscaled(network.features.cpu(), scaler.mean_, scaler.scale_))
        self.target_type_, self.classes_ = objective.target_type, objective.classes
        self.validation_losses_, self.n_iter_ = losses, len(losses) - 1 if losses else settings.max_iter
        if losses and min(losses) > _HARDLY * losses[0]:
            warnings.warn(
                f"LearnedFourierTransformer has hardly learned anything: the loss on held-out rows went from "
                f"{losses[0]:.3g} to {min(losses):.3g} from scale={scale:.2g}",
                ConvergenceWarning,
                stacklevel=4,  # here, the wrapper of own_modes, fit
            )
        self._seen = _mark(X)
        return None if vectors is None else vectors.astype(X.dtype)

    def _first_scale(self, n_features: int, loss_of: Callable[[float], float]) -> float:
        """The scale that is given, or the smallest that no larger one beats on the held-out rows."""
        if not isinstance(self.scale, str):
            return self.scale
        if self.scale != "auto":
            raise ValueError(f"scale must be 'auto' or a number, got {self.scale!r}")
        scales = [factor * RADIAN / n_features**0.5 for factor in _FACTORS]
        if not self.validation_fraction:
            return scales[0]
        best, lowest = scales[0], loss_of(scales[0])
        for scale in scales[1:]:
            if (loss := loss_of(scale)) < _BETTER * lowest:
                best, lowest = scale, loss
        return best

    def _take(self, module: LearnedFourierFeatures) -> LearnedFourierTransformer:
        self.weights_ = {name: tensor.cpu().numpy().copy() for name, tensor in module.state_dict().items()}
        self._scale, self._seen = module.scale, None
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_spread(scale: np.ndarray) -> None:
    """The standard deviations of columns leave frequencies that float32 holds.

    Raises: ValueError for one outside of 1e-30 to 1e30.
    """
    outside = ~((scale > 1e-30) & (scale < 1e30))
    if outside.any():
        raise ValueError(
            "X must have standard deviations between 1e-30 and 1e30, "
            f"got {scale[outside][0]:g}: scale it first"
        )


def _batch(values: np.ndarray) -> TableBatch:
    """Rows of numbers alone."""
    none = torch.zeros(len(values), 0, dtype=torch.int64)
    numbers = torch.from_numpy(values.astype(np.float32))
    return TableBatch(none, numbers, torch.zeros_like(numbers, dtype=torch.bool), none)


def _mark(X: np.ndarray) -> str:
    """A short mark of the rows."""
    return fingerprint(_batch(X))
