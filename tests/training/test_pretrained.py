from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from tabembed import CategoricalList, SequenceEmbedding, SequenceEncoder, TableEmbedding, TableEncoder
from tabembed.nn import EntityEmbedding
from tabembed.training.pretrained import load_pretrained

TABLE = pd.DataFrame(
    {"city": ["Rome"] * 5 + ["Oslo"] * 3 + ["Lima", "Bonn", None], "tags": ["a|b"] * 6 + ["b|c"] * 5}
)
VECTORS = {"Oslo": [1.0, 2.0], "Bonn": [3.0, 6.0], "Paris": [5.0, 1.0]}


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder({"tags": CategoricalList("|")}, min_frequency=1).fit(TABLE)


@pytest.fixture
def module(encoder):
    return TableEmbedding(encoder.schema_, embed_dims=2, seed=0)


def rows(module, column="city"):
    return module.weight(column).detach().numpy().copy()


def test_categories_get_their_vectors_and_the_rest_the_mean(encoder, module):
    drawn = rows(module)
    report = load_pretrained(module, encoder, VECTORS, "city")
    table, mean = rows(module), [3.0, 3.0]
    # Ids by falling count, ties by value: Rome, Oslo, Bonn, Lima.
    np.testing.assert_array_equal(table, [drawn[0], mean, mean, mean, [1, 2], [3, 6], mean])
    assert (report.n_known, report.n_found, report.n_unused, report.reserved) == (4, 2, 1, ())
    assert report.row_share == pytest.approx(4 / 10)
    assert str(report) == (
        "city: 2 of 4 categories found, 40.0% of the rows; 2 have the vector of the unknown row; "
        "1 given vectors are of no known category"
    )
    assert module.weight("city").requires_grad
    module(**encoder.transform(TABLE).tensors()).sum().backward()
    assert module.weight("city").grad is not None


def test_the_rest_may_stay(encoder, module):
    drawn = rows(module)
    report = load_pretrained(module, encoder, VECTORS, "city", rest="keep")
    table = rows(module)
    np.testing.assert_array_equal(table[[4, 5]], [[1, 2], [3, 6]])
    np.testing.assert_array_equal(table[[0, 1, 2, 3, 6]], drawn[[0, 1, 2, 3, 6]])
    assert "2 keep their vectors" in str(report)


@pytest.mark.parametrize("rest", ["keep", "unknown"])
def test_rows_of_missing_and_unknown_cells_are_taken_from_the_frame(encoder, module, rest):
    frame = pd.DataFrame(
        [["Oslo", 1.0, 2.0], [None, 7.0, 7.0], [None, 9.0, 9.0]], columns=["category", "x", "y"]
    )
    frame["kind"] = ["known", "missing", "unknown"]
    drawn = rows(module)
    report = load_pretrained(module, encoder, frame, "city", rest=rest)
    table = rows(module)
    np.testing.assert_array_equal(table[[1, 2, 4]], [[7, 7], [9, 9], [1, 2]])
    others = np.full((3, 2), 9.0) if rest == "unknown" else drawn[[3, 5, 6]]
    np.testing.assert_array_equal(table[[3, 5, 6]], others)
    assert report.reserved == ("missing", "unknown")
    assert str(report).endswith("given for missing and unknown cells, too")


def test_lists_count_values(encoder, module):
    report = load_pretrained(module, encoder, {"b": [1, 2]}, "tags")
    assert report.row_share == pytest.approx(11 / 22)
    assert rows(module, "tags")[3].tolist() == [1, 2]


def test_sequences_have_tables_of_both_halves():
    events = pd.DataFrame(
        {"who": [1, 1, 2], "when": [1, 2, 3], "shop": ["a", "b", "a"], "end": ["x", "y", "x"]}
    )
    encoder = SequenceEncoder("who", "when", ["shop", "end"], observed=["end"]).fit(events)
    module = SequenceEmbedding(encoder.schema_, embedding={"embed_dims": 2}, seed=0)
    for column, half in {"shop": module.known, "end": module.after}.items():
        name = {"shop": "b", "end": "y"}[column]
        load_pretrained(module, encoder, {name: [4.0, 5.0]}, column)
        assert half.weight(column)[4].tolist() == [4, 5]


def test_a_frozen_table_stays_while_the_others_learn(encoder, module):
    load_pretrained(module, encoder, VECTORS, "city")
    module.weight("city").requires_grad_(False)
    before = rows(module), rows(module, "tags")
    optimiser = torch.optim.AdamW(module.param_groups(0.1, 0.1, table_weight_decay=0.1))
    module(**encoder.transform(TABLE).tensors()).square().sum().backward()
    optimiser.step()
    np.testing.assert_array_equal(rows(module), before[0])
    assert not np.array_equal(rows(module, "tags"), before[1])


def test_a_module_in_half_precision(encoder, module):
    half = module.to(torch.bfloat16)
    load_pretrained(half, encoder, {"Rome": [1.0, 0.5]}, "city")
    assert half.weight("city").dtype == torch.bfloat16
    assert half.weight("city")[3].tolist() == [1.0, 0.5]
    with pytest.raises(ValueError, match="column 'city': vectors must fit torch.float16, got 100000"):
        load_pretrained(module.half(), encoder, {"Rome": [1e5, 1.0]}, "city")


def test_what_does_not_fit_changes_nothing(encoder, module):
    before = rows(module)
    other = TableEncoder(["city"], min_frequency=2).fit(TABLE)
    for wrong, error, message in (
        ((module, encoder, {"Rome": [1.0]}, "city"), ValueError, "vectors must have width 2, got"),
        ((module, encoder, {"Paris": [1.0, 2.0]}, "city"), ValueError, "be known from the fit, got none"),
        ((module, encoder, VECTORS, "town"), ValueError, "column 'town': has no embedding table"),
        ((module, other, VECTORS, "city"), ValueError, "module must be of the encoder's schema, got"),
        ((EntityEmbedding(7), encoder, VECTORS, "city"), TypeError, "module must be a TableEmbedding or"),
        ((encoder, module, VECTORS, "city"), TypeError, "module must be a TableEmbedding or .* got TableEnc"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            load_pretrained(*wrong)
    with pytest.raises(ValueError, match="rest must be one of unknown, keep, got 'drop'"):
        load_pretrained(module, encoder, VECTORS, "city", rest="drop")
    np.testing.assert_array_equal(rows(module), before)
