from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from tabembed.functional.covariance import KERNELS, covariance
from tabembed.nn import spectral

SAMPLERS = ("iid", "orthogonal", "sobol")
ALLOWED = [(k, s) for k in KERNELS for s in SAMPLERS if (k, s) != ("laplacian", "orthogonal")]


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def law(kernel: str, in_features: int):
    """Distribution of one coordinate of a frequency."""
    degrees = {"rbf": None, "matern12": 1, "matern32": 3, "matern52": 5, "laplacian": 1}[kernel]
    return stats.norm() if degrees is None else stats.t(degrees)


@pytest.mark.parametrize(("kernel", "sampler"), ALLOWED)
@pytest.mark.parametrize("in_features", [1, 3])
def test_every_coordinate_follows_its_law(kernel, sampler, in_features):
    frequencies, offsets = spectral.draw_frequencies(kernel, sampler, in_features, 3000, drawn())
    for row in frequencies:
        assert stats.kstest(row.numpy(), law(kernel, in_features).cdf).pvalue > 1e-4
    assert stats.kstest(offsets.numpy() / (2 * math.pi), stats.uniform.cdf).pvalue > 1e-4


def many(kernel: str, sampler: str, in_features: int, n_draws: int, generator) -> torch.Tensor:
    """Frequencies ``(n_draws, 5, in_features)`` of as many draws."""
    if sampler == "orthogonal":
        uniform = spectral.stratified(n_draws, 5, 3, generator)
        return spectral.orthogonal_frequencies(kernel, in_features, uniform, generator)
    points = spectral.sobol if sampler == "sobol" else spectral.independent
    return spectral.frequencies_at(kernel, points(n_draws, 5, in_features + 2, generator)[..., :-1])


@pytest.mark.parametrize(("kernel", "sampler"), ALLOWED)
@pytest.mark.parametrize("in_features", [1, 3, 4])
def test_no_bias(kernel, sampler, in_features):
    """The benchmark has 20,000 draws of every size."""
    n_draws = 1000 if sampler == "sobol" else 5000
    steps = torch.cat([torch.eye(in_features), torch.ones(1, in_features)]).double()
    exact = covariance(kernel, steps, torch.zeros(1, in_features).double())[:, 0]
    found = (many(kernel, sampler, in_features, n_draws, drawn(in_features)) @ steps.mT).cos().mean(1)
    z = (found.mean(0) - exact) / found.std(0) * n_draws**0.5
    assert z.abs().max() < 4


@pytest.mark.parametrize(("kernel", "sampler"), ALLOWED)
def test_what_is_free_of_bias_is_what_is_drawn(kernel, sampler):
    one = many(kernel, sampler, 3, 1, drawn())[0].mT
    assert_close(spectral.draw_frequencies(kernel, sampler, 3, 5, drawn())[0], one, rtol=0, atol=0)


@pytest.mark.parametrize(("n_frequencies", "in_features"), [(12, 4), (10, 4), (3, 4), (5, 1)])
def test_orthogonal_blocks(n_frequencies, in_features):
    frequencies = spectral.draw_frequencies("rbf", "orthogonal", in_features, n_frequencies, drawn())[0]
    width = min(n_frequencies, in_features)
    for block in frequencies.split(width, dim=1):
        product = block.mT @ block
        assert_close(product, product.diagonal().diag(), rtol=0, atol=1e-12)
    assert frequencies.shape == (in_features, n_frequencies)


def test_lengths_are_stratified_and_independent_of_directions():
    frequencies = spectral.draw_frequencies("rbf", "orthogonal", 5, 40, drawn())[0]
    share = torch.from_numpy(stats.chi(5).cdf(frequencies.norm(dim=0).numpy()))
    assert sorted((share * 40).long().tolist()) == list(range(40))
    assert (share * 40).long().tolist() != list(range(40))


def test_directions_turn_with_all_rotations():
    """The mean of a Haar matrix is zero in every entry: without the signs of R it is not."""
    uniform = torch.full((4000, 2, 2), 0.5, dtype=torch.float64)
    frequencies = spectral.orthogonal_frequencies("rbf", 2, uniform, drawn())
    assert frequencies.mean(0).abs().max() < 4 * frequencies.std() / 4000**0.5


def test_sobol_fills_the_cube_evenly():
    points = spectral.sobol(2, 64, 3, drawn())
    for one in points:
        for coordinate in one.mT:
            assert sorted((coordinate * 64).long().tolist()) == list(range(64))
    assert not torch.equal(points[0], points[1])


def test_stratified_points():
    points = spectral.stratified(2, 50, 3, drawn())
    for coordinate in points.mT.reshape(-1, 50):
        assert sorted((coordinate * 50).long().tolist()) == list(range(50))
    assert not torch.equal(points[0, :, 0].argsort(), points[0, :, 1].argsort())


