"""Noise for numbers (Gaussian) and for categories (multinomial), and the way back, step by step.

Numbers: Ho et al. 2020, arXiv:2006.11239, with the noise as the network's output. Categories:
Hoogeboom et al. 2021, arXiv:2102.05379, with the clean category as the network's output. Together:
TabDDPM, Kotelnikov et al. 2023, arXiv:2209.15421. Schedule: Nichol & Dhariwal 2021, arXiv:2102.09672,
eq. 17. Steps are counted from 0, the least noise.

NOTE[DIFF] TabDDPM leaves the guess of the clean numbers as it is; here it is clipped to their range
in the data, as Ho et al. do, because a small error is magnified in the noisiest steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

LOG_ZERO = -69.0  # log of 1e-30


def cosine_betas(n_steps: int) -> Tensor:
    """Share of the variance that each step replaces by noise, ``(n_steps,)`` float64."""
    level = torch.arange(n_steps + 1, dtype=torch.float64) / n_steps
    kept = torch.cos((level + 0.008) / 1.008 * math.pi / 2) ** 2
    return (1 - kept[1:] / kept[:-1]).clamp(max=0.999)


def rows_of(table: Tensor, t: Tensor) -> Tensor:
    """The table's entry of every row's step, as a column; ``t`` may be one step for all rows."""
    return table[t].unsqueeze(-1)


class GaussianDiffusion:
    """Noise on numbers ``(n_rows, n_numbers)`` that lie within ``±bound``."""

    def __init__(self, n_steps: int, bound: float) -> None:
        beta = cosine_betas(n_steps)
        kept = torch.cumprod(1 - beta, 0)  # ᾱ
        before = torch.cat([torch.ones(1, dtype=torch.float64), kept[:-1]])
        self.bound = bound
        self.clean_part, self.noise_part = kept.sqrt().float(), (1 - kept).sqrt().float()
        self.weight_clean = (before.sqrt() * beta / (1 - kept)).float()
        self.weight_noisy = ((1 - beta).sqrt() * (1 - before) / (1 - kept)).float()
        self.spread = beta.sqrt().float()

    def noisy(self, clean: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """Draw from q(x_t | x_0)."""
        return rows_of(self.clean_part, t) * clean + rows_of(self.noise_part, t) * noise

    def back(self, noisy: Tensor, t: Tensor, noise_guess: Tensor, noise: Tensor) -> Tensor:
        """Draw from p(x_{t-1} | x_t); the variance is β_t, and 0 in the last step."""
        clean = (noisy - rows_of(self.noise_part, t) * noise_guess) / rows_of(self.clean_part, t)
        clean = clean.clamp(-self.bound, self.bound)
        mean = rows_of(self.weight_clean, t) * clean + rows_of(self.weight_noisy, t) * noisy
        return mean + rows_of(self.spread, t) * (t > 0).unsqueeze(-1) * noise


class MultinomialDiffusion:
    """Noise on categories, as log probabilities ``(n_rows, sum(sizes))``, column beside column."""

    def __init__(self, n_steps: int, sizes: Sequence[int]) -> None:
        self.n_steps, self.sizes = n_steps, list(sizes)
        self.log_uniform = torch.cat([torch.full((size,), -math.log(size)) for size in sizes])
        keep_step = torch.log1p(-cosine_betas(n_steps))
        keep = torch.cumsum(keep_step, 0)
        # A row of keep is log ᾱ_{t}, a row of lose log(1 − ᾱ_t); the same for one step alone.
        self.keep, self.lose = keep.float(), log_one_minus_exp(keep).float()
        self.keep_step, self.lose_step = keep_step.float(), log_one_minus_exp(keep_step).float()

    def log_one_hot(self, codes: Tensor) -> Tensor:
        """Codes ``(n_rows, n_columns)`` as log probabilities: 0 where the code is, else ``LOG_ZERO``."""
        hot = [F.one_hot(c, size) for c, size in zip(codes.unbind(-1), self.sizes, strict=True)]
        return torch.where(torch.cat(hot, -1).bool(), 0.0, LOG_ZERO)

    def noisy(self, log_clean: Tensor, t: Tensor) -> Tensor:
        """log q(x_t | x_0)."""
        return torch.logaddexp(log_clean + rows_of(self.keep, t), rows_of(self.lose, t) + self.log_uniform)

    def posterior(self, log_clean: Tensor, log_noisy: Tensor, t: Tensor) -> Tensor:
        """log q(x_{t-1} | x_t, x_0); before step 0 lies x_0 itself."""
        earlier = self.noisy(log_clean, (t - 1).clamp(min=0))
        earlier = torch.where((t > 0).unsqueeze(-1), earlier, log_clean)
        step = torch.logaddexp(
            log_noisy + rows_of(self.keep_step, t), rows_of(self.lose_step, t) + self.log_uniform
        )
        return self.normalised(earlier + step)

    def normalised(self, logits: Tensor) -> Tensor:
        """Log probabilities that sum to one within every column."""
        return torch.cat([F.log_softmax(part, -1) for part in logits.split(self.sizes, -1)], -1)

    def drawn(self, log_probability: Tensor, generator: torch.Generator) -> Tensor:
        """Codes ``(n_rows, n_columns)`` drawn with these probabilities: the first of exponential clocks."""
        waiting = torch.empty(log_probability.shape).exponential_(generator=generator)
        parts = (log_probability - waiting.log()).split(self.sizes, -1)
        return torch.stack([part.argmax(-1) for part in parts], -1)

    def loss(self, log_clean: Tensor, log_noisy: Tensor, t: Tensor, log_guess: Tensor) -> Tensor:
        """One term of the variational bound, times the number of terms, for every row.

        It is KL(q(x_{t-1} | x_t, x_0) ‖ p(x_{t-1} | x_t)) after the first step and −log p(x_0 | x_1)
        there, which the same formula gives because q(x_0 | x_1, x_0) is x_0 itself.
        """
        true = self.posterior(log_clean, log_noisy, t)
        guess = self.posterior(log_guess, log_noisy, t)
        return self.n_steps * (true.exp() * (true - guess)).sum(-1) / len(self.sizes)


def log_one_minus_exp(log_probability: Tensor) -> Tensor:
    """log(1 − p) from log p."""
    return torch.log1p(-log_probability.exp()).clamp(min=LOG_ZERO)


def mixed_loss(
    gaussian: GaussianDiffusion,
    multinomial: MultinomialDiffusion,
    network: Callable[..., tuple[Tensor, Tensor]],
    batch: tuple[Tensor, Tensor, Tensor],
    generator: torch.Generator,
) -> Tensor:
    """Loss of a batch (numbers, codes, label), each row at a step of its own."""
    numbers, codes, label = batch
    t = torch.randint(multinomial.n_steps, (len(label),), generator=generator)
    noise = torch.randn(numbers.shape, generator=generator)
    log_clean = multinomial.log_one_hot(codes)
    noisy_codes = multinomial.drawn(multinomial.noisy(log_clean, t), generator)
    log_noisy = multinomial.log_one_hot(noisy_codes)
    noise_guess, logits = network(gaussian.noisy(numbers, t, noise), log_noisy, t, label)
    of_codes = multinomial.loss(log_clean, log_noisy, t, multinomial.normalised(logits))
    return F.mse_loss(noise_guess, noise) + of_codes.mean()


@torch.no_grad()
def sample(
    gaussian: GaussianDiffusion,
    multinomial: MultinomialDiffusion,
    network: Callable[..., tuple[Tensor, Tensor]],
    label: Tensor,
    n_numbers: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Numbers and codes of new rows with these labels, from pure noise down to step 0."""
    numbers = torch.randn(len(label), n_numbers, generator=generator)
    codes = multinomial.drawn(multinomial.log_uniform.expand(len(label), -1), generator)
    for step in reversed(range(multinomial.n_steps)):
        t = torch.tensor(step)
        log_noisy = multinomial.log_one_hot(codes)
        noise_guess, logits = network(numbers, log_noisy, t, label)
        noise = torch.randn(numbers.shape, generator=generator)
        numbers = gaussian.back(numbers, t, noise_guess, noise)
        log_guess = multinomial.normalised(logits)
        codes = multinomial.drawn(multinomial.posterior(log_guess, log_noisy, t), generator)
    return numbers, codes
