from __future__ import annotations

import math

import pytest
import torch
from diffusers.models.normalization import (
    AdaLayerNormContinuous,
    AdaLayerNormZero,
    AdaLayerNormZeroSingle,
    SD35AdaLayerNormZeroX,
)
from torch import nn
from torch.nn.functional import layer_norm
from torch.testing import assert_close

from tabembed.nn import AdaLayerNorm, FiLM

ORDERS = ["shift_scale_gate", "scale_shift_gate", "gate_scale_shift", "shift_scale", "scale_shift"]


def some(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# -- zero at first -----------------------------------------------------------------------------------


def test_film_is_the_identity_at_first_and_not_after_a_step():
    film, x, cond = FiLM(3, 5), some(4, 6, 5), some(4, 3, seed=1)
    assert torch.equal(film(x, cond), x)
    film(x, cond).square().sum().backward()
    assert film.linear.weight.grad.all()
    assert film.linear.bias.grad.all()
    torch.optim.SGD(film.parameters(), 0.01).step()
    assert not torch.isclose(film(x, cond), x).any(-1).all()


def test_film_scales_by_the_first_rows_and_shifts_by_the_last():
    film = FiLM(1, 2)
    film.linear.load_state_dict({"weight": torch.tensor([[1.0], [2], [10], [20]]), "bias": torch.ones(4)})
    assert film(torch.tensor([3.0, 4]), torch.tensor([2.0])).tolist() == [3 * 4 + 21, 4 * 6 + 41]


@pytest.mark.parametrize("order", ORDERS)
def test_adaptive_norm_is_a_plain_one_behind_a_closed_gate_at_first(order):
    norm, x, cond = AdaLayerNorm(3, 5, chunk_order=order), some(4, 6, 5), some(4, 3, seed=1)
    assert not norm.linear.weight.any()
    assert not norm.linear.bias.any()
    h = norm(x, cond)
    if "gate" in order:
        h, gate = h
        assert torch.equal(gate, torch.zeros(4, 1, 5))
    assert torch.equal(h, layer_norm(x, (5,), eps=1e-6))


def test_a_block_of_two_sublayers_starts_as_the_identity_and_learns():
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(AdaLayerNorm(3, 8) for _ in range(2))
            self.sublayers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

        def forward(self, x, cond):
            for norm, sublayer in zip(self.norms, self.sublayers, strict=True):
                h, gate = norm(x, cond)
                x = x + gate * sublayer(h)
            return x

    block, x, cond = Block(), some(4, 6, 8), some(4, 3, seed=1)
    assert torch.equal(block(x, cond), x)
    target = 2 * x + 1
    optimizer = torch.optim.Adam(block.parameters(), 0.02)
    losses = []
    for _ in range(40):
        loss = (block(x, cond) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("make", [lambda: FiLM(3, 5), lambda: AdaLayerNorm(3, 5)])
def test_zero_weights_draw_nothing_and_come_back_by_reset(make):
    state = torch.get_rng_state()
    with torch.device("meta"):
        module = make()
    assert module.linear.weight.is_meta
    module = module.to_empty(device="cpu")
    with torch.no_grad():
        for weight in module.parameters():
            weight.fill_(7)
    module.reset_parameters()
    assert not any(weight.any() for weight in module.parameters())
    make()
    assert torch.equal(torch.get_rng_state(), state)


# -- equal to the peers ------------------------------------------------------------------------------


def as_peer(peer: nn.Module, **arguments) -> AdaLayerNorm:
    """Ours with the weights of a peer, drawn so that nothing is zero."""
    ours = AdaLayerNorm(peer.linear.in_features, 8, **arguments)
    ours.linear.load_state_dict(peer.linear.state_dict())
    return ours


def test_equals_diffusers_zero_of_one_sublayer():
    theirs = AdaLayerNormZeroSingle(8)
    x, cond = some(4, 6, 8), some(4, 8, seed=1)
    h, gate = as_peer(theirs)(x, cond)
    their_h, their_gate = theirs(x, cond)
    assert_close(h, their_h)
    assert_close(gate, their_gate[:, None])
    other = as_peer(theirs, chunk_order="scale_shift_gate")(x, cond)[0]
    assert not torch.isclose(other, their_h).all()


def test_equals_diffusers_zero_of_two_sublayers():
    theirs = AdaLayerNormZero(8)
    x, cond = some(4, 6, 8), some(4, 8, seed=1)
    of_attention, of_mlp = AdaLayerNorm.from_joint(theirs.linear.weight, theirs.linear.bias)
    their_h, gate, shift_mlp, scale_mlp, gate_mlp = theirs(x, emb=cond)
    assert_close(of_attention(x, cond), (their_h, gate[:, None]))
    y = some(4, 6, 8, seed=2)
    theirs_later = layer_norm(y, (8,), eps=1e-6) * (1 + scale_mlp[:, None]) + shift_mlp[:, None]
    assert_close(of_mlp(y, cond), (theirs_later, gate_mlp[:, None]))


def test_equals_diffusers_zero_of_three_sublayers():
    theirs = SD35AdaLayerNormZeroX(8)
    x, cond = some(4, 6, 8), some(4, 8, seed=1)
    norms = AdaLayerNorm.from_joint(theirs.linear.weight, theirs.linear.bias, n_sublayers=3)
    h, gate, *_, h_2, gate_2 = theirs(x, cond)
    assert_close(norms[0](x, cond), (h, gate[:, None]))
    assert_close(norms[2](x, cond), (h_2, gate_2[:, None]))


@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_equals_diffusers_continuous(eps):
    theirs = AdaLayerNormContinuous(8, 3, elementwise_affine=False, eps=eps)
    x, cond = some(4, 6, 8), some(4, 3, seed=1)
    ours = as_peer(theirs, chunk_order="scale_shift", eps=eps)
    assert_close(ours(x, cond), theirs(x, cond))
    assert not torch.isclose(
        as_peer(theirs, chunk_order="shift_scale", eps=eps)(x, cond), ours(x, cond)
    ).all()


def test_equals_the_block_of_dit():
    modulation = nn.Sequential(nn.SiLU(), nn.Linear(8, 6 * 8))  # DiT's adaLN_modulation
    x, cond = some(4, 6, 8), some(4, 8, seed=1)
    attention, mlp = nn.Linear(8, 8), nn.Linear(8, 8)
    shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = modulation(cond).unsqueeze(1).chunk(6, -1)
    theirs = x + gate_a * attention(layer_norm(x, (8,), eps=1e-6) * (1 + scale_a) + shift_a)
    theirs = theirs + gate_m * mlp(layer_norm(theirs, (8,), eps=1e-6) * (1 + scale_m) + shift_m)
    state = {f"adaLN_modulation.{k}": v for k, v in modulation.state_dict().items()}
    norms = AdaLayerNorm.from_joint(state["adaLN_modulation.1.weight"], state["adaLN_modulation.1.bias"])
    ours = x
    for norm, sublayer in zip(norms, (attention, mlp), strict=True):
        h, gate = norm(ours, cond)
        ours = ours + gate * sublayer(h)
    assert_close(ours, theirs)


def test_a_joint_layer_is_copied_in_its_dtype():
    weight, bias = some(24, 3).double(), some(24).double()
    first, second = AdaLayerNorm.from_joint(weight, bias, chunk_order="gate_scale_shift")
    assert (first.cond_dim, first.dim, first.chunk_order) == (3, 4, "gate_scale_shift")
    assert torch.equal(torch.cat([first.linear.weight, second.linear.weight]), weight)
    assert first.linear.weight.dtype == torch.float64
    weight.zero_()
    assert second.linear.weight.any()


# -- shapes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x_shape", "cond_shape", "gate_shape"),
    [
        ((5,), (3,), (5,)),
        ((4, 5), (4, 3), (4, 5)),
        ((4, 6, 5), (4, 3), (4, 1, 5)),
        ((4, 6, 5), (4, 6, 3), (4, 6, 5)),
        ((4, 6, 5), (3,), (1, 1, 5)),
        ((4, 6, 2, 5), (4, 3), (4, 1, 1, 5)),
        ((4, 4, 5), (4, 3), (4, 1, 5)),
        ((0, 6, 5), (0, 3), (0, 1, 5)),
    ],
)
def test_a_condition_holds_for_all_dimensions_that_it_lacks(x_shape, cond_shape, gate_shape):
    film, norm = FiLM(3, 5), AdaLayerNorm(3, 5)
    for module in (film, norm):
        for seed, weight in enumerate(module.parameters()):
            nn.init.normal_(weight, generator=torch.Generator().manual_seed(seed))
    x, cond = some(*x_shape), some(*cond_shape, seed=1)
    spread = cond.reshape(*cond_shape[:-1], *(1,) * (len(x_shape) - len(cond_shape)), 3)
    spread = spread.expand(*x_shape[:-1], 3).reshape(-1, 3)
    rows = x.reshape(-1, 5)
    assert_close(film(x, cond).reshape(-1, 5), film(rows, spread))
    h, gate = norm(x, cond)
    assert gate.shape == gate_shape
    assert_close(h.reshape(-1, 5), norm(rows, spread)[0])
    assert_close(gate.expand_as(x).reshape(-1, 5), norm(rows, spread)[1])


@pytest.mark.parametrize("module", [FiLM(3, 5), AdaLayerNorm(3, 5)])
@pytest.mark.parametrize(
    ("x_shape", "cond_shape", "text"),
    [
        (
            (4, 5),
            (2, 3),
            r"cond must have the first leading dimensions of x, got shapes \(2, 3\) and \(4, 5\)",
        ),
        ((4, 6, 5), (6, 3), r"got shapes \(6, 3\) and \(4, 6, 5\)"),
        ((4, 6, 5), (1, 3), r"got shapes \(1, 3\) and \(4, 6, 5\)"),
        ((4, 5), (4, 1, 3), r"got shapes \(4, 1, 3\) and \(4, 5\)"),
        ((4, 4), (4, 3), r"x must have 5 as its last dimension, got shape \(4, 4\)"),
        ((4, 5), (4, 5), r"cond must have 3 as its last dimension, got shape \(4, 5\)"),
        ((5,), (), r"cond must have 3 as its last dimension, got shape \(\)"),
    ],
)
def test_shapes_that_do_not_fit(module, x_shape, cond_shape, text):
    with pytest.raises(ValueError, match=text):
        module(torch.ones(x_shape), torch.ones(cond_shape))


# -- precision and arguments -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: FiLM(3, 5), lambda: AdaLayerNorm(3, 5, chunk_order="shift_scale")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_output_in_the_dtype_of_the_weights(make, dtype):
    module = make().to(dtype)
    for kind in (torch.bfloat16, torch.float32, torch.float64):
        assert module(some(4, 5).to(kind), some(4, 3).to(kind)).dtype == dtype


def test_statistics_are_those_of_the_wider_dtype():
    x = 1000 + some(4, 5)  # bfloat16 has no number between 1000 and 1004
    narrow = AdaLayerNorm(3, 5, chunk_order="shift_scale").bfloat16()(x, some(4, 3))
    assert_close(narrow.float(), layer_norm(x, (5,), eps=1e-6), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("kind", [FiLM, AdaLayerNorm])
def test_a_condition_of_integers_counts_as_floats(kind):
    module = kind(3, 5)
    nn.init.normal_(module.linear.weight)
    x, cond = some(4, 5), torch.arange(12).view(4, 3)
    assert_close(module(x, cond), module(x, cond.float()))
    with pytest.raises(TypeError, match="cond must be floats or integers, got torch.complex64"):
        module(x, cond.to(torch.complex64))
    with pytest.raises(TypeError, match="x must be floats or integers, got torch.bool"):
        module(x > 0, cond)


@pytest.mark.parametrize("kind", [FiLM, AdaLayerNorm])
def test_bad_sizes(kind):
    with pytest.raises(ValueError, match="cond_dim must be at least 1, got 0"):
        kind(0, 5)
    with pytest.raises(TypeError, match="dim must be an integer, got 5.0"):
        kind(3, 5.0)


@pytest.mark.parametrize(
    "order", ["shift", "shift_scale_shift", "scale_gate", "shift-scale", "scale_shift_gates", "", None]
)
def test_bad_orders(order):
    text = f"chunk_order must name shift, scale and perhaps gate once each, joined by _, got {order!r}"
    with pytest.raises(ValueError, match=text):
        AdaLayerNorm(3, 5, chunk_order=order)


@pytest.mark.parametrize("eps", [-1.0, 0.0, math.nan])
def test_bad_eps(eps):
    with pytest.raises(ValueError, match=f"eps must be finite and positive, got {eps}"):
        AdaLayerNorm(3, 5, eps=eps)
    with pytest.raises(ValueError, match=r"eps must be from 1e-30 to 1e\+30, got 1e-320"):
        AdaLayerNorm(3, 5, eps=1e-320)
    assert AdaLayerNorm(3, 5, eps=1e-30)(torch.ones(5), torch.ones(3))[0].isfinite().all()


def test_bad_joint_layers():
    with pytest.raises(ValueError, match=r"must have a multiple of 6 rows, got shapes \(20, 3\) and \(20,\)"):
        AdaLayerNorm.from_joint(torch.ones(20, 3), torch.ones(20))
    with pytest.raises(ValueError, match=r"must have a multiple of 6 rows, got shapes \(24, 3\) and \(12,\)"):
        AdaLayerNorm.from_joint(torch.ones(24, 3), torch.ones(12))
    with pytest.raises(ValueError, match="n_sublayers must be at least 1, got 0"):
        AdaLayerNorm.from_joint(torch.ones(24, 3), torch.ones(24), n_sublayers=0)
