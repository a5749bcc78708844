from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from tabembed import LearnedFourierTransformer, TableEmbedder, TableEncoder
from tabembed.estimators.fingerprint import fingerprint
from tabembed.sequence.batch import example


def test_every_part_of_a_batch_marks_it():
    table = {"a": ["x", "y"], "b": [1.0, 2.0], "t": np.array([0, 1], "M8[s]"), "l": [["x"], ["y", "x"]]}
    batch = TableEncoder().fit(table).transform(table)
    changed = [
        *(replace(batch, **{name: getattr(batch, name).flip(0)}) for name in ("ids", "values", "times")),
        replace(batch, missing=~batch.missing),
        replace(batch, lists=batch[[1, 0]].lists),
        batch[:1],
    ]
    assert len({fingerprint(b) for b in (batch, *changed)}) == 7
    assert fingerprint(batch[[0, 1]]) == fingerprint(batch)


@pytest.mark.parametrize(
    ("estimator", "rows"),
    [
        (TableEmbedder(max_iter=1, random_state=0), "table"),
        (LearnedFourierTransformer(2, n_frequencies=3, max_iter=1, random_state=0), "rows"),
    ],
    ids=["table", "rows"],
)
def test_the_warning_names_the_line_that_calls_transform(estimator, rows):
    X = np.random.RandomState(0).randn(30, 2)
    estimator.fit(X, X[:, 0])
    text = (
        f"{type(estimator).__name__}.transform got the {rows} of the fit: these vectors have seen the target "
        "and are not out-of-fold. To train a model on them, use fit_transform."
    )
    with pytest.warns(UserWarning, match=re.escape(text)) as caught:
        estimator.transform(X)
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.transform(X[::-1])


def test_the_clock_and_the_borders_of_sequences_mark_them_and_the_order_of_the_table_does_not():
    batch = example()
    changed = [
        replace(batch, times=batch.times + 1),
        replace(batch, cu_seqlens=torch.tensor([0, 1, 3], dtype=torch.int32), entities=np.array(["a", "b"])),
        replace(batch, rows=batch.rows[[1, 0, 2]]),
    ]
    assert len({fingerprint(b) for b in (batch, *changed)}) == 4
    assert fingerprint(replace(batch, row=batch.row.flip(0))) == fingerprint(batch)
