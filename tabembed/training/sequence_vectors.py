"""What a trained network makes of sequences: a vector of every row, or of every entity."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabembed._checks import check_choice
from tabembed._progress import tracked
from tabembed.sequence.batch import SequenceBatch
from tabembed.training.sequence_examples import BUDGET, numbered
from tabembed.training.sequence_network import PER, SequenceNetwork


@torch.no_grad()
def sequence_vectors(
    network: SequenceNetwork, batch: SequenceBatch, output: str, *, verbose: int = 0
) -> np.ndarray:
    """What a trained network makes of sequences, on the CPU.

    Computed in float64, so that a row's vector does not depend on the sequences beside its own.

    Args:
        network: a network in evaluation mode.
        batch: the sequences, whole.
        output: ``"row"``, one vector a row in the flat order of the batch; ``"entity"``, one a sequence.
        verbose: 1 shows a progress bar where there are more rows than are embedded at a time.

    Shape:
        - output: ``(n_rows, row_dim)`` or ``(n_sequences, row_dim)`` float32

    Raises: ValueError when ``output`` is neither of the two.
    """
    check_choice(PER, output=output)
    device, twin = network.head.weight.device, copy.deepcopy(network).double()
    encode = twin.rows if output == "row" else twin.entities
    found = torch.zeros(batch.n_rows if output == "row" else len(batch), network.row_dim)
    parts = numbered(batch).packed(BUDGET)
    shown = verbose if batch.n_rows > BUDGET else 0
    for part in tracked(parts, "vectors", batch.n_rows, shown, size=lambda part: part.n_rows):
        place = part.row if output == "row" else torch.from_numpy(part.entities)
        found[place] = encode(**_doubled(part.to(device))).float().cpu()
    return found.numpy()


def in_input_order(vectors: np.ndarray, batch: SequenceBatch) -> np.ndarray:
    """Vectors of a batch's rows on the rows of the table that was encoded, NaN where it has none here."""
    return batch.to_input_order(torch.from_numpy(vectors)).numpy()


def _doubled(batch: SequenceBatch) -> dict[str, Any]:
    """The tensors of a batch, its numbers in float64."""
    tensors: dict[str, Any] = batch.tensors()
    values: Tensor = tensors["rows"]["values"]
    return {**tensors, "rows": {**tensors["rows"], "values": values.double()}}
