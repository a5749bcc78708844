from __future__ import annotations

import copy
import math
from fractions import Fraction

import pandas as pd
import pytest
import reference
import torch
import torchembed
from torch.testing import assert_close

from tabembed.nn import CyclicEmbedding
from tabembed.schema import MISSING_TIME, DatetimeColumn

HOUR = 3600 * 10**9
DAY, WEEK = 24 * HOUR, 168 * HOUR
START, END = 1_700_000_000 * 10**9, 1_800_000_000 * 10**9


def column(zone=None, earliest=START, latest=END):
    return DatetimeColumn("t", 9, 0, earliest, latest, zone)


def instants(*texts):
    return torch.tensor([[pd.Timestamp(text).value] for text in texts])


def test_equals_torchembed_within_one_cycle():
    theirs, hours = torchembed.CyclicEmbedding(24), torch.linspace(0, 24, 97).view(1, 97)
    assert_close(CyclicEmbedding(24)(hours), theirs(hours), rtol=0, atol=1e-6)


def test_31_days_are_not_one_day_and_a_month_later_is_the_same():
    days = CyclicEmbedding(31)
    assert not torch.equal(days(torch.tensor(31)), days(torch.tensor(1)))
    for day in range(31):
        assert_close(days(torch.tensor(31 * 10**12 + day)), days(torch.tensor(day)), rtol=0, atol=0)


def test_unix_seconds_are_exact():
    seconds = torch.tensor([1_700_000_000, 1_700_000_060, 1_700_000_061])
    out = CyclicEmbedding(86_400)(seconds)
    exact = torch.tensor([reference.cyclic(s, 86_400, 1) for s in seconds.tolist()])
    assert_close(out, exact, rtol=0, atol=1.2e-7)
    assert len({tuple(row) for row in out.tolist()}) == 3
    theirs = torchembed.CyclicEmbedding(86_400)(seconds.float())
    assert torch.equal(theirs[0], theirs[1])


@pytest.mark.parametrize("period", [31, 86_400, 365.2425, 2 * math.pi, 2.0**40])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float64, torch.float32], ids=str)
def test_error_up_to_two_billion(period, dtype):
    x = torch.randint(-2_000_000_000, 2_000_000_001, (1000,), generator=torch.Generator().manual_seed(0)).to(
        dtype
    )
    exact = torch.tensor([reference.cyclic(one, period, 4) for one in x.tolist()], dtype=torch.float64)
    assert (CyclicEmbedding(period, n_harmonics=4)(x).double() - exact).abs().max() <= 3e-7
    assert (CyclicEmbedding(period, n_harmonics=4).double()(x) - exact).abs().max() <= 1e-14
    assert (CyclicEmbedding(period, n_harmonics=4).bfloat16()(x).double() - exact).abs().max() <= 4e-3


@pytest.mark.parametrize("shape", [(), (5,), (4, 1), (2, 7), (2, 3, 5), (0,)])
def test_shapes(shape):
    x = torch.randint(-99, 99, shape, generator=torch.Generator().manual_seed(1))
    out = CyclicEmbedding(12, n_harmonics=2)(x)
    assert out.shape == (*shape, 4)
    assert_close(out, CyclicEmbedding(12, n_harmonics=2)(x.double()))


def test_negative_numbers_run_backwards():
    forward, back = CyclicEmbedding(7)(torch.tensor([2, -2])).unbind()
    assert_close(back, forward * torch.tensor([-1.0, 1.0]))


def test_nan_stays():
    out = CyclicEmbedding(7)(torch.tensor([math.nan, 1.0, math.inf]))
    assert out.isnan().tolist() == [[True, True], [False, False], [True, True]]


def test_gradient_with_respect_to_numbers():
    x = torch.tensor([0.3, -20.0, 4.0], dtype=torch.float64, requires_grad=True)
    module = CyclicEmbedding(7, n_harmonics=2).double()
    assert torch.autograd.gradcheck(module, x)
    assert torch.autograd.gradgradcheck(module, x)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"period": 0}, ValueError, "period must be finite and positive, got 0"),
        ({"period": -7}, ValueError, "period must be finite and positive, got -7"),
        ({"period": math.inf}, ValueError, "period must be finite and positive, got inf"),
        ({"period": math.nan}, ValueError, "period must be finite and positive, got nan"),
        ({"period": "day"}, TypeError, "period must be a number, got 'day'"),
        ({"period": True}, TypeError, "period must be a number, got True"),
        ({"n_harmonics": 0}, ValueError, "n_harmonics must be at least 1, got 0"),
        ({"period": 1e-320}, ValueError, "period must be from 1e-30 to 1e\\+30, got 1e-320"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        CyclicEmbedding(**{"period": 7, **arguments})


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint64, torch.complex64], ids=str)
def test_bad_numbers(dtype):
    with pytest.raises(TypeError, match=f"x must be floats or integers.*, got {dtype}"):
        CyclicEmbedding(7)(torch.zeros(3, dtype=dtype))


