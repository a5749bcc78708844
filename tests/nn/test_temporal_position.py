from __future__ import annotations

import math

import numpy as np
import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.functional.position import row_positions
from tabembed.nn.rotary import RotaryEmbedding
from tabembed.nn.temporal_position import TemporalPositionEncoder


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("positions", [None, [0, 5, 100, 250], [0.5, 3.25, 1e5, -7.0]])
def test_matches_the_loop(positions):
    module, x = TemporalPositionEncoder(6, horizon=250, decay_rate=0.7, base=50.0), drawn(2, 4, 6)
    with torch.no_grad():
        module.w.mul_(torch.linspace(0.5, 2, 6))
    given = None if positions is None else torch.tensor(positions)
    encoded, decay = module(x, positions=given)
    places = range(4) if positions is None else given.tolist()
    for sequence, codes, factors in zip(x.tolist(), encoded, decay, strict=True):
        for row, place, code, factor in zip(sequence, places, codes, factors, strict=True):
            expected = reference.temporal_position(
                row, place, reference.ladder(3, 6, 50.0), module.w.tolist(), 250
            )
            assert_close(code, torch.tensor(expected[0]), rtol=1e-6, atol=1e-6)
            assert_close(factor, torch.tensor(expected[1]), rtol=1e-6, atol=1e-6)


def test_is_a_rotation_and_a_factor():
    module, x = TemporalPositionEncoder(4, horizon=10), drawn(2, 5, 4)
    encoded, decay = module(x)
    assert_close(encoded, RotaryEmbedding(4).rotate(x) * decay)
    assert_close(decay[0, :, 0], torch.sigmoid(-torch.arange(5) / 10 * 0.1))
    assert module.w.tolist() == [torch.tensor(0.1).item()] * 4


def test_a_row_has_one_code_whatever_batch_it_stands_in():
    module, x = TemporalPositionEncoder(4, horizon=100), drawn(2, 6, 4)
    full = module(x)
    for short, whole in zip(module(x[:, :3]), full, strict=True):
        assert_close(short, whole[:, :3], rtol=0, atol=0)
    parts = [module(x[:, :4]), module(x[:, 4:5], offset=4), module(x[:, 5:], offset=torch.tensor([5, 5]))]
    for streamed, whole in zip(zip(*parts, strict=True), full, strict=True):
        assert_close(torch.cat(streamed, 1), whole, rtol=0, atol=1e-6)


def test_real_time_and_row_numbers_in_another_unit():
    x, days = drawn(2, 3, 4), torch.tensor([[0, 4, 9], [1, 1, 30]])
    ns = 86_400 * 10**9
    in_days, in_ns = TemporalPositionEncoder(4, horizon=30), TemporalPositionEncoder(4, horizon=30 * ns)
    assert_close(in_ns(x, positions=days * ns)[1], in_days(x, positions=days)[1])
    assert_close(in_days(x, positions=days.double()), in_days(x, positions=days), rtol=0, atol=0)


