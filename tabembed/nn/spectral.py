"""Random frequencies with the spectral law of a kernel: independent, orthogonal or evenly spread."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tabembed._checks import check_choice
from tabembed.functional.covariance import KERNELS

SAMPLERS = ("auto", "iid", "orthogonal", "sobol")
# Frequencies of a Matérn kernel of smoothness ν follow Student's t with 2ν degrees of freedom.
_DEGREES = {"matern12": 1, "matern32": 3, "matern52": 5}
_MOST = torch.quasirandom.SobolEngine.MAXDIM - 2  # one dimension for the heavy tail, one for the offsets
_LAST_BIT = 2.0**-30  # of torch's Sobol points


def choose_sampler(kernel: str, sampler: str, in_features: int, n_frequencies: int) -> str:
    """The sampler that is meant, ``"auto"`` replaced by what has the smallest error there.

    Raises: ValueError for an unknown kernel or sampler, for orthogonal frequencies of the L1 kernel,
        which is not the same in every direction, and for more features than Sobol sequences have.
    """
    check_choice(KERNELS, kernel=kernel)
    check_choice(SAMPLERS, sampler=sampler)
    if sampler == "orthogonal" and kernel == "laplacian":
        raise ValueError("sampler must be auto, iid or sobol for the laplacian kernel, got 'orthogonal'")
    if sampler == "sobol" and in_features > _MOST:
        raise ValueError(f"in_features must be at most {_MOST} for sampler='sobol', got {in_features}")
    if sampler != "auto":
        return sampler
    if in_features <= 12 and n_frequencies >= 32 * in_features:
        return "sobol"
    return "iid" if kernel == "laplacian" else "orthogonal"


def draw_frequencies(
    kernel: str, sampler: str, in_features: int, n_frequencies: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Frequencies of a kernel of lengthscale 1, and offsets, each of them alone exactly by its law.

    Args:
        kernel: one of ``KERNELS``.
        sampler: how they depend on each other. ``"iid"``: not at all. ``"orthogonal"``: blocks of
            ``in_features`` orthogonal directions, uniform over all rotations; their lengths are
            drawn apart, one in each equally likely interval. ``"sobol"``: a scrambled Sobol
            sequence in place of independent uniform numbers. ``"auto"``: see ``choose_sampler``.
        in_features: number of features of a row.
        n_frequencies: number of frequencies.
        generator: where the numbers come from; ``None`` is torch's global generator.

    Shape:
        - frequencies: ``(in_features, n_frequencies)`` float64 on the CPU, radians per lengthscale
        - offsets: ``(n_frequencies,)`` float64, uniform in [0, 2π) radians

    Raises: ValueError as ``choose_sampler``.

    Source: Rahimi & Recht 2007; Yu et al. 2016, arXiv:1610.09072 (orthogonal; NOTE[DIFF]: stratified
    lengths, and the lengths never come from the rotation's own matrix); Avron et al. 2016 (Sobol).

    >>> frequencies, offsets = draw_frequencies("rbf", "orthogonal", 3, 8, torch.Generator())
    >>> frequencies.shape, offsets.shape
    (torch.Size([3, 8]), torch.Size([8]))
    """
    sampler = choose_sampler(kernel, sampler, in_features, n_frequencies)
    if sampler == "orthogonal":
        uniform = stratified(1, n_frequencies, 3, generator)
        drawn = orthogonal_frequencies(kernel, in_features, uniform, generator)
    else:
        points = sobol if sampler == "sobol" else independent
        uniform = points(1, n_frequencies, in_features + 2, generator)
        drawn = frequencies_at(kernel, uniform[..., :-1])
    return drawn[0].mT.contiguous(), 2 * math.pi * uniform[0, :, -1]


def independent(n_draws: int, n: int, size: int, generator: torch.Generator | None = None) -> Tensor:
    """Uniform points ``(n_draws, n, size)`` of the open unit cube, nothing depends on anything."""
    uniform = torch.rand(n_draws, n, size, generator=generator, dtype=torch.float64, device="cpu")
    return uniform.clamp_(min=2.0**-54)  # 0 is drawn once in 2⁵³ times; a quantile of it is infinite


def stratified(n_draws: int, n: int, size: int, generator: torch.Generator | None = None) -> Tensor:
    """Uniform points ``(n_draws, n, size)``: each coordinate has one of them in each n-th of (0, 1).

    Source: McKay, Beckman & Conover 1979 (Latin hypercubes).
    """
    rank = independent(n_draws, n, size, generator).argsort(1)
    return (rank + independent(n_draws, n, size, generator)) / n


