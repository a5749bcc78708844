"""A condition that scales, shifts and gates: FiLM and adaptive layer norm."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tabembed._checks import check_integer, check_last_dim, check_number_tensor, check_scale
from tabembed.functional.phase import widened
from tabembed.nn.draws import undrawn_linear


class FiLM(nn.Module):
    """Scale and shift by a condition: ``(1 + γ(cond)) · x + β(cond)``; the identity at first.

    Args:
        cond_dim: width of the condition.
        dim: width of ``x``.

    Shape:
        - x: ``(*, L..., dim)``
        - cond: ``(*, cond_dim)``; its leading dimensions are the first ones of ``x``, and it holds for
          all of ``L...``: one condition a sample, or one a step, or one for everything
        - output: as ``x``, in the dtype of the weights

    Source: Perez et al. 2018, arXiv:1709.07871, equation 2, γ counted from 1.

    >>> film = FiLM(8, 4)
    >>> film(torch.ones(2, 5, 4), torch.randn(2, 8)).shape
    torch.Size([2, 5, 4])
    """

    def __init__(self, cond_dim: int, dim: int) -> None:
        check_integer(cond_dim=cond_dim, dim=dim)
        super().__init__()
        self.cond_dim, self.dim = cond_dim, dim
        self.linear = undrawn_linear(cond_dim, 2 * dim)  # γ, then β
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to the identity: all weights zero."""
        _zero(self.linear)

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        """Conditioned ``x``."""
        scale, shift = _modulation(self.linear, cond, x, self.dim).chunk(2, -1)
        return x.to(self.linear.weight.dtype) * (1 + scale) + shift

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.cond_dim}, {self.dim}"


