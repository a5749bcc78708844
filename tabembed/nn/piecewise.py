"""Piecewise-linear embedding of numbers: a vector at every edge, straight lines between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tabembed._checks import check_bool, check_choice, check_columns, check_integer, check_seed
from tabembed.functional.phase import widened
from tabembed.functional.piecewise import pad_edges, piecewise_linear, quantile_edges
from tabembed.nn.draws import generator_of, uniform_
from tabembed.nn.missing import filled
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.schema import ContinuousColumn

VERSIONS, EXTRAPOLATIONS, BINS = ("A", "B"), ("linear", "clip"), ("quantile", "tree")

TreeEdges = Callable[[Tensor, Tensor, int], Sequence[Tensor]]
"""Finds edges for (values, missing, n_bins) that part the rows by a target."""


class PiecewiseLinearEmbedding(WideModule):
    """Give every number a vector that runs straight from edge to edge of the bins of its column.

    ``code(x)`` says how much of every bin lies below ``x`` (``functional.piecewise.piecewise_code``); its
    product with the weight is looked up, so that the cost does not grow with the number of bins.

    =========== =====================================================================================
    ``version`` vector of the number ``x`` of column ``j``
    =========== =====================================================================================
    ``"A"``     ``activation(weight[j]ᵀ code(x) + bias[j])``
    ``"B"``     ``slope[j] · x + bias[j] + activation(weight[j]ᵀ code(x))``; without an activation the
                weight is 0 at first, and the embedding linear
    =========== =====================================================================================

    A missing number gets ``missing[j]``. A column with a single edge (it was constant) has a code of
    zeros. A column may have fewer edges than others: the bins it lacks are never used.

    **Beyond the edges**: with ``extrapolation="linear"`` the first and the last line go on without end,
    as in the paper, so that the vector of a number far outside is large; with ``"clip"`` a number below
    the first edge counts as the first edge and one above the last as the last. An infinite number
    counts as the outer edge in both.

    Args:
        edges: rising edges of the bins of every column, at least one each.
        d_embedding: width of a vector.
        version: ``"A"`` or ``"B"``.
        activation: whether ``activation`` is ReLU; else it changes nothing.
        extrapolation: ``"linear"`` or ``"clip"``.
        n_bins: bins that every column has room for; ``None`` is what the edges need. Only modules with
            the same number take each other's weights.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - values: ``(*, n_features)``, scaled numbers; anything, NaN too, where missing
        - missing: ``(*, n_features)`` bool; ``None`` means that nothing is missing
        - output: ``(*, n_features, d_embedding)``, in the dtype of the weight; edges stay float32 or
          wider, and are part of the state dict

    Raises: ValueError for edges that do not rise, are not finite or are too many, and for an unknown
        version or extrapolation.
    Source: Gorishniy et al. 2022, arXiv:2203.05556, section 3.2 (A); Gorishniy et al. 2025,
        arXiv:2410.24210, appendix (B).

    >>> module = PiecewiseLinearEmbedding([torch.tensor([0.0, 1.0, 3.0])], d_embedding=4)
    >>> module(torch.tensor([[0.5], [2.0], [99.0]])).shape
    torch.Size([3, 1, 4])
    """

    wide = ("edges",)
    edges: Tensor

    def __init__(
        self,
        edges: Sequence[Any],
        d_embedding: int = 12,
        *,
        version: str = "B",
        activation: bool = False,
        extrapolation: str = "linear",
        n_bins: int | None = None,
        seed: int | None = None,
    ) -> None:
        check_integer(n_columns=len(edges), d_embedding=d_embedding)
        check_bool(activation=activation)
        check_choice(VERSIONS, version=version)
        check_choice(EXTRAPOLATIONS, extrapolation=extrapolation)
        check_seed(seed)
        n_bins = max(1, *(len(column) - 1 for column in edges)) if n_bins is None else n_bins
        check_integer(n_bins=n_bins)
        super().__init__()
        self.n_features, self.n_bins, self.d_embedding, self.seed = len(edges), n_bins, d_embedding, seed
        self.version, self.activation, self.extrapolation = version, activation, extrapolation
        self.bins, self._clips = "given", extrapolation == "clip"
        self.register_buffer("edges", torch.empty(len(edges), n_bins + 1, dtype=wide_dtype()))
        self.weight = nn.Parameter(torch.empty(len(edges), n_bins, d_embedding))
        self.bias = nn.Parameter(torch.empty(len(edges), d_embedding))
        self.slope = nn.Parameter(torch.empty(len(edges), d_embedding)) if version == "B" else None
        self.missing = nn.Parameter(torch.empty(len(edges), d_embedding))
        self._first_edges = self._checked(edges)
        self.reset_parameters()

    @classmethod
    def from_columns(
        cls,
        columns: Sequence[ContinuousColumn],
        d_embedding: int = 12,
        *,
        n_bins: int = 48,
        bins: str = "quantile",
        version: str = "B",
        activation: bool = False,
        extrapolation: str = "linear",
        seed: int | None = None,
    ) -> PiecewiseLinearEmbedding:
        """One for these columns of a schema.

        Args:
            columns: the columns.
            d_embedding: width of a vector.
            n_bins: number of bins of a column at most. A schema knows about a thousand points of a column:
                beyond that there are no more edges to be had from it, and bins stay unused.
            bins: ``"quantile"``: each holds about equally many rows, as ``quantile_edges`` has it.
                ``"tree"``: these at first, until a training finds the edges that part its target, as
                ``TableEmbedder`` does. In a loop of your own find them before the first step:
                ``module.set_edges(tree_edges(values, target, module.n_bins, classes=..., missing=...))``
                with ``tabembed.tree_edges`` and training rows alone.
            version: as in the constructor.
            activation: as in the constructor.
            extrapolation: as in the constructor.
            seed: as in the constructor.
        """
        check_columns(columns, ContinuousColumn)
        check_choice(BINS, bins=bins)
        edges = [_edges_of(column, n_bins) for column in columns]
        own: dict[str, Any] = {"version": version, "activation": activation, "extrapolation": extrapolation}
        module = cls(edges, d_embedding, **own, n_bins=n_bins, seed=seed)
        module.bins = bins
        return module

    def reset_parameters(self) -> None:
        """Draw every weight anew, and put the edges back that the module was last given or has loaded.

        Version A: weight and bias from U(−n_bins^−½, n_bins^−½). Version B: slope and bias from
        U(−d^−½, d^−½), the weight 0, or as in A where ReLU would never let it leave 0. Missing rows from
        U(−d^−½, d^−½).
        """
        generator, coded, own = generator_of(self.seed), self.n_bins**-0.5, self.d_embedding**-0.5
        # NOTE[DIFF] the peer starts at 0 with ReLU too, whose gradient there is 0: nothing is ever learned.
        uniform_(self.weight, coded if self.slope is None or self.activation else 0.0, generator)
        uniform_(self.bias, coded if self.slope is None else own, generator)
        if self.slope is not None:
            uniform_(self.slope, own, generator)
        uniform_(self.missing, own, generator)
        with torch.no_grad():
            self.edges.copy_(self._first_edges)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        loaded = state_dict.get(prefix + "edges")
        if loaded is not None and loaded.shape == self._first_edges.shape and not loaded.is_meta:
            self._first_edges = loaded.detach().cpu().clone()

    def set_edges(self, edges: Sequence[Any]) -> None:
        """Move the edges; the weights stay as they are.

        Args:
            edges: rising edges of every column, ``n_bins + 1`` at most.

        Raises: ValueError as the constructor does.
        """
        self._first_edges = self._checked(edges)
        with torch.no_grad():
            self.edges.copy_(self._first_edges)

    def adapt(self, values: Tensor, missing: Tensor, find_edges: TreeEdges) -> None:
        """Fit the edges to the rows of a training, if they are to come from trees.

        Whoever trains calls this once before the first step, with the training rows and nothing else.

        Args:
            values: numbers ``(n_rows, n_features)``.
            missing: where they are missing, bool.
            find_edges: finds edges for (values, missing, n_bins) that part the rows by their target.
        """
        if self.bins == "tree":
            self.set_edges(find_edges(values, missing, self.n_bins))

    def forward(self, values: Tensor, missing: Tensor | None = None) -> Tensor:
        """Vectors of the numbers."""
        x, missing = filled(values, missing, self.n_features)
        return torch.where(missing.unsqueeze(-1), self.missing, self._vectors(x))

    def _vectors(self, values: Tensor) -> Tensor:
        x = widened(values)
        x = x.to(torch.promote_types(x.dtype, self.edges.dtype))
        edges, weight, bias = self.edges.to(x), self.weight.to(x), self.bias.to(x)
        bounded = x.clamp(edges[:, 0], edges[:, -1])
        x = bounded if self._clips else torch.where(x.isinf(), bounded, x)
        if self.slope is None:
            vectors = piecewise_linear(x, edges, weight, bias)
            vectors = F.relu(vectors) if self.activation else vectors
        elif self.activation:
            line = torch.addcmul(bias, x.unsqueeze(-1), self.slope.to(x))
            vectors = line + F.relu(piecewise_linear(x, edges, weight))
        else:
            vectors = piecewise_linear(x, edges, weight, bias)
            vectors = torch.addcmul(vectors, x.unsqueeze(-1), self.slope.to(x))
        return vectors.to(self.missing)

    def _checked(self, edges: Sequence[Any]) -> Tensor:
        """The edges as one tensor on the CPU, as wide as the buffer was made."""
        columns = [torch.as_tensor(column, dtype=wide_dtype(), device="cpu") for column in edges]
        if len(columns) != self.n_features:
            raise ValueError(f"edges must be of {self.n_features} columns, got {len(columns)}")
        for j, column in enumerate(columns):
            if column.ndim != 1 or not 1 <= len(column) <= self.n_bins + 1:
                shape, limit = tuple(column.shape), self.n_bins + 1
                raise ValueError(f"edges[{j}] must be 1 to {limit} numbers, got shape {shape}")
            if not column.isfinite().all():
                raise ValueError(f"edges[{j}] must be finite, got {column[~column.isfinite()][0].item()}")
            if (column.diff() <= 0).any():
                at = int((column.diff() <= 0).nonzero()[0])
                raise ValueError(
                    f"edges[{j}] must rise, got {column[at + 1].item():g} after {column[at].item():g}"
                )
        return pad_edges(columns, self.n_bins)

    def extra_repr(self) -> str:
        """Sizes."""
        own = f"n_bins={self.n_bins}, bins={self.bins!r}, version={self.version!r}"
        beyond = f"extrapolation={self.extrapolation!r}, activation={self.activation}"
        return f"{self.n_features}, {self.d_embedding}, {own}, {beyond}"


def _edges_of(column: ContinuousColumn, n_bins: int) -> Tensor:
    """Quantile edges of a column of a schema."""
    points = torch.tensor(column.points, dtype=torch.float64, device="cpu")
    counts = torch.tensor(column.counts, dtype=torch.int64, device="cpu")
    return quantile_edges(points, n_bins, counts).to(wide_dtype()).unique()
