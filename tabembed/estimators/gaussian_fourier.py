"""A scikit-learn transformer of sines and cosines of every column."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tabembed._checks import check_integer
from tabembed.estimators.module_rows import module_rows
from tabembed.estimators.tables import check_names, check_rows
from tabembed.functional.phase import RADIAN
from tabembed.nn.draws import split_seed
from tabembed.nn.gaussian_fourier import GaussianFourierProjection, check_projection
from tabembed.nn.per_column import PerColumn
from tabembed.training.modes import own_modes


class GaussianFourierTransformer(TransformerMixin, BaseEstimator):
    """Give every column the sines and cosines of its numbers at random frequencies.

    A linear model on them fits a smooth curve of every column, and their sum. Standardise columns first:
    the frequencies do not depend on the data, so ``partial_fit`` is exact whatever the parts.

    Args:
        n_frequencies: frequencies of a column; each gives a sine and a cosine.
        scale: standard deviation of the frequencies, in turns per unit of the column; one number, or one
            for each column. the default is one radian, 0.16: curves with a bend or two per unit. A larger one
            follows finer detail and needs more frequencies; the 16 that suits a time in [0, 1] is
            noise on a standardised column.
        log: take the logarithm first; columns must be above 0 then.
        epsilon: with ``log``, numbers below this count as this; ``None`` refuses numbers of 0 and below.
        order: which half of a column's features comes first, ``"sin_cos"`` or ``"cos_sin"``.
        random_state: the frequencies follow from it.

    Attributes:
        frequencies_: ``(n_features, n_frequencies)``, turns per unit of the column.
        n_features_in_: number of columns.
        feature_names_in_: their names, where they had any.

    float32 in gives float32 out, anything else float64, whose phases are exact up to 2·10⁹ turns and beyond.

    Raises: ValueError when an argument breaks its rule, with its name in the message, when X holds NaN
        or infinity, and when ``log`` meets a number of 0 or below without an ``epsilon``.

    Source: Tancik et al. 2020, arXiv:2006.10739, equation 5.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"age": [0.5, -1.0, 0.0]})
    >>> transformer = GaussianFourierTransformer(2, random_state=0).fit(X)
    >>> transformer.get_feature_names_out().tolist()
    ['age_sin0', 'age_sin1', 'age_cos0', 'age_cos1']
    >>> transformer.transform(X)[2].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """

    def __init__(
        self,
        n_frequencies: int = 8,
        *,
        scale: Any = RADIAN,
        log: bool = False,
        epsilon: float | None = None,
        order: str = "sin_cos",
        random_state: Any = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.scale = scale
        self.log = log
        self.epsilon = epsilon
        self.order = order
        self.random_state = random_state

    @own_modes()
    def fit(self, X: Any, y: Any = None) -> GaussianFourierTransformer:
        """Draw the frequencies; of the rows, only the number of columns matters.

        Args:
            X: rows ``(n_rows, n_features)``, an array or a frame.
            y: ignored.
        """
        X = check_rows(self, X, reset=True)
        scales = self._check_arguments(X.shape[1])
        self._check_above_zero(X, self.log, self.epsilon)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        columns = zip(scales, split_seed(seed, len(scales)), strict=True)
        width = 2 * self.n_frequencies
        drawn = [GaussianFourierProjection(width, scale=s, seed=own).frequencies for s, own in columns]
        self.frequencies_ = torch.stack(drawn).double().numpy()
        self._scales, self._log, self._epsilon, self._order = scales, self.log, self.epsilon, self.order
        return self

    @own_modes()
    def partial_fit(self, X: Any, y: Any = None) -> GaussianFourierTransformer:
        """Fit to the first part; later ones are checked, and change nothing: nor do arguments set since then.

        Args:
            X: more rows.
            y: ignored.
        """
        if not hasattr(self, "frequencies_"):
            return self.fit(X)
        self._check_above_zero(check_rows(self, X, reset=False), self._log, self._epsilon)
        return self

    @own_modes()
    def transform(self, X: Any) -> Any:
        """Features of rows, those of a column side by side.

        Args:
            X: rows ``(n_rows, n_features)``, an array or a frame.

        Shape:
            - output: ``(n_rows, n_features · 2 · n_frequencies)``
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        self._check_above_zero(X, self._log, self._epsilon)
        module = self.to_module(torch.float32 if X.dtype == np.float32 else torch.float64)
        return module_rows(module, X, 2 * self.frequencies_.size)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: ``age_sin0``, …, ``age_cos0``, …

        Args:
            input_features: names of the columns; ``None`` takes those of the fit, or ``x0``, ``x1``, …
        """
        check_is_fitted(self)
        check_names(self, input_features)
        n_features, n_frequencies = self.frequencies_.shape
        waves = [f"{wave}{k}" for wave in self._order.split("_") for k in range(n_frequencies)]
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(n_features)])
        names = names if input_features is None else input_features
        return np.array([f"{name}_{wave}" for name in names for wave in waves], dtype=object)

    def to_module(self, dtype: torch.dtype = torch.float32) -> PerColumn:
        """The fitted map as a PyTorch module; rows of this dtype give the same numbers in both.

        Its output is ``(*, n_features, 2 · n_frequencies)``: flatten the last two for the transformer's.
        Where numbers are said to be missing, which the transformer does not know, it gives zeros.

        Args:
            dtype: dtype of the module.
        """
        check_is_fitted(self)
        width = 2 * self.frequencies_.shape[1]
        held: dict[str, Any] = {"log": self._log, "epsilon": self._epsilon, "order": self._order, "seed": 0}
        columns = [GaussianFourierProjection(width, scale=scale, **held) for scale in self._scales]
        module = PerColumn(columns, width, seed=0).to(dtype)
        with torch.no_grad():
            module.missing.zero_()
            for column, frequencies in zip(columns, self.frequencies_, strict=True):
                column.frequencies.copy_(torch.from_numpy(frequencies))
        return module

    @classmethod
    def from_module(cls, module: PerColumn | GaussianFourierProjection) -> GaussianFourierTransformer:
        """A fitted transformer that gives the numbers of a module. Fitting it again draws others.

        Args:
            module: a projection, for one column, or what ``GaussianFourierProjection.from_columns`` and
                ``to_module`` make; its frequencies are copied, trained or not.

        Raises: TypeError for another module; ValueError when the columns differ in more than their
            frequencies.
        """
        columns: list[Any] = list(module.columns) if isinstance(module, PerColumn) else [module]
        for column in columns:
            if not isinstance(column, GaussianFourierProjection):
                raise TypeError(f"module must be made of GaussianFourierProjection, got {column!r}")
            first, own = ((m.embed_dim, m.log, m.epsilon, m.order) for m in (columns[0], column))
            if first != own:
                raise ValueError(f"module must have columns alike, got {columns[0]!r} and {column!r}")
        width, log, epsilon, order = first
        scales = [column.scale for column in columns]
        scale = scales[0] if len(set(scales)) == 1 else scales
        transformer = cls(width // 2, scale=scale, log=log, epsilon=epsilon, order=order)
        transformer.n_features_in_ = len(columns)
        transformer._scales, transformer._log = scales, log
        transformer._epsilon, transformer._order = epsilon, order
        frequencies = [column.frequencies.detach().double().cpu() for column in columns]
        transformer.frequencies_ = torch.stack(frequencies).numpy()
        return transformer

    def _check_arguments(self, n_features: int) -> list[float]:
        """Check what ``__init__`` stored; one scale for each column."""
        check_integer(n_frequencies=self.n_frequencies)
        scales = self.scale if np.ndim(self.scale) else [self.scale] * n_features
        if len(scales) != n_features:
            got = f"{len(scales)} numbers for {n_features} columns"
            raise ValueError(f"scale must be one number, or one for each column, got {got}")
        for scale in scales:
            check_projection(scale, self.log, self.epsilon, self.order)
        return [float(scale) for scale in scales]

    def _check_above_zero(self, X: np.ndarray, log: bool, epsilon: float | None) -> None:
        if log and epsilon is None and (X <= 0).any():
            j = int((X <= 0).any(0).argmax())
            name = getattr(self, "feature_names_in_", range(X.shape[1]))[j]
            got = f"got {X[:, j].min():g}; give epsilon to count small numbers as that"
            raise ValueError(f"column {name!r}: must be above 0 when log=True and epsilon=None, {got}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.log and self.epsilon is None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