def sobol(n_draws: int, n: int, size: int, generator: torch.Generator | None = None) -> Tensor:
    """Uniform points ``(n_draws, n, size)``: the first ``n`` of scrambled Sobol sequences.

    Source: Owen 1998; Joe & Kuo 2008, by torch's ``SobolEngine``.
    """
    seeds = torch.randint(2**62, (n_draws,), generator=generator, device="cpu").tolist()
    engines = [torch.quasirandom.SobolEngine(size, scramble=True, seed=seed) for seed in seeds]
    points = torch.stack([engine.draw(n, dtype=torch.float64) for engine in engines])
    # Torch makes the first point in the default dtype, whatever ``draw`` is told: half precision has 1 there.
    points[:, 0] = torch.stack([engine.shift for engine in engines]).double() * _LAST_BIT
    # Torch's points stand on a grid of 2⁻³⁰; anywhere within its cells they are uniform.
    return points + _LAST_BIT * independent(n_draws, n, size, generator)


def frequencies_at(kernel: str, uniform: Tensor) -> Tensor:
    """Frequencies at points of the unit cube, by inverse distribution functions.

    Shape:
        - uniform: ``(*, in_features + 1)`` in (0, 1); the last coordinate is the heavy tail's
        - output: ``(*, in_features)``
    """
    if kernel == "laplacian":
        return torch.tan(math.pi * (uniform[..., :-1] - 0.5))
    return torch.special.ndtri(uniform[..., :-1]) * _tail(kernel, uniform[..., -1:])


def orthogonal_frequencies(
    kernel: str, in_features: int, uniform: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Frequencies in orthogonal directions, ``in_features`` at a time.

    Shape:
        - uniform: ``(n_draws, n, >= 2)`` in (0, 1): what the lengths and the heavy tails are made of
        - output: ``(n_draws, n, in_features)``

    Source: Mezzadri 2007 (a uniform rotation needs the signs of the diagonal of R).
    """
    n_draws, n, _ = uniform.shape
    width = min(n, in_features)
    shape = (n_draws, -(-n // width), in_features, width)
    q, r = torch.linalg.qr(torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu"))
    directions = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    directions = directions.mT.reshape(n_draws, -1, in_features)[:, :n]
    return directions * chi_quantile(in_features, uniform[..., :1]) * _tail(kernel, uniform[..., 1:2])


def chi_quantile(degrees: int, probability: Tensor) -> Tensor:
    """Length that a normal vector with ``degrees`` entries stays below with this probability.

    Newton's method on the logarithm of the incomplete gamma function of eʸ, the lower one below the
    median and the upper one above it: both are concave in y, so that whatever the start, every step
    ends on one side of the root and the next come closer.

    Source: the start is Wilson & Hilferty 1931, or the lower bound by P(a, x) <= xᵃ / Γ(a + 1).

    Args:
        degrees: number of entries.
        probability: float64 in (0, 1), any shape.

    >>> chi_quantile(2, torch.tensor([0.5], dtype=torch.float64)) ** 2 / 2 / math.log(2)
    tensor([1.], dtype=torch.float64)
    """
    a, above = torch.full_like(probability, degrees / 2), probability > 0.5
    target = torch.where(above, (-probability).log1p(), probability.log())
    spread = 2 / (9 * degrees)
    cube_root = 1 - spread + math.sqrt(spread) * torch.special.ndtri(probability)
    y = torch.maximum((a * cube_root.clamp(min=0) ** 3).log(), (probability.log() + torch.lgamma(a + 1)) / a)
    for _ in range(100):
        x = y.exp()
        share = torch.where(above, torch.special.gammaincc(a, x), torch.special.gammainc(a, x))
        slope = torch.exp(a * y - x - torch.lgamma(a)) / share * torch.where(above, -1.0, 1.0)
        step = (target - share.log()) / slope
        y = y + step
        if bool((step.abs() < 1e-13).all()):
            break
    return (2 * y.exp()).sqrt()


def _tail(kernel: str, uniform: Tensor) -> Tensor | float:
    """What a normal vector is multiplied by to become Student's t: √(2ν / χ²), 1 for the RBF kernel."""
    degrees = _DEGREES.get(kernel)
    return 1.0 if degrees is None else math.sqrt(degrees) / chi_quantile(degrees, uniform)
