"""Random Fourier features of a kernel, as a module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from tabembed._checks import (
    check_choice,
    check_columns,
    check_integer,
    check_last_dim,
    check_number_tensor,
    check_positive,
    check_scale,
    check_seed,
    is_concrete,
)
from tabembed.functional.covariance import covariance
from tabembed.functional.phase import without_autocast
from tabembed.functional.random_features import block_size, phases_of_blocks, random_features, write_waves
from tabembed.nn.draws import generator_of, split_seed
from tabembed.nn.per_column import PerColumn
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.nn.spectral import choose_sampler, draw_frequencies
from tabembed.schema import ContinuousColumn

FEATURES = ("sincos", "cos")
TRAINABLE: dict[bool | str, bool | str] = {
    False: False,
    True: "frequencies",
    "lengthscale": "lengthscale",
    "frequencies": "frequencies",
}


class RandomFourierFeatures(WideModule):
    """Map rows to random waves whose inner products approximate a kernel.

    ``sincos`` is sqrt(2/D) · [cos(xW), sin(xW)] with D/2 frequencies, ``cos`` is
    sqrt(2/D) · cos(xW + b) with D of them; the columns of W follow the kernel's spectral law,
    divided by the lengthscale. For any two rows the mean over all draws is exactly the kernel.

    Args:
        in_features: number of features of a row.
        out_features: D, the width of the output.
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"`` or ``"laplacian"``
            (of the L1 distance); formulas under ``functional.covariance``.
        lengthscale: distance over which the kernel falls, in the unit of the rows: one number, or
            one for each feature. scikit-learn's gamma is 1/(2 ℓ²), and 1/ℓ of ``laplacian``.
        sampler: how the frequencies depend on each other: ``"iid"``, ``"orthogonal"`` (not for
            ``laplacian``), ``"sobol"``, or ``"auto"``: Sobol for at most 12 features and at least
            32 frequencies for each of them, else orthogonal, else iid.
        features: ``"sincos"``, or ``"cos"`` with random offsets b, which takes any D.
        trainable: ``False``, ``"lengthscale"`` (its logarithm is learned) or ``"frequencies"``, which
            ``True`` stands for.
        seed: seed of the draw; ``None`` draws from torch's global generator.

    Shape:
        - x: ``(*, in_features)``, any dtype; phases are float32 or wider
        - output: ``(*, out_features)``, in the module's dtype

    Raises: ValueError when an argument breaks its rule, with its name in the message.

    Source: Rahimi & Recht 2007, "Random features for large-scale kernel machines", algorithm 1.

    >>> features = RandomFourierFeatures(2, 1024, lengthscale=2.0, seed=0)
    >>> rows = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    >>> features.kernel(rows, rows).round(decimals=2)
    tensor([[1.0000, 0.7800],
            [0.7800, 1.0000]])
    >>> features.exact_kernel(rows, rows).round(decimals=2)
    tensor([[1.0000, 0.7800],
            [0.7800, 1.0000]])
    """

    wide = ("frequencies", "offsets", "fixed_lengthscale", "log_lengthscale")
    frequencies: Tensor
    offsets: Tensor | None
    fixed_lengthscale: Tensor  # None where it is learned
    log_lengthscale: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        kernel: str = "rbf",
        lengthscale: float | Sequence[float] = 1.0,
        sampler: str = "auto",
        features: str = "sincos",
        trainable: bool | str = False,
        seed: int | None = None,
    ) -> None:
        check_integer(in_features=in_features)
        n_frequencies = count_frequencies(features, out_features=out_features)
        choose_sampler(kernel, sampler, in_features, n_frequencies)
        check_choice(TRAINABLE, trainable=trainable)
        check_seed(seed)
        trainable = TRAINABLE[trainable]
        super().__init__()
        self.in_features, self.out_features, self.seed = in_features, out_features, seed
        self.kernel_name, self.sampler, self.features, self.trainable = kernel, sampler, features, trainable
        self.first_lengthscale = check_lengthscale(lengthscale, in_features)
        self._hold(
            "frequencies",
            torch.empty(in_features, n_frequencies, dtype=wide_dtype()),
            trainable == "frequencies",
        )
        self._hold(
            "offsets", torch.empty(n_frequencies, dtype=wide_dtype()) if features == "cos" else None, False
        )
        scale, learned = torch.tensor(self.first_lengthscale, dtype=wide_dtype()), trainable == "lengthscale"
        self._hold("fixed_lengthscale", None if learned else scale, False)
        self._hold("log_lengthscale", torch.empty_like(scale) if learned else None, True)
        self.reset_parameters()

    def _hold(self, name: str, tensor: Tensor | None, learned: bool) -> None:
        if learned and tensor is not None:
            self.register_parameter(name, nn.Parameter(tensor))
        else:
            self.register_buffer(name, tensor)

    @classmethod
    def from_columns(
        cls,
        columns: Sequence[ContinuousColumn],
        d_embedding: int = 16,
        *,
        kernel: str = "rbf",
        lengthscale: float = 1.0,
        sampler: str = "auto",
        features: str = "sincos",
        trainable: bool | str = False,
        seed: int | None = None,
    ) -> PerColumn:
        """One map of its own for each of these columns of a schema; a missing number has a learned row."""
        check_columns(columns, ContinuousColumn)
        *seeds, last = split_seed(seed, len(columns) + 1)
        maps = [
            cls(
                1,
                d_embedding,
                kernel=kernel,
                lengthscale=lengthscale,
                sampler=sampler,
                features=features,
                trainable=trainable,
                seed=own,
            )
            for own in seeds
        ]
        return PerColumn(maps, d_embedding, seed=last)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the frequencies anew and go back to the first lengthscale."""
        if self.frequencies.is_meta:
            return
        # Drawn in float64 on the CPU, so that a seed means the same on every device; rounded once, so
        # that it means the same in every precision.
        sizes = (self.in_features, self.frequencies.shape[1])
        drawn, offsets = draw_frequencies(self.kernel_name, self.sampler, *sizes, generator_of(self.seed))
        self.frequencies.copy_(drawn.float())
        if self.offsets is not None:
            self.offsets.copy_(offsets.float())
        scale = torch.tensor(self.first_lengthscale, dtype=torch.float64, device="cpu")
        if self.log_lengthscale is None:
            self.fixed_lengthscale.copy_(scale)
        else:
            self.log_lengthscale.copy_(scale.log())

    @property
    def lengthscale(self) -> Tensor:
        """The lengthscale in use: ``()``, or ``(in_features,)``."""
        return self.fixed_lengthscale if self.log_lengthscale is None else self.log_lengthscale.exp()

    def forward(self, x: Tensor) -> Tensor:
        """Features of rows."""
        return self._map(x).to(self.dtype)

    def _map(self, x: Tensor) -> Tensor:
        check_last_dim(x, self.in_features, "x")
        check_number_tensor(x, "x")
        frequencies = self.frequencies / self.lengthscale.unsqueeze(-1)
        learns = torch.is_grad_enabled() and (x.requires_grad or frequencies.requires_grad)
        if learns or not is_concrete(x):
            return random_features(x, frequencies, self.offsets)
        wide = torch.promote_types(frequencies.dtype, torch.float64 if _is_wide(x) else torch.float32)
        out = x.new_empty(*x.shape[:-1], self.out_features, dtype=wide)
        blocks = x.reshape(-1, self.in_features).split(block_size(frequencies))
        angles = phases_of_blocks(blocks, frequencies)
        write_waves(angles, self.offsets, out.view(-1, self.out_features))
        return out

    def kernel(self, x: Tensor, y: Tensor) -> Tensor:
        """The approximate kernel of every row of ``x`` with every row of ``y``: ``(*, n, m)``."""
        self._check_rows(x=x, y=y)
        a, b = self._map(x), self._map(y)
        with without_autocast(x.device):
            return (a @ b.to(a).mT).to(self.dtype)

    def exact_kernel(self, x: Tensor, y: Tensor) -> Tensor:
        """The kernel that is approximated, ``(*, n, m)``, at the lengthscale in use."""
        return self._covariance(x, y).to(self.dtype)

    def _covariance(self, x: Tensor, y: Tensor, stretch: float = 1.0) -> Tensor:
        self._check_rows(x=x, y=y)
        return covariance(self.kernel_name, x, y, self.lengthscale / stretch)

    def _check_rows(self, **rows: Tensor) -> None:
        for name, tensor in rows.items():
            check_last_dim(tensor, self.in_features, name)
            check_number_tensor(tensor, name)
            if tensor.ndim < 2:
                got = tuple(tensor.shape)
                raise ValueError(f"{name} must have at least two dimensions, got shape {got}")

    def expected_mse(self, x: Tensor, y: Tensor) -> Tensor:
        """Variance of every entry of ``kernel(x, y)`` over all draws, ``(*, n, m)``, by the iid formula.

        ``sincos`` (1 + k(2δ) − 2k²)/D, ``cos`` (1 + k(2δ)/2 − k²)/D. The other samplers are usually
        below: for them it is a forecast on the safe side, without a guarantee.

        Source: Sutherland & Schneider 2015, arXiv:1506.02785, section 3.
        """
        k, double = self._covariance(x, y), self._covariance(x, y, stretch=2.0)
        half = 1.0 if self.features == "sincos" else 0.5
        variance = (1 + half * double - 2 * half * k.square()).clamp(min=0)  # rounding at k = 1
        return (variance / self.out_features).to(self.dtype)

    def n_features_for(self, error: float, x: Tensor | None = None, y: Tensor | None = None) -> int:
        """Smallest ``out_features`` whose forecast root mean square error is at most ``error``.

        The forecast is ``expected_mse``, so it is exact for ``sampler="iid"`` alone.

        Args:
            error: root of the mean square of approximate minus exact kernel.
            x: rows to average over; ``None`` is the worst case, two rows far apart.
            y: rows to pair them with; ``None`` is ``x``.
        """
        check_positive(error=error)
        if x is None:
            needed = 1.0
        else:
            needed = self.expected_mse(x, x if y is None else y).double().mean().item() * self.out_features
        pair = 2 if self.features == "sincos" else 1
        return max(1, math.ceil(needed / error**2 / pair)) * pair

    def extra_repr(self) -> str:
        """Sizes and choices."""
        return (
            f"{self.in_features}, {self.out_features}, kernel={self.kernel_name!r}, "
            f"sampler={self.sampler!r}, features={self.features!r}, trainable={self.trainable!r}"
        )


