from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest
import torch
import torchembed
from torch.testing import assert_close

from tabembed.functional.covariance import KERNELS, covariance
from tabembed.nn import PerColumn, RandomFourierFeatures
from tabembed.schema import ContinuousColumn

X = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
Y = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
COLUMN = ContinuousColumn("x", 1, 0, 0.0, 1.0, 0.0, 1.0, 0.5, 0.5, (0.0, 1.0), (0.0, 1.0), (1, 0))


@pytest.mark.parametrize("features", ["sincos", "cos"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_comes_close_to_the_exact_one(kernel, features):
    scales = [0.7, 1.5, 4.0]
    module = RandomFourierFeatures(3, 20_000, kernel=kernel, lengthscale=scales, features=features, seed=0)
    found, exact = module.kernel(X, Y), module.exact_kernel(X, Y)
    assert_close(found, exact, rtol=0, atol=0.02)
    assert_close(exact, covariance(kernel, X, Y, torch.tensor(scales)))
    assert_close(found, module(X) @ module(Y).mT, rtol=0, atol=1e-6)


@pytest.mark.parametrize("features", ["sincos", "cos"])
def test_expected_mse_is_the_variance_over_draws(features):
    modules = [
        RandomFourierFeatures(3, 16, sampler="iid", lengthscale=1.5, features=features, seed=seed)
        for seed in range(1500)
    ]
    errors = torch.stack([module.kernel(X, Y) - module.exact_kernel(X, Y) for module in modules])
    assert_close(modules[0].expected_mse(X, Y), errors.square().mean(0), rtol=0.2, atol=0)
    z = errors.mean(0) / errors.std(0) * len(modules) ** 0.5
    assert z.abs().max() < 4


def test_expected_mse_where_two_rows_are_one():
    assert_close(RandomFourierFeatures(3, 16, seed=0).expected_mse(X, X).diagonal(), torch.zeros(9))
    cosines = RandomFourierFeatures(3, 16, features="cos", seed=0)
    assert_close(cosines.expected_mse(X, X).diagonal(), torch.full((9,), 0.5 / 16))


@pytest.mark.parametrize("features", ["sincos", "cos"])
def test_n_features_for_reaches_the_error(features):
    module = RandomFourierFeatures(3, 8, features=features, seed=0)
    assert module.n_features_for(0.05) == 400
    width = module.n_features_for(0.05, X, Y)
    assert width < 400
    step = 2 if features == "sincos" else 1

    def forecast(n):
        return RandomFourierFeatures(3, n, features=features, seed=0).expected_mse(X, Y).mean().sqrt()

    assert forecast(width) <= 0.05 < forecast(width - step)
    assert module.n_features_for(0.05, X) == module.n_features_for(0.05, X, X) != width
    assert module.n_features_for(10.0) == step


@pytest.mark.parametrize(("sampler", "at_most"), [("orthogonal", 0.6), ("sobol", 0.6)])
def test_samplers_beat_iid(sampler, at_most):
    def error(chosen):
        modules = [RandomFourierFeatures(3, 256, lengthscale=2, sampler=chosen, seed=s) for s in range(30)]
        return sum((m.kernel(X, X) - m.exact_kernel(X, X)).square().mean() for m in modules)

    assert error(sampler) < at_most * error("iid")


def test_equals_torchembed_given_the_same_frequencies():
    theirs = torchembed.RandomFourierFeatures(3, 10, sigma=1.5)
    ours = RandomFourierFeatures(3, 10, lengthscale=1.5, seed=0)
    assert theirs.W.shape == (3, 5)
    ours.frequencies.copy_(theirs.W * 1.5)
    assert_close(ours(X), theirs(X))


@pytest.mark.parametrize(
    "other", [{"kernel": "matern32"}, {"lengthscale": 2.0}, {"sampler": "sobol"}, {"features": "cos"}]
)
def test_every_choice_changes_the_output(other):
    assert not torch.equal(
        RandomFourierFeatures(3, 8, seed=0)(X), RandomFourierFeatures(3, 8, seed=0, **other)(X)
    )


def test_lengthscale_divides_the_rows():
    wide, narrow = (RandomFourierFeatures(3, 8, lengthscale=s, seed=0) for s in ([1.0, 2.0, 4.0], 1.0))
    assert_close(wide(X * torch.tensor([1.0, 2.0, 4.0])), narrow(X))


@pytest.mark.parametrize("features", ["sincos", "cos"])
def test_without_a_gradient_the_numbers_are_the_same(features, monkeypatch):
    monkeypatch.setattr("tabembed.functional.random_features._BLOCK", 20)  # several blocks of rows
    module = RandomFourierFeatures(3, 10, features=features, trainable="frequencies", seed=0)
    for x in (X, X.reshape(3, 3, 3), X[0], X[:0], X.double(), X.half(), (9 * X).long()):
        with torch.no_grad():
            found = module(x)
        assert found.dtype == torch.float32
        assert not found.requires_grad
        assert_close(found, module(x), rtol=0, atol=1e-7)


def test_phases_of_wide_rows_are_float64():
    module = RandomFourierFeatures(1, 8, seed=0)
    x = torch.tensor([[1e7 + 0.25]], dtype=torch.float64)
    exact = (x @ module.frequencies.double()).cos() / 2
    assert_close(module(x)[:, :4], exact.float(), rtol=0, atol=1e-6)
    assert (module(x.float())[:, :4] - exact).abs().max() > 1e-3
    whole = torch.tensor([[2**53 - 1]])
    assert_close(module(whole), module(whole.double()), rtol=0, atol=0)


def test_half_precision_leaves_frequencies_wide():
    module = RandomFourierFeatures(3, 64, seed=0).bfloat16()
    assert module.frequencies.dtype == torch.float32
    assert_close(module(30 * X).float(), RandomFourierFeatures(3, 64, seed=0)(30 * X), rtol=2**-8, atol=1e-6)
    assert_close(
        module.kernel(X, X).float(), RandomFourierFeatures(3, 64, seed=0).kernel(X, X), rtol=0, atol=4e-3
    )
    assert module.exact_kernel(X, X).dtype == module.expected_mse(X, X).dtype == torch.bfloat16


def test_autocast_leaves_the_kernel_alone():
    module = RandomFourierFeatures(3, 64, seed=0)
    with torch.autocast("cpu", torch.bfloat16):
        found = module.kernel(X, X)
    assert_close(found, module.kernel(X, X), rtol=0, atol=0)


def test_a_learned_lengthscale_finds_its_way_back():
    target = RandomFourierFeatures(3, 512, lengthscale=3.0, seed=0).exact_kernel(X, X)
    module = RandomFourierFeatures(3, 512, trainable="lengthscale", seed=0)
    assert [name for name, _ in module.named_parameters()] == ["log_lengthscale"]
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(80):
        optimizer.zero_grad()
        (module.kernel(X, X) - target).square().mean().backward()
        optimizer.step()
    assert module.lengthscale.item() == pytest.approx(3, rel=0.05)
    assert_close(module.exact_kernel(X, X), target, rtol=0, atol=0.03)


@pytest.mark.parametrize(("trainable", "names"), [(False, []), ("frequencies", ["frequencies"])])
def test_what_learns(trainable, names):
    module = RandomFourierFeatures(3, 8, trainable=trainable, features="cos", seed=0)
    assert [name for name, _ in module.named_parameters()] == names
    assert set(module.state_dict()) == {"frequencies", "offsets", "fixed_lengthscale"}


@pytest.mark.parametrize(("given", "meant"), [(True, "frequencies"), (1, "frequencies"), (0, False)])
def test_a_bool_says_whether_frequencies_learn(given, meant):
    module = RandomFourierFeatures(3, 8, trainable=given, seed=0)
    assert (module.trainable, type(module.trainable)) == (meant, type(meant))
    assert len(list(module.parameters())) == bool(given)
    columns = RandomFourierFeatures.from_columns([COLUMN] * 2, 8, trainable=given)
    assert [column.trainable for column in columns.columns] == [meant] * 2


@pytest.mark.parametrize("how", ["state", "pickle", "deepcopy"])
@pytest.mark.parametrize("features", ["sincos", "cos"])
def test_h36_the_draw_survives_saving(how, features):
    module = RandomFourierFeatures(3, 8, lengthscale=0.5, features=features, seed=1)
    other = RandomFourierFeatures(3, 8, lengthscale=2.0, features=features, seed=2)
    assert not torch.equal(module(X), other(X))
    if how == "state":
        assert other.load_state_dict(module.state_dict(), strict=True) == ([], [])
    else:
        other = pickle.loads(pickle.dumps(module)) if how == "pickle" else copy.deepcopy(module)
    assert torch.equal(module(X), other(X))
    assert torch.equal(module.exact_kernel(X, X), other.exact_kernel(X, X))


def test_a_seed_means_the_same_in_every_precision():
    narrow, wide = RandomFourierFeatures(3, 8, seed=5), RandomFourierFeatures(3, 8, seed=5).double()
    wide.reset_parameters()
    assert wide.frequencies.dtype == torch.float64
    assert torch.equal(wide.frequencies, narrow.frequencies.double())


def test_on_the_meta_device_nothing_is_drawn():
    state = torch.get_rng_state()
    with torch.device("meta"):
        RandomFourierFeatures(3, 8)
    assert torch.equal(torch.get_rng_state(), state)


def test_from_columns():
    given = {
        "kernel": "matern52",
        "lengthscale": 0.5,
        "sampler": "iid",
        "features": "cos",
        "trainable": "frequencies",
    }
    embedding = RandomFourierFeatures.from_columns([COLUMN] * 3, 5, **given, seed=0)
    assert isinstance(embedding, PerColumn)
    values = X.masked_fill(X > 1, math.nan)
    output = embedding(values, values.isnan())
    assert output.shape == (9, 3, 5)
    assert output.isfinite().all()
    own = [
        (m.kernel_name, m.lengthscale.item(), m.sampler, m.features, m.trainable) for m in embedding.columns
    ]
    assert own == [tuple(given.values())] * 3
    known = ~values.isnan()[:, 1]
    assert_close(output[known, 1], embedding.columns[1](values[known, 1:2]))
    draws = [m.frequencies for m in embedding.columns]
    assert not torch.equal(draws[0], draws[1])
    again = RandomFourierFeatures.from_columns([COLUMN] * 3, 5, **given, seed=0)
    assert torch.equal(again(values, values.isnan()), output)
    assert RandomFourierFeatures.from_columns([COLUMN]).d_embedding == 16


def test_says_what_it_is():
    assert repr(RandomFourierFeatures(3, 8, seed=0)) == (
        "RandomFourierFeatures(3, 8, kernel='rbf', sampler='auto', features='sincos', trainable=False)"
    )


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"in_features": 0}, ValueError, "in_features must be at least 1, got 0"),
        ({"out_features": 0}, ValueError, "out_features must be at least 1, got 0"),
        ({"out_features": 8.0}, TypeError, "out_features must be an integer, got 8.0"),
        ({"out_features": 7}, ValueError, "out_features must be even for features='sincos', got 7"),
        ({"kernel": "l1"}, ValueError, f"kernel must be one of {', '.join(KERNELS)}, got 'l1'"),
        ({"sampler": "qmc"}, ValueError, "sampler must be one of auto, iid, orthogonal, sobol, got 'qmc'"),
        (
            {"sampler": "orthogonal", "kernel": "laplacian"},
            ValueError,
            "sampler must be auto, iid or sobol for the laplacian kernel, got 'orthogonal'",
        ),
        ({"features": "sin"}, ValueError, "features must be one of sincos, cos, got 'sin'"),
        (
            {"trainable": "all"},
            ValueError,
            "trainable must be one of False, True, lengthscale, frequencies, got 'all'",
        ),
        (
            {"trainable": ["frequencies"]},
            ValueError,
            "trainable must be one of False, True, lengthscale, frequencies, got ['frequencies']",
        ),
        ({"lengthscale": 0}, ValueError, "lengthscale must be finite and positive, got 0"),
        ({"lengthscale": -1.5}, ValueError, "lengthscale must be finite and positive, got -1.5"),
        ({"lengthscale": math.inf}, ValueError, "lengthscale must be finite and positive, got inf"),
        (
            {"lengthscale": [1.0, math.nan, 1.0]},
            ValueError,
            "lengthscale must be finite and positive, got nan",
        ),
        ({"lengthscale": [1.0, 2.0]}, ValueError, "lengthscale must have 3 numbers, one per feature, got 2"),
        (
            {"lengthscale": "wide"},
            TypeError,
            "lengthscale must be a number, or one for each feature, got 'wide'",
        ),
        ({"lengthscale": None}, TypeError, "lengthscale must be a number, or one for each feature, got None"),
        ({"lengthscale": True}, TypeError, "lengthscale must be a number, or one for each feature, got True"),
        (
            {"lengthscale": ["1", "2", "3"]},
            TypeError,
            "lengthscale must be a number, or one for each feature, got ['1', '2', '3']",
        ),
        (
            {"lengthscale": torch.ones(3, 1)},
            TypeError,
            "lengthscale must be a number, or one for each feature, got tensor([[1.],",
        ),
        ({"lengthscale": 1e-300}, ValueError, "lengthscale must be from 1e-30 to 1e+30, got 1e-300"),
        ({"lengthscale": [1.0, 1.0, 1e31]}, ValueError, "lengthscale must be from 1e-30 to 1e+30, got 1e+31"),
        (
            {"in_features": 21_200, "sampler": "sobol"},
            ValueError,
            "in_features must be at most 21199 for sampler='sobol', got 21200",
        ),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=re.escape(text)):
        RandomFourierFeatures(**{"in_features": 3, "out_features": 8, **arguments})


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("lengthscale", [1e-30, 1e30])
def test_the_outermost_lengthscales_give_numbers(kernel, lengthscale):
    module = RandomFourierFeatures(3, 64, kernel=kernel, lengthscale=lengthscale, seed=0)
    assert_close(module(X * lengthscale), RandomFourierFeatures(3, 64, kernel=kernel, seed=0)(X))


