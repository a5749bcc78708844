"""The diffusion model of a table: scaling, training, and new rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from diffusion.network import Denoiser, time_embedding
from diffusion.process import GaussianDiffusion, MultinomialDiffusion, mixed_loss, sample
from diffusion.tables import NUMBERS, Table, snap
from sklearn.preprocessing import QuantileTransformer
from torch import Tensor

N_STEPS = 100


class TableDiffusion:
    """Numbers with Gaussian noise, categories with multinomial noise, the label as a condition.

    Args:
        sizes: number of codes of each category.
        time: how the network is told the time, one of ``network.EMBEDDINGS``.
        n_updates: number of updates; the learning rate falls linearly to 0 over them.
        batch_size: rows in an update.
        learning_rate: that of the first update.
        seed: seed of the first weights, the batches, the noise and the sampled rows.
    """

    def __init__(
        self,
        sizes: list[int],
        time: str,
        *,
        n_updates: int,
        batch_size: int = 256,
        learning_rate: float = 2e-3,
        seed: int = 0,
    ) -> None:
        self.n_updates, self.batch_size, self.learning_rate = n_updates, batch_size, learning_rate
        self.categories = MultinomialDiffusion(N_STEPS, sizes)
        self.generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):  # leaves the global generator as it was
            torch.manual_seed(seed)
            embedding = time_embedding(time, N_STEPS, width=64, seed=seed)
            self.network = Denoiser(len(NUMBERS), sizes, time=embedding, n_steps=N_STEPS)

    def fit(self, table: Table, report: Callable[[float], None]) -> TableDiffusion:
        """Train on the rows; ``report`` is called with the loss of every update."""
        self.seen = table
        self.scaler = QuantileTransformer(
            output_distribution="normal",
            n_quantiles=max(min(len(table) // 30, 1000), 10),
            subsample=None,
        ).fit(table.numbers)
        numbers = torch.tensor(self.scaler.transform(table.numbers), dtype=torch.float32)
        self.numbers = GaussianDiffusion(N_STEPS, bound=numbers.abs().max().item())
        rows = numbers, torch.tensor(table.codes), torch.tensor(table.late)
        optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=self.learning_rate, weight_decay=0.0, fused=True
        )
        falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=self.n_updates)
        for _ in range(self.n_updates):
            loss = self.loss(rows)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            falling.step()
            report(loss.item())
        return self

    def loss(self, rows: tuple[Tensor, ...]) -> Tensor:
        """Loss of a batch drawn from the rows."""
        drawn = torch.randint(len(rows[0]), (self.batch_size,), generator=self.generator)
        numbers, codes, late = (part[drawn] for part in rows)
        return mixed_loss(self.numbers, self.categories, self.network, (numbers, codes, late), self.generator)

    def sample(self, n_rows: int) -> Table:
        """New rows, with labels as frequent as in the fit and numbers that the fit has seen."""
        drawn = torch.randint(len(self.seen), (n_rows,), generator=self.generator)
        late = torch.tensor(self.seen.late)[drawn]
        numbers, codes = sample(
            self.numbers, self.categories, self.network, late, len(NUMBERS), self.generator
        )
        unscaled = self.scaler.inverse_transform(numbers.numpy().astype(np.float64))
        return Table(snap(unscaled, self.seen.numbers), codes.numpy(), late.numpy())