def count_frequencies(features: str, **width: Any) -> int:
    """Number of frequencies of a map of some width, given by its public name.

    Raises: ValueError for an unknown kind of features, an odd width where sines and cosines come in
        pairs, or a width below 1; TypeError for a width that is no integer.
    """
    check_integer(**width)
    ((name, n),) = width.items()
    check_choice(FEATURES, features=features)
    if features == "cos":
        return n
    if n % 2:
        raise ValueError(f"{name} must be even for features='sincos', got {n}")
    return n // 2


def check_lengthscale(lengthscale: Any, in_features: int) -> float | list[float]:
    """One number from 1e-30 to 1e30, or a list of one per feature.

    Raises: TypeError for another kind, ValueError for another length, and for what is out of range.
    """
    plain = _plain(lengthscale)
    single = not isinstance(plain, list | tuple)
    numbers = [plain] if single else [_plain(number) for number in plain]
    if any(isinstance(number, bool) or not isinstance(number, Real) for number in numbers):
        raise TypeError(f"lengthscale must be a number, or one for each feature, got {lengthscale!r}")
    if not single and len(numbers) != in_features:
        raise ValueError(f"lengthscale must have {in_features} numbers, one per feature, got {len(numbers)}")
    for number in numbers:
        check_scale(lengthscale=number)
    return float(numbers[0]) if single else [float(number) for number in numbers]


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value  # arrays and tensors of any size


def _is_wide(x: Tensor) -> bool:
    return not x.is_floating_point() or x.dtype.itemsize > 4