@pytest.mark.parametrize(
    "lengthscale",
    [2, (1.0, 2.0, 3.0), torch.ones(3), torch.tensor(2.0), np.ones(3), np.float32(2), [np.float32(2)] * 3],
)
def test_lengthscales_of_every_kind(lengthscale):
    assert torch.isfinite(RandomFourierFeatures(3, 8, lengthscale=lengthscale, seed=0)(X)).all()


def test_bad_rows():
    module = RandomFourierFeatures(3, 8, seed=0)
    for call in (module, lambda x: module.kernel(X, x), lambda x: module.exact_kernel(X, x)):
        with pytest.raises(ValueError, match=r"must have 3 as its last dimension, got shape \(4, 2\)"):
            call(torch.zeros(4, 2))
    for name in ("kernel", "exact_kernel", "expected_mse"):
        with pytest.raises(ValueError, match=r"x must have at least two dimensions, got shape \(3,\)"):
            getattr(module, name)(X[0], X)
        with pytest.raises(ValueError, match=r"y must have at least two dimensions, got shape \(3,\)"):
            getattr(module, name)(X, X[0])
        with pytest.raises(TypeError, match="y must be floats or integers, got torch.complex64"):
            getattr(module, name)(X, X.to(torch.complex64))
    with pytest.raises(ValueError, match="error must be finite and positive, got 0"):
        module.n_features_for(0)
