"""The network behind an embedder of sequences: their embedding, and a head."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from tabembed._checks import check_choice
from tabembed.batch import TableBatch
from tabembed.nn.draws import undrawn_linear
from tabembed.nn.sequence import SequenceEmbedding
from tabembed.schema import SequenceSchema
from tabembed.sequence.batch import SequenceBatch
from tabembed.training.network import Network, forget_unseen, ids_by_column
from tabembed.training.sequence_examples import SequenceExamples

PER = ("row", "entity")
"""What has a vector, and may have a target."""


class SequenceNetwork(Network):
    """Embed sequences, and predict a target of every row or of every entity.

    Args:
        schema: what a fitted encoder knows of sequences.
        n_outputs: width of the prediction.
        per: what has a target: ``"row"`` or ``"entity"``.
        sequence: keywords of ``SequenceEmbedding``; ``pooling`` says how an entity's vector is made.
        seed: every initial weight follows from it.

    Shape:
        - forward: the tensors of a batch to ``(n_rows, n_outputs)``, ``(n_sequences, n_outputs)`` per entity
        - rows: the same to ``(n_rows, row_dim)``
        - entities: the same to ``(n_sequences, row_dim)``

    Raises: ValueError when ``per`` is neither of the two.
    """

    def __init__(
        self,
        schema: SequenceSchema,
        n_outputs: int,
        *,
        per: str = "row",
        sequence: Mapping[str, Any] = MappingProxyType({}),
        seed: int = 0,
    ) -> None:
        check_choice(PER, per=per)
        super().__init__()
        self.schema, self.per = schema, per
        self.embedding = SequenceEmbedding(schema, **{"pooling": "last", **sequence}, seed=seed)
        self.row_dim = self.embedding.output_dim
        # A head of zeros starts every training from the same prediction, whatever the first draw.
        self.head = undrawn_linear(self.row_dim, n_outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def examples(self, batch: SequenceBatch, target: Tensor) -> SequenceExamples:
        """What a training draws from: sequences."""
        return SequenceExamples(batch, target, self.per)

    def forward(self, **tensors: Any) -> Tensor:
        """Predict the target of every row, or of every entity."""
        vectors = self.rows(**tensors) if self.per == "row" else self.entities(**tensors)
        return self.head(vectors)

    def rows(self, **tensors: Any) -> Tensor:
        """One vector a row, made of it and its past."""
        return self.embedding.rows(**tensors)

    def entities(self, **tensors: Any) -> Tensor:
        """One vector a sequence, pooled from its rows."""
        return self.embedding(**tensors)

    @property
    def numeric(self) -> Any:
        """The module of the known continuous columns. That of the observed ones is left as it is made:
        what they say of a target is said of a later row's, not of the one that they stand beside."""
        return None if self.embedding.known is None else self.embedding.known.numeric

    def numbers(self, rows: TableBatch) -> tuple[Tensor, Tensor]:
        """The known numbers of rows."""
        observed = self.schema.observed
        known = [i for i, c in enumerate(self.schema.rows.continuous) if c.name not in observed]
        return rows.values[:, known], rows.missing[:, known]

    def param_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """Parameter groups for an optimiser: the embedding's own, and the head."""
        head = {"params": list(self.head.parameters()), "lr": learning_rate, "weight_decay": weight_decay}
        return [*self.embedding.param_groups(learning_rate, weight_decay), head]

    def forget_unseen(self, training: SequenceBatch) -> None:
        """Give every id that ``training`` has not shown the network the vector of the unknown id.

        What a row has observed is shown by the rows after it: that of the last ones is not.
        """
        rows, schema = training.rows, self.schema.rows
        seen, carried = (ids_by_column(schema, part) for part in (rows, rows[self._carried(training)]))
        seen |= {name: ids for name, ids in carried.items() if name in self.schema.observed}
        forget_unseen(seen, self.embedding.weight)

    def _carried(self, batch: SequenceBatch) -> Tensor:
        """True for the rows that some row of their sequence comes after."""
        last = (batch.cu_seqlens[1:].long() - 1)[batch.lengths > 0]
        if self.schema.strict:  # rows at one instant do not see each other
            ends = batch.times[last].repeat_interleave(batch.lengths[batch.lengths > 0])
            return batch.times < ends
        carried = torch.ones(batch.n_rows, dtype=torch.bool, device=batch.times.device)
        carried[last] = False
        return carried
