"""The scale of a clock, and what the time before a row tells."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from tabembed.nn.sequence_clock import SECOND, Clock, GapFeatures, clock_of
from tabembed.nn.sequence_layout import layout_of
from tabembed.schema import SequenceSchema, TableSchema


def schema_of(gaps, span=7200.0, longest=5):
    return SequenceSchema(TableSchema(9, ()), (), False, 2, longest, span, tuple(gaps))


def test_the_scale_follows_from_the_gaps():
    gaps = [0.001, *(60.0 + i for i in range(100))]  # 101 quantiles: the least is left out
    assert clock_of(schema_of(gaps), "time") == Clock(True, 60.0 * SECOND, 109.0 * SECOND, 7200.0 * SECOND)
    assert clock_of(schema_of(gaps), "index") == Clock(False, 1.0, 1.0, 4.0)


@pytest.mark.parametrize(("span", "seconds"), [(0.0, 1.0), (90.0, 90.0)])
def test_without_gaps_the_span_is_one(span, seconds):
    clock = clock_of(schema_of((), span=span, longest=1), "time")
    assert (clock.shortest, clock.typical, clock.longest) == (seconds * SECOND,) * 3
    assert clock_of(schema_of((), span=span, longest=1), "index").longest == 1.0


def test_gaps_by_hand():
    gaps = (30.0, 60.0, 600.0)
    logs = [math.log1p(gap / 60.0) for gap in gaps]
    mean = sum(logs) / 3
    spread = math.sqrt(sum((one - mean) ** 2 for one in logs) / 3)
    layout = layout_of(torch.tensor([[0, 0, 45]]) * SECOND + 2**62)
    wanted = [[0.0, 1.0], [-mean / spread, 0.0], [(math.log1p(0.75) - mean) / spread, 0.0]]
    assert_close(GapFeatures(schema_of(gaps))(layout)[0], torch.tensor(wanted, dtype=torch.float64))


def test_features_of_the_fit_have_mean_0_and_spread_1():
    gaps = torch.rand(101, generator=torch.Generator().manual_seed(0)).mul(9).exp().sort().values
    times = torch.cat((torch.zeros(1), gaps.double().cumsum(0))).mul(SECOND).long()
    features = GapFeatures(schema_of(gaps.tolist()))(layout_of(times[None]))[0, 1:, 0]
    assert_close(
        (features.mean(), features.std(correction=0)),
        (torch.tensor(0.0).double(), torch.tensor(1.0).double()),
        atol=1e-6,
        rtol=0,
    )


def test_equal_gaps_are_not_divided_by_their_spread():
    features = GapFeatures(schema_of((60.0, 60.0)))
    assert features.spread == 1.0
    assert repr(features) == "GapFeatures(unit=60 s)"
    assert GapFeatures(schema_of(())).spread == 1.0


def test_where_rows_stand():
    layout = layout_of(torch.tensor([[5, 6, 9]]))
    timed, counted = Clock(True, 1.0, 1.0, 9.0), Clock(False, 1.0, 1.0, 9.0)
    assert timed.positions(layout).tolist() == [[5, 6, 9]]
    assert timed.since_first(layout).tolist() == [[0.0, 1.0, 4.0]]
    assert counted.positions(layout).tolist() == counted.since_first(layout).tolist() == [[0, 1, 2]]
