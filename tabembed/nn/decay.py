"""Attention that fades with elapsed time, and with nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tabembed._checks import can_be_read, check_bool, check_integer, check_scale, is_concrete
from tabembed.functional.position import elapsed
from tabembed.functional.rotary import exponent_limit
from tabembed.kernels import rotate
from tabembed.nn.heads import as_pair, held_for, shaped_as
from tabembed.nn.number_input import as_numbers
from tabembed.nn.positions import resolve_pair
from tabembed.nn.precision import WideModule, wide_dtype
from tabembed.nn.rotary import RotaryEmbedding
from tabembed.nn.rotary_layout import rotary_width


class RelativeDecay(WideModule):
    """Scale queries and keys so that their products halve with every half-life between them.

    A query is scaled by ``2^(−t / half_life)``, a key by ``2^(t / half_life)``, ``t`` since an origin: the
    product of a pair of features holds ``2^(−elapsed / half_life)``, wherever both stand. What lies after a
    query grows by the same law, so use a causal mask. Exponents end at 80 (float16: 10): queries must be that
    near the origin, and keys, too, unless they are older. ``attention`` works in blocks where they are.

    Args:
        dim: width of a head.
        half_lives: the shortest and the longest, in the unit of the positions: the pairs of features have
            half-lives in equal ratios between them; one number is for all.
        rotary: a ``RotaryEmbedding`` of all features, to turn queries and keys in the same launch; ``None``
            turns nothing.
        learnable: learn the half-lives.

    Shape:
        - q, k, positions, k_positions, output: as in ``RotaryEmbedding``
        - origin: a number, ``()`` or ``(n_sequences,)``

    Raises: ValueError for half-lives that are not from 1e-30 to 1e30 or fall, a ``rotary`` of another width,
        and, on the CPU, positions too far from the origin; elsewhere their exponents end at the limit.
        TypeError for queries and keys of two dtypes, integers of queries or keys with floats of the other,
        and a float as the origin of integers.

    Source: Sun et al. 2022, arXiv:2212.10554, equation 10; here the rates follow from the data's time.

    >>> decay = RelativeDecay(2, half_lives=7.0)  # days
    >>> q, k = decay(torch.ones(1, 2), torch.ones(3, 2), positions=torch.tensor([100.0, 107.0, 114.0]))
    >>> q @ k.T
    tensor([[0.5000, 1.0000, 2.0000]])
    """

    wide = ("log_half_lives",)

    def __init__(
        self,
        dim: int,
        *,
        half_lives: float | Sequence[float] | np.ndarray | Tensor,
        rotary: RotaryEmbedding | None = None,
        learnable: bool = False,
    ) -> None:
        check_integer(dim=dim)
        dim = rotary_width(dim, None)
        n_pairs = dim // 2
        check_bool(learnable=learnable)
        super().__init__()
        self.dim, (self.shortest, self.longest) = dim, _ends(half_lives)
        self.rotary = RotaryEmbedding(dim, frequencies=[0.0] * n_pairs) if rotary is None else rotary
        _check_rotary(self.rotary, dim)
        self.log_half_lives = nn.Parameter(torch.empty(n_pairs, dtype=wide_dtype())) if learnable else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Half-lives that are learned start anew from the arguments; the rotation is reset, too."""
        self.rotary.reset_parameters()
        if self.log_half_lives is not None:
            with torch.no_grad():
                self.log_half_lives.copy_(self._first_logarithms(self.log_half_lives.device))

    def rates(self) -> Tensor:
        """The rate of every pair, ``ln 2 / half-life``, per unit of position: ``(dim / 2,)`` float64."""
        learned, device = self.log_half_lives, self._follows_dtype.device
        logarithms = self._first_logarithms(device) if learned is None else learned.double()
        return torch.exp(-logarithms) * (math.log(2) / self.shortest)

    def known_rates(self) -> list[float] | None:
        """The same as numbers of Python, ``None`` where learned ones cannot be read, as in a graph."""
        if self.log_half_lives is not None:
            return self.rates().detach().tolist() if can_be_read(self.log_half_lives) else None
        ratio, last = self.shortest / self.longest, max(self.dim // 2 - 1, 1)
        return [math.log(2) / self.shortest * ratio ** (i / last) for i in range(self.dim // 2)]

    def largest_rate(self) -> float:
        """The rate of the pair that fades fastest: what bounds how far a block may reach."""
        return (
            float(self.rates().detach().max())
            if self.log_half_lives is not None
            else (math.log(2) / self.shortest)
        )

    @property
    def half_lives(self) -> Tensor:
        """The half-life of every feature, in the unit of the positions: ``(dim,)`` float64."""
        of_pairs = math.log(2) / self.rates()
        return of_pairs.repeat_interleave(2) if self.rotary.interleaved else of_pairs.repeat(2)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        *,
        positions: Tensor | None = None,
        k_positions: Tensor | None = None,
        offset: Tensor | int = 0,
        seq_dim: int = -2,
        origin: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys whose products fade, turned in the same launch where there is a rotation.

        Args:
            q: queries.
            k: keys.
            positions: as in ``RotaryEmbedding``.
            k_positions: as in ``RotaryEmbedding``.
            offset: as in ``RotaryEmbedding``.
            seq_dim: which dimension holds the steps.
            origin: position where nothing is scaled, of the positions' kind; ``None`` takes that of the last
                query. Scores do not depend on it.
        """
        queries, keys = as_pair(q, k, self.dim, seq_dim)
        n_sequences, _, n_q, _ = queries.shape
        places = resolve_pair(positions, k_positions, offset, n_sequences, n_q, keys.shape[2], q.device)
        start = _origin(origin, places[0], n_sequences)
        turns, rates = held_for(q, self, self.rotary.turns()), held_for(q, self, self.rates())
        self._check_reach(*places, start, q.dtype, k.dtype)
        queries, keys = rotate(queries, keys, *places, turns, rates, start, self.rotary.interleaved)
        return shaped_as(q, queries, seq_dim), shaped_as(k, keys, seq_dim)

    def _first_logarithms(self, device: torch.device) -> Tensor:
        """Logarithms of the half-lives over the shortest: float32 holds them well in any unit of time."""
        end, n_pairs = math.log(self.longest / self.shortest), self.dim // 2
        return torch.linspace(0.0, end, n_pairs, dtype=torch.float64, device=device)

    def _check_reach(
        self, queries: Tensor, keys: Tensor, origin: Tensor, dtype: torch.dtype, k_dtype: torch.dtype
    ) -> None:
        """No exponent ends at its limit where that could be seen, as far as it can be read at no cost."""
        if k_dtype != dtype:  # half precision has another limit
            raise TypeError(f"k must be {dtype}, as q is, got {k_dtype}")
        if not (is_concrete(queries) and is_concrete(keys) and queries.numel() and keys.numel()):
            return
        limit, rate = exponent_limit(dtype), self.largest_rate()
        of_queries = rate * float(elapsed(queries.detach(), origin.unsqueeze(-1)).abs().max())
        of_keys = elapsed(keys.detach(), origin.unsqueeze(-1)) * rate
        # A key that is older ends at exp(-limit), times what its query gained: nothing to be seen of.
        unseen = of_queries - limit <= math.log(torch.finfo(dtype).eps)
        farthest = max(of_queries, float(of_keys.max()), 0.0 if unseen else float(-of_keys.min()))
        if farthest > limit:
            raise ValueError(
                f"positions must be within {limit / rate:.4g} of the origin, got {farthest / rate:.4g}: "
                "use attention, which works in blocks"
            )

    def extra_repr(self) -> str:
        """Arguments."""
        learnable = self.log_half_lives is not None
        return f"{self.dim}, half_lives=({self.shortest:g}, {self.longest:g}), learnable={learnable}"


def _ends(half_lives: float | Sequence[float] | np.ndarray | Tensor) -> tuple[float, float]:
    """The shortest and the longest half-life."""
    given = half_lives.tolist() if isinstance(half_lives, Tensor | np.ndarray) else half_lives
    both = tuple(given) if isinstance(given, Sequence) else (given, given)
    if len(both) != 2:
        raise ValueError(f"half_lives must be one number or the shortest and the longest, got {both}")
    for half_life in both:
        check_scale(half_lives=half_life)
    if both[1] < both[0]:
        raise ValueError(f"half_lives must be the shortest, then the longest, got {both}")
    return float(both[0]), float(both[1])


def _check_rotary(rotary: RotaryEmbedding, dim: int) -> None:
    """The rotation is one of all features, so that its pairs are those that fade together."""
    if not isinstance(rotary, RotaryEmbedding):
        raise TypeError(f"rotary must be a RotaryEmbedding, got {type(rotary).__name__}")
    if not rotary.dim == rotary.rotary_dim == dim:
        raise ValueError(f"rotary must turn all {dim} features, got {rotary.rotary_dim} of {rotary.dim}")


def _origin(origin: Tensor | float | None, positions: Tensor, n_sequences: int) -> Tensor:
    """Where nothing is scaled, ``(n_sequences or 1,)`` in the dtype of the positions."""
    if origin is None:  # 0 where there is no query
        first = positions.new_zeros(positions.shape[0], 1)
        return torch.cat((first, positions.detach()), 1)[:, -1]
    numbers = as_numbers(origin, "origin", positions.device)
    if numbers.ndim > 1 or numbers.numel() not in (1, n_sequences):
        raise ValueError(f"origin must have shape () or ({n_sequences},), got {tuple(numbers.shape)}")
    if numbers.is_floating_point() and not positions.is_floating_point():
        raise TypeError(f"origin must be an integer where positions are integers, got {numbers.dtype}")
    return numbers.detach().reshape(-1).to(positions.dtype)
