"""The scale of a clock."""

from __future__ import annotations

import pytest
import torch

from tabembed.nn.sequence_layout import layout_of
from tabembed.nn.time_scale import SECOND, TimeScale, scale_of
from tabembed.schema import SequenceSchema, TableSchema


def schema_of(gaps, span=7200.0, longest=5):
    return SequenceSchema(TableSchema(9, ()), (), False, 2, longest, span, tuple(gaps))


def test_the_scale_follows_from_the_gaps():
    gaps = [0.001, *(60.0 + i for i in range(100))]  # 101 quantiles: the least is left out
    assert scale_of(schema_of(gaps), "time") == TimeScale(
        True, 60.0 * SECOND, 109.0 * SECOND, 7200.0 * SECOND
    )
    assert scale_of(schema_of(gaps), "index") == TimeScale(False, 1.0, 1.0, 4.0)


@pytest.mark.parametrize(("span", "seconds"), [(0.0, 1.0), (90.0, 90.0)])
def test_without_gaps_the_span_is_one(span, seconds):
    clock = scale_of(schema_of((), span=span, longest=1), "time")
    assert (clock.shortest, clock.typical, clock.longest) == (seconds * SECOND,) * 3
    assert scale_of(schema_of((), span=span, longest=1), "index").longest == 1.0


def test_where_rows_stand():
    layout = layout_of(torch.tensor([[5, 6, 9]]))
    timed, counted = TimeScale(True, 1.0, 1.0, 9.0), TimeScale(False, 1.0, 1.0, 9.0)
    assert timed.positions(layout).tolist() == [[5, 6, 9]]
    assert timed.since_first(layout).tolist() == [[0.0, 1.0, 4.0]]
    assert counted.positions(layout).tolist() == counted.since_first(layout).tolist() == [[0, 1, 2]]
