"""ALiBi: attention scores fall with the distance of their two rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tabembed._checks import check_choice, check_integer, check_scale
from tabembed.functional.alibi import linear_bias, paper_slopes, penalty
from tabembed.functional.exact_phase import as_positions
from tabembed.nn.positions import check_floats, check_position_tensor, check_same_kind
from tabembed.nn.precision import WideModule, wide_dtype

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class ALiBiEmbedding(WideModule):
    """Add ``−slope · |t_q − t_k| / unit`` to attention scores, every head with a slope of its own.

    Nothing is stored but learned slopes, and no length is asked for. ``attention(..., bias=...)`` takes
    the module without ever writing the whole bias.

    Args:
        num_heads: number of heads.
        mode: ``"symmetric"``, or ``"causal"``: keys later than the query get −∞.
        slopes: ``"paper"``, fixed; or ``"learned"``, which start there.
        unit: the distance that costs one slope, in the unit of the positions.

    Shape:
        - scores: ``(*, num_heads, n_q, n_k)``, n_q ≤ n_k; the queries are the last n_q rows of the keys
        - output: shape and dtype of ``scores``

    Raises: ValueError for an unknown word, a unit that is not from 1e-30 to 1e30, another number of heads
        and more queries than keys. TypeError for scores that are no floats.

    Source: Press et al. 2022, arXiv:2108.12409.

    >>> ALiBiEmbedding(2)(torch.zeros(1, 2, 1, 3))
    tensor([[[[-0.1250, -0.0625,  0.0000]],
    <BLANKLINE>
             [[-0.0078, -0.0039,  0.0000]]]])
    """

    wide = ("learned_slopes",)

    def __init__(
        self, num_heads: int, *, mode: str = "symmetric", slopes: str = "paper", unit: float = 1.0
    ) -> None:
        check_integer(num_heads=num_heads)
        check_choice(("symmetric", "causal"), mode=mode)
        check_choice(("paper", "learned"), slopes=slopes)
        check_scale(unit=unit)
        super().__init__()
        self.num_heads, self.mode, self.unit = int(num_heads), mode, float(unit)
        learned = slopes == "learned"
        self.learned_slopes = nn.Parameter(torch.empty(num_heads, dtype=wide_dtype())) if learned else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Put learned slopes back to those of the paper."""
        if self.learned_slopes is not None:
            with torch.no_grad():
                self.learned_slopes.copy_(paper_slopes(self.num_heads, self.learned_slopes.device))

    @property
    def slopes(self) -> Tensor:
        """The slope of every head, ``(num_heads,)``, float32 or wider."""
        return self.slopes_on(self._follows_dtype.device)

    def slopes_on(self, device: torch.device) -> Tensor:
        """The slopes, on a device where fixed ones are needed: nothing says where the module stands."""
        if self.learned_slopes is not None:
            return self.learned_slopes
        return paper_slopes(self.num_heads, device).to(torch.promote_types(self.dtype, torch.float32))

    def bias(self, q_positions: Tensor, k_positions: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """The bias of some queries and keys, any number of each.

        Args:
            q_positions: row numbers, or real time in any unit.
            k_positions: the same of the keys.
            dtype: of the scores that it is for; nothing is computed in one narrower than ``slopes``.

        Shape:
            - q_positions: ``(n_q,)`` or ``(n_batch, n_q)``, integers, float32 or float64;
              k_positions: ``(n_k,)`` or ``(n_batch, n_k)``
            - output: ``(num_heads, n_q, n_k)`` or ``(n_batch, num_heads, n_q, n_k)``, in the wider of
              ``dtype`` and that of ``slopes``

        Raises: TypeError for positions in half precision or no numbers, for integers of one and floats of
            the other, and a dtype of no floats. ValueError for other shapes.

        >>> ALiBiEmbedding(8).bias(torch.tensor([10]), torch.tensor([9, 0]))[0]
        tensor([[-0.5000, -5.0000]])
        """
        queries, keys = _pair(q_positions=q_positions, k_positions=k_positions)
        if dtype is not None:
            _check_dtype(dtype)
        slopes = self.slopes_on(keys.device)
        slopes = slopes if dtype is None else slopes.to(torch.promote_types(slopes.dtype, dtype))
        return linear_bias(queries, keys, slopes, self.unit, self.mode == "causal")

    def forward(self, scores: Tensor) -> Tensor:
        """Scores plus the bias of row numbers."""
        check_floats(scores, "scores")
        check_scores(scores, self.num_heads)
        rows = torch.arange(scores.shape[-1], device=scores.device)
        bias = self.bias(rows[rows.shape[0] - scores.shape[-2] :], rows, scores.dtype)
        return (scores + bias).to(scores.dtype)

    def score_mod(self, positions: Tensor, q_positions: Tensor | None = None) -> ScoreMod:
        """What ``torch.nn.attention.flex_attention`` takes as ``score_mod``.

        Args:
            positions: of the keys.
            q_positions: of the queries; ``None`` where they are those of the keys.

        Shape:
            - positions: ``(n_k,)`` or ``(n_batch, n_k)``; q_positions: ``(n_q,)`` or ``(n_batch, n_q)``

        Raises: TypeError for positions in half precision or no numbers, and for integers of one and floats of
            the other. ValueError for other shapes.

        >>> from torch.nn.attention.flex_attention import flex_attention
        >>> q = k = v = torch.ones(1, 2, 3, 16)
        >>> flex_attention(q, k, v, score_mod=ALiBiEmbedding(2).score_mod(torch.arange(3))).shape
        torch.Size([1, 2, 3, 16])
        """
        given = {} if q_positions is None else {"q_positions": q_positions}
        queries, keys = (x[0] if x.shape[:-1] == (1,) else x for x in _pair(**given, positions=positions))
        slopes = self.slopes_on(keys.device)
        # A number of Python would be read from a tensor again in compiled code, which kernels cannot.
        unit = torch.full((), self.unit, dtype=torch.float64, device=keys.device)
        causal = self.mode == "causal"

        def modified(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            t_q = queries[b, q] if queries.ndim == 2 else queries[q]
            t_k = keys[b, k] if keys.ndim == 2 else keys[k]
            return score + penalty(t_q, t_k, slopes[h], unit, causal).to(score.dtype)

        return modified

    def extra_repr(self) -> str:
        """Arguments."""
        slopes = "paper" if self.learned_slopes is None else "learned"
        return f"{self.num_heads}, mode={self.mode!r}, slopes={slopes!r}, unit={self.unit:g}"


def check_scores(scores: Tensor, num_heads: int) -> None:
    """Scores have this many heads, and no more queries than keys.

    Raises: ValueError with the shape found.
    """
    if scores.ndim < 3 or scores.shape[-3] != num_heads or scores.shape[-2] > scores.shape[-1]:
        raise ValueError(
            f"scores must have shape (*, {num_heads}, n_q, n_k) with n_q <= n_k, got {tuple(scores.shape)}"
        )


def _pair(**given: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of queries and keys, or of both, in one dtype: int64 or float64."""
    for name, one in given.items():
        check_position_tensor(one, name)
        if one.ndim not in (1, 2):
            raise ValueError(f"{name} must have shape (n,) or (n_batch, n), got {tuple(one.shape)}")
    check_same_kind(**given)
    queries, keys = next(iter(given.values())), next(reversed(given.values()))
    if queries.ndim == keys.ndim == 2 and 1 != queries.shape[0] != keys.shape[0] != 1:
        names, shapes = " and ".join(given), f"{tuple(queries.shape)} and {tuple(keys.shape)}"
        raise ValueError(f"{names} must be of one n_batch, got shapes {shapes}")
    return as_positions(queries), as_positions(keys)


def _check_dtype(dtype: torch.dtype) -> None:
    """Scores have a dtype of floats."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be one of floats, got {dtype!r}")
