from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

from tabembed.nn.positions import (
    check_floats,
    check_present,
    check_row_numbers,
    check_same_kind,
    resolve,
    resolve_pair,
    resolve_rows,
)
from tabembed.schema import MISSING_TIME

CPU = torch.device("cpu")
FIVE = torch.arange(10, 15)


def test_row_numbers_count_from_the_offset():
    assert resolve(None, 0, 3, 4, CPU).tolist() == [[0, 1, 2, 3]]
    assert resolve(None, -2, 3, 4, CPU).tolist() == [[-2, -1, 0, 1]]
    assert resolve(None, torch.tensor(6, dtype=torch.int32), 3, 2, CPU).tolist() == [[6, 7]]
    assert resolve(None, torch.tensor([4]), 3, 2, CPU).tolist() == [[4, 5]]
    assert resolve(None, torch.tensor([4, 0, 9], dtype=torch.uint8), 3, 2, CPU).tolist() == [
        [4, 5],
        [0, 1],
        [9, 10],
    ]
    assert resolve(None, 7, 2, 0, CPU).shape == (1, 0)
    assert resolve(None, 2**62, 1, 1, CPU).item() == 2**62
    assert resolve(None, np.int32(-3), 1, 2, CPU).tolist() == [[-3, -2]]
    assert resolve(None, np.int8(100), 1, 100, CPU)[0, -1] == 199
    assert resolve(FIVE, np.int8(0), 1, 5, CPU).tolist() == [FIVE.tolist()]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.int64], ids=str)
def test_integers_become_int64(dtype):
    got = resolve(torch.tensor([3, 5]).to(dtype), 0, 4, 2, CPU)
    assert got.dtype == torch.int64
    assert got.tolist() == [[3, 5]]


def test_floats_become_float64_and_keep_their_gradient():
    given = torch.tensor([[0.1, 0.5], [1.5, -2.0]], requires_grad=True)
    got = resolve(given, 0, 2, 2, CPU)
    assert got.dtype == torch.float64
    assert_close(got, given.double())
    got.sum().backward()
    assert_close(given.grad, torch.ones(2, 2))


@pytest.mark.parametrize("shape", [(5,), (1, 5), (3, 5)])
def test_shapes_that_are_taken(shape):
    assert resolve(FIVE.expand(shape), 0, 3, 5, CPU).shape == (shape[0] if len(shape) == 2 else 1, 5)


@pytest.mark.parametrize("shape", [(), (4,), (2, 5), (5, 1), (3, 4), (1, 3, 5)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"positions must have shape \(5,\) or \(3, 5\), got \("):
        resolve(torch.zeros(shape), 0, 3, 5, CPU)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.bool, torch.complex64, torch.uint64], ids=str
)
def test_kinds_that_lose_something_are_refused(dtype):
    with pytest.raises(TypeError, match=rf"^here must be integers up to int64, float32 or .*, got {dtype}$"):
        resolve(FIVE.to(dtype), 0, 1, 5, CPU, name="here")


def test_what_is_no_tensor_is_refused():
    message = r"^positions must be a tensor, got list: torch.tensor\(positions\) makes one$"
    with pytest.raises(TypeError, match=message):
        resolve([1, 2], 0, 1, 2, CPU)
    with pytest.raises(TypeError, match=message):
        resolve_pair([1, 2], None, 0, 1, 1, 2, CPU)


