"""Token embedding: one learned vector per token, as large as the positions that are added to it."""

from __future__ import annotations

import math

from torch import Tensor

from tabembed._checks import check_integer, check_tensor
from tabembed.nn.entity import EntityEmbedding, check_padding
from tabembed.nn.heads import held_for


class TokenEmbedding(EntityEmbedding):
    """Look up one learned vector per token, times ``√dim``.

    Args:
        num_tokens: number of tokens.
        dim: width of a vector.
        padding_idx: token whose vector is zero and never trained, whatever stands in its row.
        init_std: standard deviation of the first weights.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - ids: ``(*)``, any integers, ``0 <= ids < num_tokens``
        - output: ``(*, dim)``, in the dtype of the weight

    Raises: as ``EntityEmbedding``: ValueError for an id out of range on the CPU; elsewhere it gives zeros.
        ValueError for ids on another device.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.4.

    >>> import torch
    >>> TokenEmbedding(50, 4)(torch.tensor([3, 3])).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        num_tokens: int,
        dim: int,
        *,
        padding_idx: int | None = None,
        init_std: float = 0.02,
        seed: int | None = None,
    ) -> None:
        check_integer(num_tokens=num_tokens, dim=dim)
        check_padding(padding_idx, num_tokens)
        padding_idx = None if padding_idx is None else int(padding_idx)
        super().__init__(int(num_tokens), int(dim), padding_idx=padding_idx, init_std=init_std, seed=seed)

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of the tokens."""
        check_tensor(ids, "ids")
        held_for(ids, self, self.weight)
        return super().forward(ids) * math.sqrt(self.embed_dim)