@pytest.mark.parametrize("unit", [1, 10**9], ids=["s", "ns"])
@pytest.mark.parametrize("half", [0, 0.5])
def test_unix_time_counts_from_the_origin(unit, half):
    start, day, x = 1_700_000_000 * unit + 1, 86_400 * unit, drawn(2, 3, 4)
    module = TemporalPositionEncoder(4, horizon=day, origin=start + half, decay_rate=2.0)
    after = torch.tensor([0, day // 3, 5 * day])
    for positions in (after + start, (after + start).double()):
        encoded, decay = module(x, positions=positions)
        expected = TemporalPositionEncoder(4, horizon=day, decay_rate=2.0)(x, positions=after - half)[1]
        assert_close(decay, expected, rtol=0, atol=1e-6)
        assert_close(encoded, RotaryEmbedding(4).rotate(x, positions=positions) * decay)
    assert f"origin={start + half}" in repr(module)


def test_an_origin_is_subtracted_in_integers():
    start = 1_700_000_000 * 10**9
    module = TemporalPositionEncoder(2, horizon=10, origin=start + 1, decay_rate=1.0)
    decay = module(torch.ones(3, 2), positions=start + torch.tensor([1, 2, 11]))[1][:, 0]
    assert_close(decay, torch.sigmoid(-torch.tensor([0.0, 0.1, 1.0])))
    far = TemporalPositionEncoder(2, horizon=1e18, origin=-(2**63), decay_rate=1.0)
    assert_close(
        far(torch.ones(1, 2), positions=torch.tensor([2**63 - 1]))[1][0, 0],
        torch.sigmoid(torch.tensor(-(2.0**64) / 1e18)),
    )


def test_far_outside_the_horizon():
    module, x = TemporalPositionEncoder(2, horizon=1, decay_rate=1.0), torch.ones(2, 2)
    for factors in module(x, positions=torch.tensor([-200, 200]))[1].T:
        assert factors.tolist() == [1.0, 0.0]


def test_padding_on_either_side_changes_nothing():
    module, events = TemporalPositionEncoder(4, horizon=5), drawn(3, 4)
    for mask in ([False, False, True, True, True], [True, True, True, False, False]):
        mask = torch.tensor(mask)
        padded = torch.full((5, 4), math.nan)
        padded[mask] = events
        for got, plain in zip(module(padded, positions=row_positions(mask)), module(events), strict=True):
            assert_close(got[mask], plain, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(5, 4), (2, 5, 4), (2, 3, 5, 4), (0, 5, 4), (2, 0, 4)])
def test_both_have_the_shape_of_the_tokens(shape):
    encoded, decay = TemporalPositionEncoder(4, horizon=5)(drawn(*shape))
    assert encoded.shape == decay.shape == shape


def test_the_factors_learn_and_positions_have_gradients():
    module = TemporalPositionEncoder(4, horizon=5.0).double()
    x = drawn(2, 3, 4, dtype=torch.float64).requires_grad_()
    positions = torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64, requires_grad=True)

    def both(x, positions, w):
        return torch.func.functional_call(module, {"w": w}, (x,), {"positions": positions})

    given = (x, positions, module.w.detach().clone().requires_grad_())
    assert torch.autograd.gradcheck(both, given)
    assert torch.autograd.gradgradcheck(both, given)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="^dim must be even, got 5$"):
        TemporalPositionEncoder(5, horizon=1)
    with pytest.raises(ValueError, match="^horizon must be finite and positive, got 0$"):
        TemporalPositionEncoder(4, horizon=0)
    with pytest.raises(ValueError, match="^decay_rate must be finite, got nan$"):
        TemporalPositionEncoder(4, horizon=1, decay_rate=math.nan)
    with pytest.raises(ValueError, match="^origin must be finite, got nan$"):
        TemporalPositionEncoder(4, horizon=1, origin=math.nan)
    with pytest.raises(TypeError, match="^origin must be a number, got 'now'$"):
        TemporalPositionEncoder(4, horizon=1, origin="now")
    for origin in (2**63, -1e30):
        with pytest.raises(ValueError, match="^origin must fit into int64, got "):
            TemporalPositionEncoder(4, horizon=1, origin=origin)
    with pytest.raises(ValueError, match=r"^x must have 4 as its last dimension"):
        TemporalPositionEncoder(4, horizon=1)(drawn(2, 6))
    with pytest.raises(ValueError, match=r"^positions must have shape \(2,\) or \(1, 2\), got \(3,\)"):
        TemporalPositionEncoder(4, horizon=1)(drawn(2, 4), positions=torch.arange(3))
    with pytest.raises(ValueError, match="^positions must be finite, got nan: "):
        TemporalPositionEncoder(4, horizon=1)(drawn(2, 4), positions=torch.full((2,), math.nan))
    with pytest.raises(ValueError, match="^frequencies must be 2, one for each pair, got 1$"):
        TemporalPositionEncoder(4, horizon=1, frequencies=[1.0])
    with torch.device("meta"):
        module = TemporalPositionEncoder(4, horizon=1)
    with pytest.raises(
        ValueError, match="^TemporalPositionEncoder must be materialised, got parameters on meta: "
    ):
        module(drawn(2, 4))
    assert module(drawn(2, 4).to("meta"))[0].is_meta


def test_frequencies_lay_the_rotation_in_real_time():
    x, f = drawn(2, 3, 4), [1e-13, 1e-15]
    times = torch.tensor([0, 10**12, 10**15]) + 1_700_000_000 * 10**9
    module = TemporalPositionEncoder(np.int64(4), horizon=10**16, frequencies=f, origin=int(times[0]))
    encoded, decay = module(x, positions=times)
    assert_close(encoded, RotaryEmbedding(4, frequencies=f).rotate(x, positions=times) * decay)
    assert "4, horizon=1e+16, decay_rate=0.1, origin=1700000000000000000" in repr(module)
    assert "2 periods" in repr(module)


def test_moved_in_inference_mode_and_trained():
    module, x = TemporalPositionEncoder(4, horizon=5.0), drawn(2, 3, 4).requires_grad_()
    with torch.inference_mode():
        module.float()
    module(x)[0].sin().sum().backward()
    assert module.w.grad.abs().min() > 0
