from __future__ import annotations

import pytest
import torch

from tabembed.training.modes import own_modes

FORCED = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "device": lambda: torch.device("meta"),
}


@own_modes()
def gradient():
    weight = torch.ones(3, 3, requires_grad=True)
    (weight @ weight * 1.001).sum().backward()
    return weight.grad


@pytest.mark.parametrize("name", FORCED)
def test_the_callers_modes_stay_outside_and_come_back(name):
    expected = gradient()
    with FORCED[name]():
        before = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_device())
        got = gradient()
        after = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_device())
    assert before == after
    assert torch.equal(got, expected)
    assert not got.is_inference()
