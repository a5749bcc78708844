from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest
import torch
from torch import nn

from tabembed.functional.exact_phase import in_turns
from tabembed.nn.ladder import FixedLadder

FREQUENCIES = [10_000.0 ** (-2 * i / 10) for i in range(5)]
EXACT = in_turns(torch.tensor(FREQUENCIES, dtype=torch.float64))
RADIAN = 1 / (2 * Fraction(3141592653589793238462643383279502884197169399375105820974944592, 10**63))


def is_exact(ladder: FixedLadder) -> bool:
    return ladder.turns.dtype == torch.float64 and torch.equal(ladder.turns, EXACT)


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
    ladder.reset_parameters()
    assert is_exact(ladder)
