from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from tabembed.functional.exact_phase import in_turns
from tabembed.nn.ladder import FixedLadder, as_frequencies

FREQUENCIES = [10_000.0 ** (-2 * i / 10) for i in range(5)]
EXACT = in_turns(torch.tensor(FREQUENCIES, dtype=torch.float64))
RADIAN = 1 / (2 * Fraction(3141592653589793238462643383279502884197169399375105820974944592, 10**63))


def is_exact(ladder: FixedLadder) -> bool:
    same = torch.equal(ladder.turns, EXACT) and ladder.frequencies.tolist() == FREQUENCIES
    return ladder.turns.dtype == ladder.frequencies.dtype == torch.float64 and same


def test_turns_hold_more_than_a_double_does():
    for frequency, parts in zip(FREQUENCIES, FixedLadder(FREQUENCIES).turns.T.tolist(), strict=True):
        off = sum(map(Fraction, parts)) - Fraction(frequency) * RADIAN
        assert abs(off) <= Fraction(frequency) * Fraction(2) ** -79


@pytest.mark.parametrize(
    "changed",
    [
        nn.Module.half,
        nn.Module.double,
        nn.Module.bfloat16,
        lambda m: m.to(torch.float16),
        lambda m: m.to("meta").to_empty(device="cpu"),
        copy.deepcopy,
        lambda m: pickle.loads(pickle.dumps(m)),
    ],
    ids=["half", "double", "bfloat16", "to", "to_empty", "deepcopy", "pickle"],
)
def test_nothing_makes_them_less_exact(changed):
    model = nn.Sequential(nn.Linear(2, 2), FixedLadder(FREQUENCIES))
    assert is_exact(changed(model)[1])


def test_the_device_is_the_modules():
    assert FixedLadder(FREQUENCIES).to("meta").turns.is_meta


def test_made_on_the_meta_device():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(2, 2), FixedLadder(FREQUENCIES))
    state = nn.Linear(2, 2).state_dict(prefix="0.")
    assert set(model.state_dict()) == set(state)  # nothing of the ladder is stored
    assigned = copy.deepcopy(model)
    assigned.load_state_dict(state, assign=True)
    assert is_exact(assigned[1])
    assert is_exact(model.to_empty(device="cpu")[1])


def test_made_under_a_default_device_and_dtype():
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float16)
    try:
        ladder = FixedLadder(FREQUENCIES)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert is_exact(ladder)


def test_reset_parameters_overwrites_garbage():
    ladder = FixedLadder(FREQUENCIES)
    ladder.turns.fill_(7)
    ladder.frequencies.fill_(7)
    ladder.reset_parameters()
    assert is_exact(ladder)


def test_nothing_is_an_inference_tensor():
    with torch.inference_mode():
        ladders = [FixedLadder(FREQUENCIES), FixedLadder(FREQUENCIES).double(), FixedLadder(FREQUENCIES)]
        ladders[2].reset_parameters()
    for ladder in ladders:
        assert is_exact(ladder)
        assert not any(tensor.is_inference() for tensor in ladder.buffers())


def test_the_representation_shows_the_periods():
    assert repr(FixedLadder([2 * math.pi / 60, 2 * math.pi / 3600])) == "FixedLadder(2 periods, 60 to 3600)"
    assert repr(FixedLadder([0.0, -2 * math.pi])) == "FixedLadder(2 periods, 1 to inf)"
    assert repr(FixedLadder([2 * math.pi / 7])) == "FixedLadder(1 period, 7)"


@pytest.mark.parametrize(
    "given",
    [[0.5, 0.0, -3e-9], (0.5, 0, -3e-9), np.array([0.5, 0.0, -3e-9]), [np.float64(0.5), 0, -3e-9]],
    ids=str,
)
def test_frequencies_as_callers_have_them(given):
    assert as_frequencies(given, 3) == [0.5, 0.0, -3e-9]
    assert {type(f) for f in as_frequencies(given, 3)} == {float}
    assert as_frequencies(torch.tensor([0.5, -0.25]), 2) == [0.5, -0.25]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (5, TypeError, "frequencies must be a list, an array or a tensor of numbers, got 5"),
        ("abcd", TypeError, "frequencies must be a list, an array or a tensor of numbers, got 'abcd'"),
        ({1.0}, TypeError, "frequencies must be a list, an array or a tensor of numbers, got {1.0}"),
        (
            {1.0: 2.0},
            TypeError,
            "frequencies must be a list, an array or a tensor of numbers, got {1.0: 2.0}",
        ),
        (
            torch.tensor(1.0),
            TypeError,
            "frequencies must be a list, an array or a tensor of numbers, got 1.0",
        ),
        ([None] * 2, TypeError, "frequencies must be a number, got None"),
        ([True] * 2, TypeError, "frequencies must be a number, got True"),
        (torch.ones(2, 1), TypeError, "frequencies must be a number, got [1.0]"),
        ([1.0], ValueError, "frequencies must be 2, one for each pair, got 1"),
        ([1.0, math.inf], ValueError, "frequencies must be finite, got inf"),
        ([1.0, -1e-31], ValueError, "abs(frequencies) must be from 1e-30 to 1e+30, got 1e-31"),
    ],
    ids=str,
)
def test_other_frequencies_are_refused(given, error, message):
    with pytest.raises(error) as caught:
        as_frequencies(given, 2)
    assert str(caught.value) == message
