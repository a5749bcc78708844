from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch.nn.functional import cosine_similarity
from torch.testing import assert_close

from tabembed.nn import (
    Coverage,
    GaussianFourierProjection,
    TimestepEmbedding,
    TimestepFeatures,
    calibrate,
    coverage,
)

NOISE = (math.log(0.002) / 4, math.log(80) / 4)  # EDM's ln(σ) / 4


@pytest.mark.parametrize(
    ("features", "t_range", "n_components", "active"),
    [
        (TimestepFeatures(256), (0, 1), 1, 18),
        (TimestepFeatures(256, scale=1000), (0, 1), 94, 210),
        (TimestepFeatures(256, scale=1000, max_period=1000), (0, 1), 114, 256),
        (TimestepFeatures(256), NOISE, 2, 37),
        (TimestepFeatures(256, scale=250), NOISE, 82, 190),
    ],
)
def test_known_embeddings(features, t_range, n_components, active):
    found = coverage(features, t_range)
    assert (found.n_components, found.active_dims, found.n_dims) == (n_components, active, 256)
    assert found.active_share == active / 256
    assert found.nearly_constant == (active < 64)


def test_number_of_points_and_the_range():
    steps = coverage(TimestepFeatures(128), (0, 99), n=100)  # TabDDPM's hundred steps
    assert (steps.n_components, steps.active_dims) == (25, 74)
    codes = TimestepFeatures(128)(torch.arange(100))
    neighbours = cosine_similarity(codes[1:], codes[:-1])
    assert steps.neighbour_similarity == pytest.approx(neighbours.min().item(), abs=1e-6)
    pairs = cosine_similarity(codes[:, None], codes[None], dim=-1)
    assert steps.similarity == pytest.approx(pairs.mean().item(), abs=1e-6)
    assert coverage(TimestepFeatures(128), (0, 99), n=10).neighbour_similarity < neighbours.min() - 0.1


def test_the_least_alike_neighbours_count():
    found = coverage(lambda t: torch.stack([t.square().cos(), t.square().sin()], -1), (0, 10), n=101)
    assert found.neighbour_similarity == pytest.approx(math.cos(100 - 9.9**2), abs=1e-6)


def test_the_verdict_can_be_read():
    text = str(coverage(TimestepFeatures(256), (0, 1)))
    assert text == (
        "nearly constant: 18 of 256 dims active, 1 component holds 99 % of the variance, "
        "mean cosine of two times 0.995, of neighbours at least 1.000"
    )
    assert str(Coverage(8, 4, 3, 0.5, 0.9)).startswith("moves: 4 of 8 dims active, 3 components hold 99 %")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Coverage(8, 4, 3, 0.5, 0.9).n_dims = 9


def test_any_map_of_times_has_a_coverage():
    assert coverage(lambda t: torch.ones(len(t), 3), (0, 1)) == Coverage(
        3, 0, 1, pytest.approx(1), pytest.approx(1)
    )
    features = TimestepFeatures(64, scale=1000)
    assert coverage(TimestepEmbedding(features, 8, seed=0), (0, 1)) == coverage(features, (0, 1))
    assert coverage(TimestepFeatures(256).bfloat16(), (0, 1)).nearly_constant


def test_features_of_a_logarithm_are_measured_along_it():
    plain = GaussianFourierProjection(64, scale=1.0, seed=0)
    log = GaussianFourierProjection(64, scale=1.0, log=True, seed=0)
    assert_close(
        dataclasses.astuple(coverage(log, (0.002, 80))),
        dataclasses.astuple(coverage(plain, (math.log(0.002), math.log(80)))),
        rtol=1e-6,
        atol=1e-6,
    )
    network = TimestepEmbedding(log, 8, seed=0)
    assert coverage(network, (0.002, 80)) == coverage(log, (0.002, 80)) != coverage(log, (0.002, 2))


RANGES = [(0, 1), (0, 999), (-3, 5), NOISE, (1e-5, 1.0), (1_700_000_000, 1_702_592_000), (1000, 1001)]