def test_columns_have_a_day_a_week_a_year_and_a_place():
    module = CyclicEmbedding.from_columns([column()]).double()
    times = START + torch.tensor([[0], [12_345_678_901_234_567], [END - START]])
    year = DAY * Fraction("365.2425")
    rows = [
        [*reference.cyclic(t, DAY, 1), *reference.cyclic(t + 3 * DAY, WEEK, 1), *reference.cyclic(t, year, 1)]
        + [2 * reference.position(t, START, END) - 1]
        for t in times[:, 0].tolist()
    ]
    assert module.d_embedding == 7
    assert_close(module(times)[:, 0], torch.tensor(rows, dtype=torch.float64), rtol=0, atol=1e-14)


def test_periods_harmonics_and_place_are_chosen():
    times = instants("2024-03-05 06:00")
    module = CyclicEmbedding.from_columns(
        [column()], periods=["day", 6 * 3600], n_harmonics=2, position=False
    )
    assert module.d_embedding == 8
    expected = torch.tensor([[[1.0, 0, 0, -1, 0, 1, 0, 1]]])
    assert_close(module(times), expected, rtol=0, atol=1e-6)
    one = CyclicEmbedding.from_columns([column()], periods="hour", position=False)
    assert_close(one(instants("2024-03-05 06:15")), torch.tensor([[[1.0, 0]]]), rtol=0, atol=1e-6)


def test_eight_o_clock_is_eight_o_clock_in_summer_and_winter():
    times = instants("2024-01-15 08:00+01:00", "2024-07-15 08:00+02:00")
    here = CyclicEmbedding.from_columns([column("Europe/Oslo")], periods="day", position=False)(times)
    assert_close(here[0], here[1], rtol=0, atol=0)
    assert_close(here[0, 0].double(), torch.tensor(reference.cyclic(8, 24, 1)).double(), rtol=0, atol=1e-7)
    utc = CyclicEmbedding.from_columns([column("UTC")], periods="day", position=False)(times)
    assert not torch.equal(utc[0], utc[1])
    naive = CyclicEmbedding.from_columns([column()], periods="day", position=False)(times)
    assert torch.equal(utc, naive)


def test_every_column_has_its_own_clock_place_and_missing_row():
    columns = [column("Asia/Tokyo"), column("America/New_York", START - DAY)]
    module = CyclicEmbedding.from_columns(columns, seed=3)
    times = START + torch.tensor([[0, 0], [WEEK, 5]])
    alone = [CyclicEmbedding.from_columns([c])(times[:, j : j + 1]) for j, c in enumerate(columns)]
    assert_close(module(times), torch.cat(alone, 1), rtol=0, atol=0)
    assert not torch.equal(alone[0], alone[1])
    times[0, 1] = MISSING_TIME
    assert_close(module(times)[0, 1], module.per_column.missing[1], rtol=0, atol=0)
    module(times).sum().backward()
    assert module.per_column.missing.grad.tolist() == [[0.0] * 7, [1.0] * 7]
    again = CyclicEmbedding.from_columns(columns, seed=3).per_column.missing
    assert torch.equal(again, module.per_column.missing)


def test_zones_in_every_kind_of_graph():
    module = CyclicEmbedding.from_columns([column("America/New_York")], seed=0)
    times = START + torch.arange(0, 9, 2).unsqueeze(-1) * 50 * DAY
    expected = module(times)
    exported = torch.export.export(module, (times,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)).module()
    assert_close(exported(times[:3]), expected[:3], rtol=0, atol=0)
    torch.compiler.reset()
    assert_close(torch.compile(module, fullgraph=True, backend="aot_eager")(times), expected)
    assert_close(torch.func.vmap(module)(times), expected)
    assert_close(copy.deepcopy(module).half()(times), expected.half())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"periods": ["day", "moon"]},
            ValueError,
            "period must be one of minute, .*, or seconds, got 'moon'",
        ),
        ({"periods": [None]}, TypeError, "period must be one of minute, .*, or seconds, got None"),
        ({"periods": 0}, ValueError, "from a nanosecond to 146 years, got 0"),
        ({"periods": -5}, ValueError, "from a nanosecond to 146 years, got -5"),
        ({"periods": 1e12}, ValueError, "from a nanosecond to 146 years, got 1000000000000.0"),
        ({"periods": math.nan}, ValueError, "or seconds, got nan"),
        ({"periods": []}, ValueError, "n_periods must be at least 1, got 0"),
        ({"n_harmonics": 0}, ValueError, "n_harmonics must be at least 1, got 0"),
        ({"position": "last"}, TypeError, "position must be True or False, got 'last'"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
    ],
)
def test_bad_columns_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        CyclicEmbedding.from_columns([column()], **arguments)


def test_bad_columns_and_times():
    with pytest.raises(ValueError, match="n_columns must be at least 1, got 0"):
        CyclicEmbedding.from_columns([])
    with pytest.raises(ValueError, match="time zone must be one of the time zone database, got 'Mars/Here'"):
        CyclicEmbedding.from_columns([column("Mars/Here")])
    module = CyclicEmbedding.from_columns([column()])
    with pytest.raises(ValueError, match=r"times must have 1 as its last dimension, got shape \(2, 3\)"):
        module(torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(TypeError, match="times must be integers, got torch.float32"):
        module(torch.zeros(2, 1))