@pytest.mark.parametrize("source", [spectral.independent, spectral.stratified, spectral.sobol])
def test_points_are_inside_the_open_cube_and_follow_the_generator(source):
    points = source(3, 33, 2, drawn())
    assert points.shape == (3, 33, 2)
    assert points.dtype == torch.float64
    assert 0 < points.min() < points.max() < 1
    assert torch.equal(points, source(3, 33, 2, drawn()))
    assert not torch.equal(points, source(3, 33, 2, drawn(1)))


@pytest.mark.parametrize("degrees", [1, 2, 3, 5, 30, 1000, 200_000])
def test_chi_quantile(degrees):
    probability = torch.cat(
        [
            torch.tensor([1e-30, 1e-9, 0.5, 1 - 1e-9, 1 - 2.0**-53], dtype=torch.float64),
            torch.rand(200, generator=drawn(), dtype=torch.float64),
        ]
    )
    expected = torch.from_numpy(stats.chi(degrees).ppf(probability.numpy()))
    assert_close(spectral.chi_quantile(degrees, probability), expected, rtol=1e-9, atol=0)


def test_wide_rows_do_not_make_square_matrices():
    frequencies = spectral.draw_frequencies("rbf", "orthogonal", 30_000, 4, drawn())[0]
    assert_close(frequencies.norm(dim=0), torch.full((4,), 30_000.0**0.5).double(), rtol=0.05, atol=0)


@pytest.mark.parametrize(
    ("kernel", "in_features", "n_frequencies", "chosen"),
    [
        ("rbf", 12, 384, "sobol"),
        ("rbf", 12, 383, "orthogonal"),
        ("rbf", 13, 10_000, "orthogonal"),
        ("laplacian", 1, 32, "sobol"),
        ("laplacian", 1, 31, "iid"),
        ("laplacian", 13, 10_000, "iid"),
        ("laplacian", 21_200, 32, "iid"),
    ],
)
def test_auto(kernel, in_features, n_frequencies, chosen):
    assert spectral.choose_sampler(kernel, "auto", in_features, n_frequencies) == chosen
    auto = spectral.draw_frequencies(kernel, "auto", in_features, n_frequencies, drawn())
    same = spectral.draw_frequencies(kernel, chosen, in_features, n_frequencies, drawn())
    assert torch.equal(auto[0], same[0])


def test_sobol_has_as_many_dimensions_as_torch_knows():
    assert spectral.draw_frequencies("rbf", "sobol", 21_199, 2, drawn())[0].shape == (21_199, 2)
    with pytest.raises(ValueError, match="in_features must be at most 21199 for sampler='sobol', got 21200"):
        spectral.draw_frequencies("rbf", "sobol", 21_200, 2, drawn())


@pytest.mark.parametrize(("kernel", "sampler"), ALLOWED)
def test_no_generator_follows_torch(kernel, sampler):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        one = spectral.draw_frequencies(kernel, sampler, 3, 9)
        two = spectral.draw_frequencies(kernel, sampler, 3, 9)
        torch.manual_seed(4)
        again = spectral.draw_frequencies(kernel, sampler, 3, 9)
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_a_generator_leaves_the_global_ones_alone():
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    for kernel, sampler in ALLOWED:
        spectral.draw_frequencies(kernel, sampler, 3, 9, drawn())
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


@pytest.mark.parametrize(
    ("kernel", "sampler", "text"),
    [
        ("matern", "iid", "kernel must be one of rbf, matern12, matern32, matern52, laplacian, got 'matern'"),
        ("rbf", "sorf", "sampler must be one of auto, iid, orthogonal, sobol, got 'sorf'"),
        ("laplacian", "orthogonal", "sampler must be auto, iid or sobol for the laplacian kernel"),
    ],
)
def test_bad_arguments(kernel, sampler, text):
    with pytest.raises(ValueError, match=text):
        spectral.draw_frequencies(kernel, sampler, 3, 8)


@pytest.mark.parametrize("default", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize(("kernel", "sampler"), ALLOWED)
def test_the_default_dtype_changes_no_draw(kernel, sampler, default):
    expected = spectral.draw_frequencies(kernel, sampler, 3, 40, drawn())
    torch.set_default_dtype(default)
    try:
        found = spectral.draw_frequencies(kernel, sampler, 3, 40, drawn())
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_first_point_of_a_sobol_sequence_keeps_its_digits():
    first = torch.cat([spectral.sobol(50, n, 3, drawn())[:, 0] for n in (1, 2)])
    grid = first * 2**30
    assert (grid.frac() * 2**23).frac().any()  # not rounded to float32
    assert 0 < first.min() < first.max() < 1
