"""What the time before a row tells, against scalar loops."""

from __future__ import annotations

import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.nn.gap_features import GapFeatures
from tabembed.nn.sequence_layout import layout_of
from tabembed.nn.time_scale import SECOND
from tabembed.schema import SequenceSchema, TableSchema

SKEWED = tuple((1 + i) ** 2.5 for i in range(101))


def schema_of(gaps, span):
    return SequenceSchema(TableSchema(9, ()), (), False, 2, 5, span, tuple(gaps))


@pytest.mark.parametrize(
    ("gaps", "span"),
    [
        (SKEWED, 2e6),
        ((30.0, 60.0, 600.0), 7200.0),
        ((60.0,) * 101, 86_400.0),
        ((60.0,), 60.0),
        ((), 90.0),
        ((), 0.0),
        ((1e-9, 1e9), 1e9),
    ],
)
def test_gaps_by_hand(gaps, span):
    schema = schema_of(gaps, span)
    apart = [0.0, 0.5, 1.0, 59.0, 61.0, 4321.0, 1e5, 3e6, 1e8]
    when = torch.tensor([0.0, *apart], dtype=torch.float64).cumsum(0).mul(SECOND).long()
    found = GapFeatures(schema)(layout_of(when[None] + 2**61))[0]
    whole = when.diff().div(SECOND, rounding_mode=None).tolist()
    wanted = [reference.gap_features(gap, gaps, span) for gap in (None, *whole)]
    assert_close(found, torch.tensor(wanted, dtype=torch.float64), atol=1e-9, rtol=0)


def test_features_are_between_minus_1_and_1_and_tell_gaps_apart():
    features = GapFeatures(schema_of(SKEWED, 2e6))
    when = torch.tensor([0.0, *(gap for gap in SKEWED)], dtype=torch.float64).cumsum(0).mul(SECOND).long()
    found = features(layout_of(when[None]))[0, 1:]
    assert found.min() >= -1
    assert found.max() <= 1
    assert features.width == 11  # 0, nine quantiles, the span, less one, and whether there is a gap
    assert (found.diff(dim=0).abs().sum(-1) > 0.001).all()


def test_gaps_that_are_alike_are_one_edge():
    features = GapFeatures(schema_of((60.0, 60.0, 60.1), 60.1))
    assert features.width == 2
    assert repr(features) == "GapFeatures(1 bins, unit=60 s)"