@pytest.mark.parametrize("t_range", RANGES)
@pytest.mark.parametrize("dim", [16, 129, 256])
def test_a_calibrated_sinusoid_moves_and_neighbours_stay_alike(t_range, dim):
    features = calibrate(TimestepFeatures(dim), t_range)
    found = coverage(features, t_range, n=1001)
    assert found.active_dims >= 0.9 * dim
    assert found.n_components >= dim / 4
    assert found.neighbour_similarity > 0.92
    assert not found.nearly_constant


@pytest.mark.parametrize("steps", [2, 10, 100, 5000])
@pytest.mark.parametrize("shift", [0, 1])
def test_steps_set_the_resolution_of_a_sinusoid(steps, shift):
    plain = TimestepFeatures(64, order="sin_cos", freq_shift=shift)
    features = calibrate(plain, (0, 1), steps=steps)
    assert (features.scale, features.max_period) == (steps, steps / 2)
    found = coverage(features, (0, 1), n=steps + 1)
    assert found.active_share >= 0.9
    assert found.neighbour_similarity > 0.5 if steps == 2 else found.neighbour_similarity > 0.85
    times = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    assert cosine_similarity(*features(times[[0, -1]]), dim=0) < 0.8  # the two ends differ
    assert (plain.scale, plain.max_period) == (1, 10_000)
    assert (features.order, features.freq_shift, features.dim) == ("sin_cos", shift, 64)


def test_times_far_from_zero_are_calibrated_exactly():
    assert calibrate(TimestepFeatures(8), (0, 1)).precision == "fp32"
    assert calibrate(TimestepFeatures(8, precision="exact"), (0, 1)).precision == "exact"
    far = calibrate(TimestepFeatures(64), (1_700_000_000, 1_700_001_000))
    assert far.precision == "exact"
    codes = far(torch.arange(1_700_000_000, 1_700_000_003))
    assert cosine_similarity(codes[0], codes[1], dim=0) > 0.9
    assert not torch.equal(codes[0], codes[1])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("t_range", "steps"), [((0, 1), 1000), ((0, 999), 1000), ((5, 7), 100), (NOISE, 10)])
def test_a_calibrated_projection_moves_and_keeps_its_draws(seed, t_range, steps):
    drawn = GaussianFourierProjection(256, scale=3.0, seed=seed)
    before = drawn.frequencies.clone()
    features = calibrate(drawn, t_range, steps=steps)
    found = coverage(features, t_range, n=1001)
    assert found.active_share >= 0.9
    assert not found.nearly_constant
    assert torch.equal(drawn.frequencies, before)
    assert_close(features.frequencies / features.scale, before / 3.0)
    if steps > 10:
        assert coverage(features, t_range, n=steps + 1).neighbour_similarity > 0.9
    features.reset_parameters()
    assert_close(features.frequencies / features.scale, before / 3.0)


def test_a_calibrated_projection_has_the_scale_of_score_sde_over_a_thousand_steps():
    features = GaussianFourierProjection(256, scale=1.0, seed=0)
    assert calibrate(features, (0, 1)).scale == pytest.approx(16, abs=0.5)
    assert calibrate(features, (0, 1), steps=100).scale < calibrate(features, (0, 1)).scale / 3
    assert calibrate(features, (0, 1), steps=3).scale == pytest.approx(5)
    log = calibrate(GaussianFourierProjection(256, log=True, learnable=True, seed=0), (0.002, 80))
    assert log.scale == pytest.approx(16 / math.log(40_000), rel=0.03)
    assert isinstance(log.frequencies, torch.nn.Parameter)
    assert coverage(log, (0.002, 80)).active_share >= 0.9


