"""The mathematics of examples/diffusion: what the printed scores rest on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

EXAMPLES = str(Path(__file__).parents[1] / "examples")


@pytest.fixture(scope="module", autouse=True)
def _examples_importable():
    sys.path.insert(0, EXAMPLES)
    yield
    sys.path.remove(EXAMPLES)


def transition(beta, size):
    return (1 - beta) * np.eye(size) + beta / size


@pytest.mark.parametrize("t", [0, 1, 5, 11])
@pytest.mark.parametrize("column", [0, 1])
def test_multinomial_noise_and_posterior_are_those_of_the_transition_matrices(t, column):
    from diffusion.process import MultinomialDiffusion, cosine_betas

    sizes, betas = [5, 3], cosine_betas(12).numpy()
    diffusion, size = MultinomialDiffusion(12, sizes), sizes[column]
    part = slice(0, 5) if column == 0 else slice(5, 8)
    before = np.linalg.multi_dot([np.eye(size), *(transition(b, size) for b in betas[:t]), np.eye(size)])
    step, steps = transition(betas[t], size), torch.tensor([t])
    for clean in range(size):
        for noisy in range(size):
            codes = torch.zeros(2, 1, 2, dtype=torch.long)
            codes[0, 0, column], codes[1, 0, column] = clean, noisy
            log_clean, log_noisy = (diffusion.log_one_hot(c) for c in codes)
            forward = diffusion.noisy(log_clean, steps).exp()[0, part]
            np.testing.assert_allclose(forward, (before @ step)[clean], atol=1e-6)
            bayes = before[clean] * step[:, noisy]
            posterior = diffusion.posterior(log_clean, log_noisy, steps).exp()[0, part]
            np.testing.assert_allclose(posterior, bayes / bayes.sum(), atol=1e-5)


def test_multinomial_loss_is_the_divergence_of_the_posteriors():
    from diffusion.process import MultinomialDiffusion

    diffusion = MultinomialDiffusion(12, [4, 2])
    log_clean, log_noisy = (diffusion.log_one_hot(torch.tensor([c, c])) for c in ([3, 0], [1, 0]))
    t, guess = torch.tensor([0, 7]), torch.tensor([0.1, 0.2, 0.3, 0.4, 0.7, 0.3]).log().expand(2, -1)
    torch.testing.assert_close(diffusion.loss(log_clean, log_noisy, t, log_clean), torch.zeros(2))
    true, made = (diffusion.posterior(c, log_noisy, t) for c in (log_clean, guess))
    by_torch = [
        sum(torch.distributions.kl_divergence(*pair) for pair in pairs)
        for pairs in (
            [
                (torch.distributions.Categorical(logits=a), torch.distributions.Categorical(logits=b))
                for a, b in zip(true[row].split([4, 2]), made[row].split([4, 2]), strict=True)
            ]
            for row in range(2)
        )
    ]
    want = torch.stack(by_torch) * 12 / 2
    assert (want > 0.05).all()
    torch.testing.assert_close(diffusion.loss(log_clean, log_noisy, t, guess), want)


def test_codes_are_drawn_with_their_probabilities():
    from diffusion.process import MultinomialDiffusion

    diffusion = MultinomialDiffusion(12, [3, 2])
    wanted = torch.tensor([0.1, 0.2, 0.7, 0.0, 1.0])
    log_probability = wanted.clamp(min=1e-30).log().expand(20_000, -1)
    codes = diffusion.drawn(log_probability, torch.Generator().manual_seed(0))
    shares = [torch.bincount(column, minlength=3)[:n] for column, n in zip(codes.T, (3, 2), strict=True)]
    torch.testing.assert_close(torch.cat(shares) / 20_000, wanted, atol=0.01, rtol=0)


def test_the_exact_denoiser_gives_the_distribution_back():
    from diffusion.process import GaussianDiffusion

    diffusion, generator = GaussianDiffusion(100, bound=5.2), torch.Generator().manual_seed(0)
    mean, std = 0.8, 0.5
    x = torch.randn(20_000, 1, generator=generator)
    for step in reversed(range(100)):
        kept = diffusion.clean_part[step].item() ** 2
        noise_guess = (x - kept**0.5 * mean) * (1 - kept) ** 0.5 / (kept * std**2 + 1 - kept)
        noise = torch.randn(x.shape, generator=generator)
        x = diffusion.back(x, torch.tensor(step), noise_guess, noise)
    assert x.mean().item() == pytest.approx(mean, abs=0.02)
    assert x.std().item() == pytest.approx(std, abs=0.02)


@pytest.fixture
def table():
    from diffusion.tables import Table

    rng = np.random.default_rng(0)
    late = rng.integers(0, 2, 600)
    numbers = np.round(rng.normal(size=(600, 6)) * 10 + late[:, None] * 25)
    return Table(numbers, np.column_stack([rng.integers(0, 3, (600, 4)), late]), late)


def test_scores_of_halves_of_one_table_and_of_independent_columns(table):
    from diffusion import metrics
    from diffusion.baselines import independent_columns

    a, b = table[:300], table[300:]
    broken = independent_columns(a, 300, seed=0)
    assert metrics.trend(a, a) == 1
    assert metrics.trend(broken, b) < metrics.trend(a, b)
    assert metrics.not_told_apart(a, b, 0) > 0.8 > 0.3 > metrics.not_told_apart(broken, b, 0)
    assert metrics.train_on_made_test_on_real(a, b, 0) == 1  # the last code is the label
    assert metrics.share_copied(a, a) == 1
    assert metrics.share_copied(a, b) == 0
    assert metrics.share_nearer_to_train(a, a, b) == 1
    assert metrics.share_nearer_to_train(a, b, b) == 0.5


def test_numbers_snap_to_the_nearest_that_was_seen():
    from diffusion.tables import snap

    seen = np.array([[0.0, 5.0], [1.0, 9.0], [4.0, 5.0]])
    made = np.array([[-3.0, 6.9], [2.4, 7.1], [2.6, 99.0]])
    np.testing.assert_array_equal(snap(made, seen), [[0.0, 5.0], [1.0, 9.0], [4.0, 9.0]])


@pytest.mark.parametrize("time", ["calibrated", "Gaussian"])
def test_a_model_follows_its_seed_and_leaves_the_global_generator_alone(table, time):
    from diffusion.model import TableDiffusion

    def made(seed):
        model = TableDiffusion([3, 3, 3, 3, 2], time, n_updates=3, batch_size=32, seed=seed)
        return model.fit(table, lambda loss: None).sample(50).matrix()

    before = torch.get_rng_state()
    first, again, other = made(0), made(0), made(1)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