@pytest.mark.parametrize("unit", ["s", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_the_message_about_a_column_says_what_to_write(unit, zone):
    times = pd.Series(pd.date_range("2020-01-01", periods=2, tz=zone).as_unit(unit))
    with pytest.raises(TypeError, match=r"^positions must be a tensor, got Series: torch.tensor\(") as caught:
        resolve(times, 0, 1, 2, CPU)
    said = str(caught.value).split(": ", 1)[1].removesuffix(" makes one")
    assert eval(said, {"torch": torch, "positions": times}).tolist() == [t.value for t in times]
    with pytest.raises(
        TypeError,
        match=r"^positions must be a tensor, got Series: torch.tensor\(positions.to_numpy\(\)\) makes one$",
    ):
        resolve(pd.Series([1, 2]), 0, 1, 2, CPU)
    column = times.dt.tz_localize(None).to_numpy()
    with pytest.raises(
        TypeError, match=r"^positions must be a tensor, got ndarray: torch.tensor\("
    ) as caught:
        resolve(column, 0, 1, 2, CPU)
    said = str(caught.value).split(": ", 1)[1].removesuffix(" makes one")
    assert eval(said, {"torch": torch, "positions": column}).dtype == torch.int64


@pytest.mark.parametrize("offset", [3, torch.tensor([0])], ids=["number", "tensor"])
def test_positions_and_an_offset_are_refused(offset):
    with pytest.raises(ValueError, match="^offset must be 0 where positions are given, got .*: add it"):
        resolve(FIVE, offset, 1, 5, CPU)


@pytest.mark.parametrize("offset", [1.0, True, "0", None, np.array([1, 2])], ids=str)
@pytest.mark.parametrize("positions", [None, FIVE], ids=["counted", "given"])
def test_an_offset_is_an_integer(offset, positions):
    with pytest.raises(TypeError, match="^offset must be an integer or a tensor of integers, got "):
        resolve(positions, offset, 1, 5, CPU)


def test_an_offset_tensor_is_checked():
    with pytest.raises(TypeError, match=r"^offset must be integers, got torch.float32$"):
        resolve(None, torch.tensor([0.0]), 1, 5, CPU)
    with pytest.raises(ValueError, match=r"^offset must have shape \(\) or \(3,\), got \(2,\)$"):
        resolve(None, torch.tensor([0, 1]), 3, 5, CPU)
    with pytest.raises(ValueError, match="^offset must fit into int64, got"):
        resolve(None, 2**63, 1, 5, CPU)
    with pytest.raises(ValueError, match=rf"^offset \+ n_steps must fit into int64, got {2**63 + 3}$"):
        resolve(None, 2**63 - 2, 1, 5, CPU)


def pair(*arguments):
    q, k = resolve_pair(*arguments, CPU)
    return q.tolist(), k.tolist()


def test_queries_are_the_last_of_the_keys():
    assert pair(None, None, 3, 1, 2, 4) == ([[5, 6]], [[3, 4, 5, 6]])
    assert pair(None, None, torch.tensor([0, 7]), 2, 1, 2) == ([[1], [8]], [[0, 1], [7, 8]])
    assert pair(FIVE, None, 0, 1, 2, 5) == ([[13, 14]], [FIVE.tolist()])
    assert pair(None, FIVE, 0, 1, 2, 5) == ([[13, 14]], [FIVE.tolist()])
    assert pair(None, None, 0, 1, 0, 2) == ([[]], [[0, 1]])


def test_each_has_its_own_positions_when_given():
    assert pair(FIVE, FIVE[:2], 0, 1, 5, 2) == ([FIVE.tolist()], [[10, 11]])
    assert pair(FIVE, None, 0, 1, 5, 5) == ([FIVE.tolist()], [FIVE.tolist()])


def test_more_queries_than_keys_need_positions():
    with pytest.raises(ValueError, match="^positions must be given for more queries than keys, got 5 and 2$"):
        pair(None, None, 0, 1, 5, 2)
    with pytest.raises(ValueError, match="^positions must be given for more queries than keys, got 5 and 2$"):
        pair(None, FIVE[:2], 0, 1, 5, 2)
    for n_keys in (2, 7):
        with pytest.raises(ValueError, match=rf"^k_positions must be given where 5 queries of {n_keys} keys"):
            pair(FIVE, None, 0, 1, 5, n_keys)
    with pytest.raises(ValueError, match=r"^k_positions must be given where 4 queries of 2 keys have positi"):
        pair(FIVE[:2], None, 0, 1, 4, 2)


def test_the_pair_names_the_argument():
    with pytest.raises(ValueError, match=r"^k_positions must have shape \(4,\) or \(1, 4\), got \(5,\)"):
        pair(FIVE, FIVE, 0, 1, 5, 4)
    with pytest.raises(ValueError, match=r"^positions must have shape \(4,\) or \(1, 4\), got \(5,\)"):
        pair(FIVE, None, 0, 1, 3, 4)
    with pytest.raises(ValueError, match="^offset must be 0 where k_positions are given, got 2"):
        pair(None, FIVE, 2, 1, 3, 5)


def test_integers_and_floats_do_not_mix():
    message = (
        "^positions and k_positions must both be integers or both floats, got torch.int64 and torch.float32$"
    )
    with pytest.raises(TypeError, match=message):
        pair(FIVE, FIVE.float(), 0, 1, 5, 5)
    with pytest.raises(
        TypeError, match="^a and b must both be integers or both floats, got torch.float64 and"
    ):
        check_same_kind(a=FIVE.double(), b=FIVE)
    check_same_kind(a=FIVE, b=FIVE.int())
    check_same_kind(a=FIVE.double(), b=FIVE.float())


def test_row_numbers_are_integers():
    check_row_numbers(None, "positions")
    check_row_numbers(FIVE.int(), "positions")
    with pytest.raises(TypeError, match=r"^here must be integers, got torch.float32$"):
        check_row_numbers(FIVE.float(), "here")


def test_encoded_tensors_are_floats():
    check_floats(torch.zeros(1, dtype=torch.float16), "x")
    with pytest.raises(TypeError, match=r"^x must be floats, got torch.int64$"):
        check_floats(FIVE, "x")
    with pytest.raises(TypeError, match=r"^x must be a tensor, got list$"):
        check_floats([1.0], "x")


def test_the_message_about_a_shape_says_what_the_rows_are():
    message = r"^positions must have shape \(4,\) or \(5, 4\), got \(5, 12\): n_sequences is 5, n_steps 4$"
    with pytest.raises(ValueError, match=message):
        resolve(torch.zeros(5, 12), 0, 5, 4, CPU)


@pytest.mark.parametrize("lost", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_time_that_is_none_is_refused(lost, dtype):
    times, rows = torch.tensor([[1.0, 2.0], [3.0, lost]], dtype=dtype), torch.zeros(2, 1, 2, 4)
    with pytest.raises(ValueError, match=f"^positions must be finite, got {lost}: "):
        resolve_rows(rows, times, 0)
    with pytest.raises(ValueError, match=f"^k_positions must be finite, got {lost}: "):
        resolve_pair(torch.zeros(2), times, 0, 2, 2, 2, CPU)
    with pytest.raises(ValueError, match=f"^positions must be finite, got {lost}: "):
        resolve_pair(times, torch.zeros(2), 0, 2, 2, 2, CPU)
    assert not resolve(times, 0, 2, 2, CPU).isfinite().all()  # attention masks padding first
    assert torch.func.vmap(lambda t: resolve_rows(rows[:1], t, 0))(times).shape == (2, 1, 2)


def test_a_missing_instant_is_refused():
    times = torch.tensor([5, MISSING_TIME])
    message = (
        f"^positions must not be missing, got {MISSING_TIME}: drop such rows, or mask them in attention$"
    )
    with pytest.raises(ValueError, match=message):
        resolve_rows(torch.zeros(1, 1, 2, 4), times, 0)
    with pytest.raises(ValueError, match=message):
        check_present(times, "positions")
    check_present(times[:0], "positions")
    check_present(times + 1, "positions")


def test_positions_are_where_the_rows_are():
    elsewhere = torch.arange(2, device="meta")
    with pytest.raises(ValueError, match="^positions must be on cpu, as the rows are, got meta$"):
        resolve(elsewhere, 0, 1, 2, CPU)
    with pytest.raises(ValueError, match="^k_positions must be on cpu, as the rows are, got meta$"):
        resolve_pair(torch.arange(2), elsewhere, 0, 1, 2, 2, CPU)
    with pytest.raises(ValueError, match="^offset must be on cpu, as the rows are, got meta$"):
        resolve(None, elsewhere[:1], 1, 2, CPU)
    assert resolve(elsewhere, 0, 1, 2, torch.device("meta")).is_meta


def test_an_offset_in_a_tensor_must_not_wrap():
    with pytest.raises(ValueError, match=r"offset \+ n_steps must fit into int64, got 9223372036854775809"):
        resolve(None, torch.tensor([0, 2**63 - 1]), 2, 2, torch.device("cpu"))
    with pytest.raises(TypeError, match="offset must be integers that fit into int64, got torch.uint64"):
        resolve(None, torch.tensor(1, dtype=torch.uint64), 1, 2, torch.device("cpu"))
