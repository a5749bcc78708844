"""A scikit-learn transformer of random Fourier features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabembed.estimators import rbf_sampler
from tabembed.estimators.lengthscale import all_numbers, median_distance, scale_lengthscale
from tabembed.estimators.module_rows import tensor_of
from tabembed.estimators.tables import check_rows
from tabembed.functional.random_features import block_size, phases_of_blocks, write_waves
from tabembed.nn.draws import generator_of
from tabembed.nn.random_fourier import RandomFourierFeatures, check_lengthscale, count_frequencies
from tabembed.nn.spectral import draw_frequencies
from tabembed.training.modes import own_modes

if TYPE_CHECKING:
    from sklearn.kernel_approximation import RBFSampler

_LAW = ("n_components", "kernel", "sampler", "features")
"""What the frequencies are drawn by; it does not change after that."""


class RandomFourierTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Map rows to random waves whose inner products approximate a kernel.

    Does what ``RBFSampler`` does, with more kernels and, at the same width, a smaller error; a linear
    model on the output approximates a kernel machine. Rows are best standardised first.

    Args:
        n_components: width of the output.
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"`` or ``"laplacian"``.
        lengthscale: distance over which the kernel falls. ``"median"``: the median distance of two
            rows (of at most 1000, L1 for ``laplacian``). ``"scale"``: √(d · variance / 2), which for
            the RBF kernel is scikit-learn's gamma = "scale". A number: ℓ, where scikit-learn's gamma
            is 1/(2ℓ²), and 1/ℓ of ``laplacian``. Or one number for each feature.
        sampler: ``"iid"``, ``"orthogonal"``, ``"sobol"`` or ``"auto"``, as ``RandomFourierFeatures``.
        features: ``"sincos"``, or ``"cos"`` with random offsets, as ``RBFSampler`` has them.
        random_state: everything random follows from it.

    Attributes:
        frequencies_: ``(n_features, n_frequencies)``, radians per unit of X.
        unit_frequencies_: the same for lengthscale 1, as drawn.
        offsets_: ``(n_components,)`` radians; ``None`` for ``sincos``.
        lengthscale_: the lengthscale in use.
        n_features_in_: number of features.
        feature_names_in_: their names, where they had any.

    float32 in gives float32 out, anything else float64; a CSR matrix is never filled in.

    Raises: ValueError when an argument breaks its rule, with its name in the message, and when X
        holds NaN or infinity.

    Source: Rahimi & Recht 2007, "Random features for large-scale kernel machines", algorithm 1.

    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> features = RandomFourierTransformer(200, random_state=0)
    >>> make_pipeline(StandardScaler(), features, RidgeClassifier()).fit(X, y).score(X, y) > 0.95
    True
    """

    _moments: StandardScaler | None

    def __init__(
        self,
        n_components: int = 256,
        *,
        kernel: str = "rbf",
        lengthscale: Any = "median",
        sampler: str = "auto",
        features: str = "sincos",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.sampler = sampler
        self.features = features
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @own_modes()
    def fit(self, X: Any, y: Any = None) -> RandomFourierTransformer:
        """Draw the frequencies, and choose the lengthscale where it is left to the rows.

        Args:
            X: rows ``(n_rows, n_features)``, an array, a frame or a CSR matrix.
            y: ignored.
        """
        X = check_rows(self, X, reset=True, accept_sparse="csr")
        random_state = self._draw(X)
        if self._is_chosen("median"):
            self._moments = None
            return self._take(_usable(median_distance(X, self.kernel, random_state)))
        return self._add(X)

    @own_modes()
    def partial_fit(self, X: Any, y: Any = None) -> RandomFourierTransformer:
        """Fit on rows that come in parts; the result is that of all rows at once.

        The frequencies stay as they were drawn, by the first part, ``fit`` or a module; the lengthscale
        is that of the argument as it is now.

        Args:
            X: more rows; the first of them fix the number of features.
            y: ignored.

        Raises: ValueError with ``lengthscale="median"``, which needs all rows at once; with ``"scale"``
            after rows that were fitted with another lengthscale, and so not counted; and when an argument
            that the frequencies were drawn by has changed since.
        """
        if self._is_chosen("median"):
            raise ValueError(
                "lengthscale must be 'scale', a number or an array for partial_fit, got 'median'"
            )
        first = not hasattr(self, "frequencies_")
        if not first:
            self._check_law()
        X = check_rows(self, X, reset=first, accept_sparse="csr")
        if first:
            self._draw(X)
        return self._add(X)

    @own_modes()
    def transform(self, X: Any) -> Any:
        """Features of rows: ``(n_rows, n_components)``.

        Args:
            X: rows ``(n_rows, n_features)``, an array, a frame or a CSR matrix.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse="csr")
        frequencies = torch.from_numpy(self.frequencies_.astype(X.dtype))
        offsets = None if self.offsets_ is None else torch.from_numpy(self.offsets_.astype(X.dtype))
        out = np.empty((X.shape[0], self._n_features_out), X.dtype)  # numpy's huge pages halve the time
        write_waves(_phases(X, frequencies), offsets, torch.from_numpy(out))
        return out

    def to_module(self, dtype: torch.dtype = torch.float32) -> RandomFourierFeatures:
        """The fitted map as a PyTorch module; rows of this dtype give the same numbers in both.

        Args:
            dtype: dtype of the module.
        """
        check_is_fitted(self)
        law = dict(self._law)
        n_components, lengthscale = law.pop("n_components"), np.asarray(self.lengthscale_).tolist()
        with torch.device("meta"):  # nothing is drawn
            module = RandomFourierFeatures(
                self.n_features_in_, n_components, lengthscale=lengthscale, seed=self._seed, **law
            )
        module = module.to(dtype).to_empty(device="cpu")
        arrays = {
            "frequencies": self.unit_frequencies_,
            "offsets": self.offsets_,
            "fixed_lengthscale": self.lengthscale_,
        }
        held = {name: torch.from_numpy(np.array(x)) for name, x in arrays.items() if x is not None}
        module.load_state_dict(held)
        return module

    @classmethod
    def from_module(cls, module: RandomFourierFeatures) -> RandomFourierTransformer:
        """A fitted transformer that gives the numbers of a module.

        Fitting it again draws other frequencies, for the lengthscale that the module has now.

        Args:
            module: its frequencies and lengthscale are copied, trained or not.
        """
        lengthscale = module.lengthscale.detach().double().cpu().tolist()
        transformer = cls(
            module.out_features,
            kernel=module.kernel_name,
            lengthscale=lengthscale,
            sampler=module.sampler,
            features=module.features,
        )
        transformer.n_features_in_ = module.in_features
        offsets = None if module.offsets is None else _as_numpy(module.offsets)
        transformer._hold(
            _as_numpy(module.frequencies), offsets, seed=module.seed, dtype=np.dtype(np.float64)
        )
        return transformer._take(lengthscale)

    @classmethod
    def from_rbf_sampler(cls, sampler: RBFSampler) -> RandomFourierTransformer:
        """A fitted transformer that gives the features of a fitted ``RBFSampler``.

        Args:
            sampler: its weights and offsets are copied.
        """
        return rbf_sampler.from_rbf_sampler(cls, sampler)

    def to_rbf_sampler(self) -> RBFSampler:
        """A fitted ``RBFSampler`` that gives the same features.

        Raises: ValueError unless the map has what an ``RBFSampler`` can express: ``kernel="rbf"``,
            ``features="cos"`` and one lengthscale.
        """
        check_is_fitted(self)
        return rbf_sampler.to_rbf_sampler(self)

    @property
    def _n_features_out(self) -> int:
        return self.frequencies_.shape[1] * (2 if self.offsets_ is None else 1)

    def _is_chosen(self, name: str) -> bool:
        """Whether the lengthscale is left to the rows in this way."""
        if isinstance(self.lengthscale, str) and self.lengthscale not in ("median", "scale"):
            raise ValueError(
                "lengthscale must be 'median', 'scale', a number, or one for each feature, "
                f"got {self.lengthscale!r}"
            )
        return isinstance(self.lengthscale, str) and self.lengthscale == name

    def _draw(self, X: Any) -> np.random.RandomState:
        """Draw the frequencies; gives back what the rest of a fit draws from."""
        n_frequencies = count_frequencies(self.features, n_components=self.n_components)
        random_state = check_random_state(self.random_state)
        seed = int(random_state.randint(2**31 - 1))
        drawn, offsets = draw_frequencies(
            self.kernel, self.sampler, X.shape[1], n_frequencies, generator_of(seed)
        )
        # Rounded to what float32 holds, so that a module of either precision has the same numbers.
        held = _as_numpy(offsets.float()) if self.features == "cos" else None
        self._hold(_as_numpy(drawn.float()), held, seed=seed, dtype=X.dtype)
        return random_state

    def _hold(self, unit: np.ndarray, offsets: np.ndarray | None, *, seed: int | None, dtype: Any) -> None:
        """Take what was drawn by the arguments as they are now."""
        self.unit_frequencies_, self.offsets_ = unit, offsets
        self._law = {name: getattr(self, name) for name in _LAW}
        self._seed, self._weights_dtype = seed, dtype
        self._moments = StandardScaler(with_mean=False)  # sparse rows have no mean to take off

    def _check_law(self) -> None:
        for name, held in self._law.items():
            if (given := getattr(self, name)) != held:
                raise ValueError(f"{name} must stay {held!r} for partial_fit, got {given!r}")

    def _add(self, X: Any) -> RandomFourierTransformer:
        """Take the lengthscale that is given, or that of the rows so far and these."""
        if not self._is_chosen("scale"):
            self._moments = None  # these rows are not among them
            return self._take(check_lengthscale(self.lengthscale, X.shape[1]))
        if self._moments is None:
            rule = "lengthscale must be 'scale' from the first rows on for partial_fit"
            raise ValueError(f"{rule}, got it after rows fitted with another one")
        self._moments.partial_fit(all_numbers(X))
        return self._take(_usable(scale_lengthscale(self._moments, X.shape[1])))

    def _take(self, lengthscale: float | list[float]) -> RandomFourierTransformer:
        exact = np.asarray(lengthscale, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            rounded = exact.astype(np.float32).astype(np.float64)  # as the frequencies are
        scale = np.where((rounded > 0) & np.isfinite(rounded), rounded, exact)
        self.lengthscale_ = scale if scale.ndim else float(scale)
        self.frequencies_ = self.unit_frequencies_ / scale.reshape(-1, 1)
        return self


def _phases(X: Any, frequencies: Tensor) -> Iterator[Tensor]:
    """Phases of rows, a block at a time."""
    size = block_size(frequencies)
    blocks = (X[start : start + size] for start in range(0, X.shape[0], size))
    if sparse.issparse(X):
        return (torch.from_numpy(rows @ frequencies.numpy()) for rows in blocks)
    tensors = (tensor_of(rows) for rows in blocks)
    return phases_of_blocks(tensors, frequencies)


def _as_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().cpu().numpy().copy()


def _usable(lengthscale: float) -> float:
    """A lengthscale that rows gave, if numbers of that size can be worked with."""
    if not 1e-30 < lengthscale < 1e30:
        raise ValueError(
            "X must have distances between 1e-30 and 1e30, "
            f"got a lengthscale of {lengthscale:g}: scale it first"
        )
    return lengthscale
