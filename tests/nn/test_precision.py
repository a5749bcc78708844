from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tabembed.nn.precision import WideModule


class Waves(WideModule):
    wide = ("frequency", "offset", "absent")

    def __init__(self):
        super().__init__()
        self.frequency = nn.Parameter(torch.tensor([1 / 3]))
        self.register_buffer("offset", torch.tensor([2 / 3]))
        self.absent = None
        self.weight = nn.Parameter(torch.tensor([1 / 3]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("inside", [False, True])
def test_half_precision_narrows_all_but_the_wide_ones(dtype, inside):
    module = Waves()
    (nn.Sequential(module) if inside else module).to(dtype)
    assert (module.dtype, module.weight.dtype) == (dtype, dtype)
    assert torch.equal(module.frequency, torch.tensor([1 / 3]))  # not rounded and widened again
    assert torch.equal(module.offset, torch.tensor([2 / 3]))
    assert module.float().dtype == torch.float32


def test_double_precision_widens_everything_and_half_leaves_it_there():
    module = Waves().double()
    assert {t.dtype for t in (module.frequency, module.offset, module.weight)} == {torch.float64}
    assert module.half().frequency.dtype == torch.float64
    assert module.dtype == torch.float16


def test_gradients_stay_as_wide_as_what_they_belong_to():
    module = Waves()
    (module.frequency * 3 + module.weight).sum().backward()
    module.half()
    assert (module.frequency.grad.dtype, module.weight.grad.dtype) == (torch.float32, torch.float16)


def test_the_dtype_is_followed_but_not_saved():
    module = Waves().half()
    assert set(module.state_dict()) == {"frequency", "offset", "weight"}
    assert copy.deepcopy(module).dtype == torch.float16


def test_it_moves_to_a_device_in_full():
    module = Waves().half().to("meta")
    assert all(t.is_meta for t in (module.frequency, module.offset, module.weight))


def test_made_on_the_meta_device_and_given_weights_it_can_be_moved():
    with torch.device("meta"):
        module = Waves()
    module.load_state_dict(
        {"frequency": torch.ones(1), "offset": torch.ones(1), "weight": torch.ones(1)}, assign=True
    )
    assert module.to("cpu").half().dtype == torch.float16
