from __future__ import annotations

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator
from sklearn_checks import PRIVATE_CHECKS

from tabembed import TableEmbedder

OUT_OF_FOLD = "fit_transform gives out-of-fold vectors, which differ from those of transform by design"
EXPECTED = {
    "check_transformer_general": OUT_OF_FOLD,
    "check_transformer_data_not_an_array": OUT_OF_FOLD,
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:TableEmbedder.transform got the table"),
    pytest.mark.filterwarnings("ignore:Can't check dok sparse"),
]


@pytest.mark.parametrize("output", ["columns", "both"])
def test_check_estimator(output):
    embedder = TableEmbedder(output=output, hidden_layer_sizes=(8,), max_iter=4, cv=2)
    results = check_estimator(embedder, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert failed == []
    assert sum(r["status"] == "xfail" for r in results) <= 3
    assert sum(r["status"] == "passed" for r in results) >= 40


@pytest.mark.parametrize("output", ["columns", "both"])
@pytest.mark.parametrize("check", PRIVATE_CHECKS)
def test_checks_that_scikit_learn_keeps_to_itself(check, output):
    embedder = TableEmbedder(output=output, hidden_layer_sizes=(8,), max_iter=2, cv=2)
    getattr(estimator_checks, check)("TableEmbedder", embedder)