@pytest.mark.parametrize("features", [TimestepFeatures(8), GaussianFourierProjection(8, seed=0)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_calibration_keeps_the_dtype(features, dtype):
    assert calibrate(features.to(dtype), (0, 1))(0.5).dtype == dtype


@pytest.mark.parametrize("features", [TimestepFeatures(64), GaussianFourierProjection(64, scale=1.0, seed=0)])
def test_an_embedding_is_calibrated_as_a_copy_with_its_weights(features):
    embedding = TimestepEmbedding(features, 8, seed=0).double()
    before = embedding(torch.linspace(0, 1, 9))
    twin = calibrate(embedding, (0, 1), steps=100)
    assert torch.equal(embedding(torch.linspace(0, 1, 9)), before)
    alone = calibrate(features, (0, 1), steps=100)
    assert repr(twin.features) == repr(alone)
    assert_close(twin(0.3), embedding.mlp(alone(torch.tensor(0.3, dtype=torch.float64))))
    assert twin.mlp[0].weight is not embedding.mlp[0].weight
    assert coverage(twin, (0, 1)).similarity < coverage(embedding, (0, 1)).similarity


def test_only_the_features_of_an_embedding_of_time_are_looked_into():
    class Wrapped(torch.nn.Module):
        """A map of t itself, whose attribute of that name takes the logarithm of something else."""

        features = GaussianFourierProjection(8, log=True)

        def forward(self, t):
            return torch.stack((t.cos(), t.sin()), -1)

    assert coverage(Wrapped(), (-1, 1)) == coverage(lambda t: Wrapped()(t), (-1, 1))


@pytest.mark.parametrize("measure", [coverage, calibrate])
@pytest.mark.parametrize(
    ("t_range", "error", "text"),
    [
        ((1, 1), ValueError, r"t_range must rise, got \(1, 1\)"),
        ((2, 1), ValueError, r"t_range must rise, got \(2, 1\)"),
        ((0, math.inf), ValueError, r"t_range\[1\] must be finite"),
        ((math.nan, 1), ValueError, r"t_range\[0\] must be finite"),
        (("0", 1), TypeError, r"t_range\[0\] must be a number, got '0'"),
        (None, TypeError, "t_range must be a first and a last time, got None"),
        (5, TypeError, "t_range must be a first and a last time, got 5"),
        (math.nan, TypeError, "t_range must be a first and a last time, got nan"),
        ((0, 1e-300), ValueError, r"t_range must be 1e-20 to 1e\+20 long, got \(0, 1e-300\)"),
        ((-1e308, 1e308), ValueError, r"t_range must be 1e-20 to 1e\+20 long, got \(-1e\+308, 1e\+308\)"),
        ((0, 1, 2), ValueError, r"t_range must be a first and a last time, got \(0, 1, 2\)"),
    ],
)
def test_bad_ranges(measure, t_range, error, text):
    with pytest.raises(error, match=text):
        measure(TimestepFeatures(8), t_range)
    with pytest.raises(ValueError, match=r"t_range must begin above 0 for features of ln t, got \(0, 1\)"):
        measure(GaussianFourierProjection(8, log=True), (0, 1))


def test_a_range_of_a_logarithm_starts_at_epsilon():
    features = GaussianFourierProjection(64, log=True, epsilon=0.01, seed=0)
    for start in (0, -3.0, 0.001):
        assert calibrate(features, (start, 80)).scale == calibrate(features, (0.01, 80)).scale
        assert coverage(features, (start, 80)) == coverage(features, (0.01, 80))
    assert calibrate(features, (0.5, 80)).scale != calibrate(features, (0.01, 80)).scale
    with pytest.raises(ValueError, match=r"t_range must end above epsilon=0.01, got \(0, 0.01\)"):
        coverage(features, (0, 0.01))


@pytest.mark.parametrize("t_range", [(1e-20, 2e-20), (0, 1e20), (-1e20, 0)])
@pytest.mark.parametrize("features", [TimestepFeatures(64), GaussianFourierProjection(64, seed=0)])
def test_the_outermost_ranges_give_numbers(features, t_range):
    assert coverage(calibrate(features, t_range), t_range).active_share > 0.9


def test_bad_arguments():
    with pytest.raises(ValueError, match="n must be at least 2, got 1"):
        coverage(TimestepFeatures(8), (0, 1), n=1)
    with pytest.raises(ValueError, match="steps must be at least 2, got 1"):
        calibrate(TimestepFeatures(8), (0, 1), steps=1)
    for features in (TimestepFeatures(8), GaussianFourierProjection(8)):
        with pytest.raises(ValueError, match=r"scale must be from 1e-30 to 1e\+30, got"):
            calibrate(features, (0, 1), steps=10**80)
    text = "features must be TimestepFeatures or a GaussianFourierProjection, got Linear"
    with pytest.raises(TypeError, match=text):
        calibrate(torch.nn.Linear(8, 4), (0, 1))
