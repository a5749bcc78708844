from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from tabembed.training.objective import check_target, make_objective, with_gaps


@pytest.mark.parametrize(
    ("y", "target_type"),
    [
        (["no", "yes", "no"], "binary"),
        ([True, False, True], "binary"),
        ([0.0, 1.0, 1.0], "binary"),
        (["a", "b", "c"], "multiclass"),
        ([1, 2, 3], "multiclass"),
        (list(range(51)), "continuous"),
        ([1.0, 2.0, 3.0], "continuous"),
    ],
)
def test_target_type_is_guessed(y, target_type):
    objective, target = make_objective(check_target(y, len(y)))
    assert objective.target_type == target_type
    assert objective.n_outputs == (3 if target_type == "multiclass" else 1)
    assert torch.isfinite(objective.loss(torch.zeros(len(y), objective.n_outputs), target))


def test_numbers_are_standardised_and_classes_are_coded_by_value():
    _, target = make_objective(np.array([2.0, 4.0, 9.0]))
    assert target.mean().abs() < 1e-6
    assert target.std(correction=0) == pytest.approx(1)
    objective, codes = make_objective(np.array(["c", "a", "b", "a"]))
    assert codes.tolist() == [2, 0, 1, 0]
    assert objective.classes.tolist() == ["a", "b", "c"]


def test_losses_are_the_textbook_ones():
    output = torch.tensor([[0.5], [-1.0]])
    objective, target = make_objective(np.array([0, 1]))
    expected = (np.log1p(np.exp(0.5)) + np.log1p(np.exp(1.0))) / 2
    assert objective.loss(output, target).item() == pytest.approx(expected, rel=1e-6)
    objective, target = make_objective(np.array([1.0, 3.0]), "continuous")
    assert objective.loss(output, target).item() == pytest.approx((1.5**2 + 2.0**2) / 2)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (None, ValueError, "requires y to be passed, but the target y is None"),
        ([1, 2, 3], ValueError, "y must have one value for every row of X, got 3 values for 2 rows"),
        ([1.0, np.nan], ValueError, "y must have no missing value, got NaN in row 1"),
        ([np.inf, 1.0], ValueError, "y must be finite, got infinity in row 0"),
        (["a", None], ValueError, "y must have no missing value, got NaN in row 1"),
        (pd.Series([pd.NA, 1], dtype="Int64"), ValueError, "y must have no missing value"),
        (["a", "a"], ValueError, "y must have at least two distinct values, got one class, 'a'"),
        (np.array(["a", 1], dtype=object), TypeError, "y must be of one kind, got int and str"),
        (np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), TypeError, "y must be numbers"),
        ([[1, 2], [3, 4]], ValueError, "y should be a 1d array"),
    ],
)
def test_bad_targets(y, error, message):
    with pytest.raises(error, match=message):
        check_target(y, 2)


@pytest.mark.parametrize(
    ("y", "target_type", "message"),
    [
        (np.array([1, 2]), "ordinal", "target_type must be one of auto, continuous, binary, multiclass, got"),
        (np.array([1, 2, 3]), "binary", "y must have two classes when target_type='binary', got 3"),
        (np.array(["a", "b"]), "continuous", "y must be numbers when target_type='continuous', got 'a'"),
    ],
)
def test_target_types_that_do_not_fit(y, target_type, message):
    with pytest.raises(ValueError, match=message):
        make_objective(y, target_type)


@pytest.mark.parametrize("unit", [1e200, 1e-300, 1e300])
def test_the_unit_of_a_target_does_not_matter(unit):
    y = np.random.default_rng(0).normal(size=50)
    plain, scaled = (make_objective(values, "continuous")[1].numpy() for values in (y, y * unit))
    np.testing.assert_allclose(scaled, plain, atol=1e-6)


@pytest.mark.parametrize("kind", ["continuous", "binary", "multiclass"])
def test_gaps_of_every_kind_of_target(kind):
    y = {"continuous": [0.5, 2.0, -1.0], "binary": [0, 1, 0], "multiclass": ["a", "b", "c"]}[kind]
    objective, target = make_objective(np.array(y), kind)
    there = torch.tensor([True, False, True, False, True])
    gaps, whole = with_gaps(objective, target, there)
    assert torch.equal(whole.isnan(), ~there)
    output = torch.randn(5, objective.n_outputs, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(gaps.loss(output, whole), objective.loss(output[there], target))
    assert (gaps.target_type, gaps.n_outputs) == (kind, objective.n_outputs)
