"""One module for each column of numbers, and a learned row where a number is missing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tabembed._checks import check_integer, check_last_dim, check_seed
from tabembed.nn.draws import generator_of, uniform_
from tabembed.nn.missing import filled


class PerColumn(nn.Module):
    """Give every column of numbers to a module of its own; a missing one gets ``missing[j]``.

    Args:
        modules: one per column, each maps ``(n_rows, 1)`` to ``(n_rows, d_embedding)``.
        d_embedding: width of a vector.
        seed: seed of the first missing rows; ``None`` draws from torch's global generator. The
            modules draw by their own rules.

    Shape:
        - values: ``(*, n_columns)``, scaled numbers; anything, NaN too, where missing
        - missing: ``(*, n_columns)`` bool; ``None`` means that nothing is missing
        - output: ``(*, n_columns, d_embedding)``, in the dtype of the missing rows

    Raises: ValueError without a module, or when a module gives another width.

    >>> PerColumn([nn.Linear(1, 4), nn.Linear(1, 4)], 4)(torch.zeros(3, 2)).shape
    torch.Size([3, 2, 4])
    """

    def __init__(self, modules: Sequence[nn.Module], d_embedding: int, *, seed: int | None = None) -> None:
        check_integer(n_columns=len(modules), d_embedding=d_embedding)
        check_seed(seed)
        super().__init__()
        self.d_embedding, self.seed = d_embedding, seed
        self.columns = nn.ModuleList(modules)
        self.missing = nn.Parameter(torch.empty(len(modules), d_embedding))
        self._reset_missing()

    def reset_parameters(self) -> None:
        """Draw the missing rows anew, from U(−d^−½, d^−½), and let every module draw its own."""
        self._reset_missing()
        for module in self.columns:
            _reset(module)

    def _reset_missing(self) -> None:
        uniform_(self.missing, self.d_embedding**-0.5, generator_of(self.seed))

    def forward(self, values: Tensor, missing: Tensor | None = None) -> Tensor:
        """Vectors of the numbers."""
        values, missing = filled(values, missing, len(self.columns))
        rows = values.reshape(-1, len(self.columns), 1)
        vectors = [module(x) for module, x in zip(self.columns, rows.unbind(1), strict=True)]
        for j, vector in enumerate(vectors):
            check_last_dim(vector, self.d_embedding, f"the output of modules[{j}]")
        output = torch.stack(vectors, 1).reshape(*values.shape, self.d_embedding)
        return torch.where(missing.unsqueeze(-1), self.missing, output.to(self.missing))

    def extra_repr(self) -> str:
        """Width."""
        return f"d_embedding={self.d_embedding}"


def _reset(module: nn.Module) -> None:
    """Reset a module, or, where it cannot reset itself, its parts."""
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()
        return
    for child in module.children():
        _reset(child)