class AdaLayerNorm(nn.Module):
    """Layer norm whose scale and shift come from a condition, and a gate for what follows (adaLN-Zero).

    ``h = LayerNorm(x) · (1 + scale) + shift``, without affine weights of its own; scale, shift and gate
    are chunks of ``Linear(SiLU(cond))``. Weights and bias of that layer are zero at first, so a block
    ``x + gate · f(h)`` starts as the identity.

    Args:
        cond_dim: width of the condition.
        dim: width of ``x``.
        chunk_order: which chunk of the linear layer is which: ``"shift_scale_gate"`` (DiT, diffusers'
            AdaLayerNormZero and AdaLayerNormZeroSingle), ``"scale_shift_gate"`` or any other order of
            the three; without ``gate`` there is none: ``"shift_scale"`` (DiT's last layer),
            ``"scale_shift"`` (diffusers' AdaLayerNormContinuous).
        eps: added to the variance, positive.

    Shape:
        - x: ``(*, L..., dim)``
        - cond: ``(*, cond_dim)``; its leading dimensions are the first ones of ``x``
        - output: ``(h, gate)``, ``h`` as ``x``, ``gate`` ``(*, 1..., dim)`` so that it multiplies ``h``;
          ``h`` alone when ``chunk_order`` has no gate; in the dtype of the weights

    Source: Peebles & Xie 2023, arXiv:2212.09748, section 3.2 (adaLN-Zero).

    >>> norm, f = AdaLayerNorm(8, 4), torch.nn.Linear(4, 4)
    >>> x, cond = torch.randn(2, 5, 4), torch.randn(2, 8)
    >>> h, gate = norm(x, cond)
    >>> torch.equal(x + gate * f(h), x)
    True
    """

    def __init__(
        self, cond_dim: int, dim: int, *, chunk_order: str = "shift_scale_gate", eps: float = 1e-6
    ) -> None:
        check_integer(cond_dim=cond_dim, dim=dim)
        check_scale(eps=eps)
        chunks = str(chunk_order).split("_")
        if sorted(chunks) not in (["gate", "scale", "shift"], ["scale", "shift"]):
            rule = "chunk_order must name shift, scale and perhaps gate once each, joined by _"
            raise ValueError(f"{rule}, got {chunk_order!r}")
        super().__init__()
        self.cond_dim, self.dim, self.chunk_order, self.eps = cond_dim, dim, chunk_order, float(eps)
        self._chunks = tuple(chunks)
        self.linear = undrawn_linear(cond_dim, len(chunks) * dim)
        self.reset_parameters()

    @classmethod
    def from_joint(
        cls, weight: Tensor, bias: Tensor, *, n_sublayers: int = 2, chunk_order: str = "shift_scale_gate"
    ) -> list[AdaLayerNorm]:
        """One norm a sublayer from the one linear layer that a published block has for all of them.

        Args:
            weight: ``(n_sublayers · n_chunks · dim, cond_dim)``, copied: DiT's ``adaLN_modulation.1``,
                the ``linear`` of diffusers' AdaLayerNormZero.
            bias: ``(n_sublayers · n_chunks · dim,)``.
            n_sublayers: how many norms lie in it, one after the other: 2 for attention and MLP.
            chunk_order: order of the chunks within each.

        Raises: ValueError when the rows cannot be divided so.

        >>> weight, bias = torch.randn(6 * 4, 8), torch.randn(6 * 4)
        >>> of_attention, of_mlp = AdaLayerNorm.from_joint(weight, bias)
        """
        check_integer(n_sublayers=n_sublayers)
        n_chunks = n_sublayers * len(chunk_order.split("_"))
        if weight.ndim != 2 or bias.shape != weight.shape[:1] or len(weight) % n_chunks:
            shapes = f"{tuple(weight.shape)} and {tuple(bias.shape)}"
            raise ValueError(f"weight and bias must have a multiple of {n_chunks} rows, got shapes {shapes}")
        norms = []
        for w, b in zip(weight.chunk(n_sublayers), bias.chunk(n_sublayers), strict=True):
            norm = cls(weight.shape[1], len(weight) // n_chunks, chunk_order=chunk_order).to(weight)
            norm.linear.load_state_dict({"weight": w, "bias": b})
            norms.append(norm)
        return norms

    def reset_parameters(self) -> None:
        """Back to a plain layer norm behind a closed gate: all weights zero."""
        _zero(self.linear)

    def forward(self, x: Tensor, cond: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Normalised ``x`` and the gate."""
        modulation = _modulation(self.linear, cond, x, self.dim, nn.functional.silu)
        part = dict(zip(self._chunks, modulation.chunk(len(self._chunks), -1), strict=True))
        x = x.to(torch.promote_types(x.dtype, self.linear.weight.dtype))  # statistics of the wider of the two
        normalised = nn.functional.layer_norm(x, (self.dim,), eps=self.eps)
        h = normalised.to(modulation.dtype) * (1 + part["scale"]) + part["shift"]
        return (h, part["gate"]) if "gate" in part else h

    def extra_repr(self) -> str:
        """Arguments."""
        return f"{self.cond_dim}, {self.dim}, chunk_order={self.chunk_order}, eps={self.eps:g}"


def _zero(layer: nn.Linear) -> None:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)


def _modulation(
    layer: nn.Linear, cond: Tensor, x: Tensor, dim: int, activation: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Linear layer of the condition, with dimensions of size 1 where ``x`` has more of them."""
    check_last_dim(x, dim, "x")
    check_last_dim(cond, layer.in_features, "cond")
    check_number_tensor(x, "x")
    check_number_tensor(cond, "cond")
    leading = cond.shape[:-1]
    if cond.ndim > x.ndim or leading != x.shape[: len(leading)]:
        shapes = f"{tuple(cond.shape)} and {tuple(x.shape)}"
        raise ValueError(f"cond must have the first leading dimensions of x, got shapes {shapes}")
    cond = widened(cond) if activation is None else activation(widened(cond))
    return layer(cond.to(layer.weight.dtype)).reshape(
        *leading, *(1,) * (x.ndim - cond.ndim), layer.out_features
    )
