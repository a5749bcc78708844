"""The one loop: minibatches, AdamW, a schedule, averaged weights, early stopping."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from tabembed._checks import check_integer, check_probability, check_real
from tabembed._progress import progress
from tabembed.training.averaging import Averaged
from tabembed.training.bins import adapt_bins
from tabembed.training.examples import Examples
from tabembed.training.modes import one_thread
from tabembed.training.network import Network
from tabembed.training.objective import Objective, n_targets

WARM_UP = 0.1
"""Share of all steps in which the learning rate rises."""


@dataclass(frozen=True)
class Settings:
    """How to train; names and meaning are those of the estimators."""

    max_iter: int = 10
    batch_size: int | str = "auto"
    learning_rate_init: float = 0.003
    alpha: float = 0.01
    validation_fraction: float = 0.1
    n_iter_no_change: int = 4
    averaging: float = 0.0
    device: str = "cpu"
    verbose: int = 0

    def __post_init__(self) -> None:
        check_integer(max_iter=self.max_iter, n_iter_no_change=self.n_iter_no_change)
        if self.batch_size != "auto":
            check_integer(batch_size=self.batch_size)
        check_real(alpha=self.alpha, learning_rate_init=self.learning_rate_init)
        if self.learning_rate_init == 0:
            raise ValueError(f"learning_rate_init must be positive, got {self.learning_rate_init}")
        check_probability(validation_fraction=self.validation_fraction, averaging=self.averaging)
        try:
            torch.device(self.device)
        except (RuntimeError, TypeError):
            raise ValueError(f"device must be 'auto' or a device of PyTorch, got {self.device!r}") from None
        if torch.device(self.device).type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device must be one that is there, and there is no GPU, got {self.device!r}")

    @classmethod
    def of(cls, estimator: Any) -> Settings:
        """The arguments of an estimator that say how to train; ``"auto"`` is a GPU if there is one."""
        names = (field.name for field in fields(cls) if hasattr(estimator, field.name))
        given = {name: getattr(estimator, name) for name in names}
        if given["device"] == "auto":
            given["device"] = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(**given)

    def rows_per_step(self, n_rows: int) -> int:
        """Rows in a minibatch; ``"auto"`` makes about 128 steps a pass, of 16 to 1024 rows.

        >>> [Settings().rows_per_step(n_rows) for n_rows in (100, 40_000, 1_000_000)]
        [16, 312, 1024]
        """
        if self.batch_size == "auto":
            return min(max(n_rows // 128, 16), 1024)
        return int(self.batch_size)


@one_thread()
def train(
    network: Network,
    batch: Any,
    target: Tensor,
    objective: Objective,
    settings: Settings,
    *,
    seed: int = 0,
    n_passes: int | None = None,
    title: str = "fit",
) -> list[float]:
    """Train a network in place and leave it in its best state, in evaluation mode.

    The best state is the one with the smallest loss on held-out units (rows of a table, or whole
    sequences), the untrained one included; without held-out units it is the last. With ``averaging``, states
    are running means of the weights. Ids that no training row had get the vector of the unknown id.

    Args:
        network: what to train.
        batch: what ``network.examples`` takes: a table's rows, or sequences.
        target: their targets, as ``make_objective`` made them.
        objective: the loss.
        settings: how to train.
        seed: order of the units, held-out units and dropout follow from it.
        n_passes: stop after so many of the ``max_iter`` passes; nothing is held out then.
        title: shown before the progress bar.

    Returns: loss on the held-out units before training and after every pass, empty without
        held-out units.
    """
    order_generator = torch.Generator().manual_seed(seed)
    examples = network.examples(batch, target).to(settings.device)
    network.to(settings.device)
    fraction = settings.validation_fraction if n_passes is None else 0.0
    training, validation = _split(len(examples), fraction, order_generator)
    if not n_targets(examples[validation].target):
        training, validation = torch.arange(len(examples)), training[:0]
    held_out = examples[validation].unseen_to_unknown(examples[training])
    examples = examples[training].ready(settings)
    adapt_bins(network, examples.rows, examples.row_target, objective)
    network.shrink_rare(examples.batch)
    mean = Averaged(network, settings.averaging) if settings.averaging else None
    _set_generator(network, torch.Generator(settings.device).manual_seed(seed))
    groups = network.param_groups(settings.learning_rate_init, settings.alpha)
    optimizer = torch.optim.AdamW(groups, fused=True)
    n_steps = settings.max_iter * examples.n_steps(settings)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, n_steps))
    kept = network if mean is None else mean.network
    losses = [_mean_loss(kept, held_out, objective)] if len(held_out) else []
    best = copy.deepcopy(kept.state_dict())
    passes = range(settings.max_iter if n_passes is None else n_passes)
    with progress(title, len(passes), settings.verbose) as advance:
        for n_done in passes:
            network.train()
            for part in examples.steps(settings, order_generator):
                loss = objective.loss(network(**part.batch.tensors()), part.target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                if mean is not None:
                    mean.update()
            advance()
            _check_finite(float(loss.detach()), n_done, settings)
            if not len(held_out):
                continue
            losses.append(_mean_loss(kept, held_out, objective))
            best_pass = losses.index(min(losses))
            if best_pass == len(losses) - 1:
                best = copy.deepcopy(kept.state_dict())
            elif len(losses) - 1 - best_pass >= settings.n_iter_no_change:
                break
    network.load_state_dict(best if len(held_out) else kept.state_dict())
    network.forget_unseen(examples.batch)
    _set_generator(network, None)
    network.eval()
    network.requires_grad_(False)
    return losses


def _check_finite(loss: float, n_done: int, settings: Settings) -> None:
    """Raises: ValueError when a training has run away: no later pass would bring it back."""
    if not math.isfinite(loss):
        rate = f"learning_rate_init={settings.learning_rate_init:g}"
        raise ValueError(f"loss must stay finite, got {loss} in pass {n_done + 1}; {rate} may be too large")


def _split(n_units: int, fraction: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Units to train on and units to hold out; too few are all trained on."""
    order = torch.randperm(n_units, generator=generator)
    n_held_out = round(fraction * n_units)
    n_held_out = n_held_out if n_held_out < n_units else 0
    return order[n_held_out:].sort().values, order[:n_held_out].sort().values


def _rate(step: int, n_steps: int) -> float:
    """Share of the full learning rate: a linear rise, then half a cosine down to zero."""
    done = min(step / n_steps, 1.0)  # sequences may fill a minibatch more than was counted
    return (done + 1 / n_steps) / WARM_UP if done < WARM_UP else 0.5 + 0.5 * math.cos(math.pi * done)


@torch.no_grad()
def _mean_loss(network: nn.Module, examples: Examples, objective: Objective) -> float:
    network.eval()
    mean, total = 0.0, n_targets(examples.target)
    for part in examples.parts():
        loss = objective.loss(network(**part.batch.tensors()), part.target)
        mean += float(loss) * (n_targets(part.target) / total)
    return mean


def _set_generator(network: Network, generator: torch.Generator | None) -> None:
    for module in network.modules():
        if hasattr(module, "generator"):
            module.generator = generator  # type: ignore[assignment]
