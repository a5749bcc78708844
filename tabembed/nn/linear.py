"""Linear embedding of numbers: one learned direction per column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tabembed._checks import check_columns, check_integer, check_seed
from tabembed.nn.draws import generator_of, uniform_
from tabembed.nn.missing import filled
from tabembed.schema import ContinuousColumn


class LinearEmbedding(nn.Module):
    """Map every number ``x`` of column ``j`` to ``x · weight[j] + bias[j]``, a missing one to ``missing[j]``.

    Args:
        n_features: number of columns.
        d_embedding: width of a vector.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - values: ``(*, n_features)``, scaled numbers; anything, NaN too, where missing
        - missing: ``(*, n_features)`` bool; ``None`` means that nothing is missing
        - output: ``(*, n_features, d_embedding)``, in the dtype of the weight

    Source: Gorishniy et al. 2021, arXiv:2106.11959, section 3.3 (feature tokenizer).

    >>> LinearEmbedding(3, d_embedding=4)(torch.tensor([[1.0, -0.5, 0.0]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(self, n_features: int, d_embedding: int = 8, *, seed: int | None = None) -> None:
        check_integer(n_features=n_features, d_embedding=d_embedding)
        check_seed(seed)
        super().__init__()
        self.n_features, self.d_embedding, self.seed = n_features, d_embedding, seed
        self.weight = nn.Parameter(torch.empty(n_features, d_embedding))
        self.bias = nn.Parameter(torch.empty(n_features, d_embedding))
        self.missing = nn.Parameter(torch.empty(n_features, d_embedding))
        self.reset_parameters()

    @classmethod
    def from_columns(
        cls, columns: Sequence[ContinuousColumn], d_embedding: int = 8, *, seed: int | None = None
    ) -> LinearEmbedding:
        """One for these columns of a schema."""
        check_columns(columns, ContinuousColumn)
        return cls(len(columns), d_embedding, seed=seed)

    def reset_parameters(self) -> None:
        """Draw every weight anew from U(−d^−½, d^−½)."""
        generator = generator_of(self.seed)
        for weight in (self.weight, self.bias, self.missing):
            uniform_(weight, self.d_embedding**-0.5, generator)

    def forward(self, values: Tensor, missing: Tensor | None = None) -> Tensor:
        """Vectors of the numbers."""
        values, missing = filled(values, missing, self.n_features)
        vectors = (values.unsqueeze(-1) * self.weight + self.bias).to(self.weight)
        return torch.where(missing.unsqueeze(-1), self.missing, vectors)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.n_features}, {self.d_embedding}"
