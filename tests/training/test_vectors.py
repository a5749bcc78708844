from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tabembed import CategoricalList, TableEncoder
from tabembed.training.masked_network import table_network
from tabembed.training.vectors import aligned_parts, vectors

N_ROWS = 23


@pytest.fixture(scope="module")
def frame():
    draw = np.random.RandomState(0)
    return pd.DataFrame(
        {
            "tags": [["a", "b", "c"][: i % 4] for i in range(N_ROWS)],
            "km": draw.randn(N_ROWS),
            "city": draw.choice(["Oslo", "Rome", "Lima", "Nuuk"], N_ROWS),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(draw.randint(0, 99, N_ROWS), unit="h"),
            "words": [["x", "y", "z", "u", "v"][: i % 6] for i in range(N_ROWS)],
            "age": draw.randn(N_ROWS),
            "open": draw.rand(N_ROWS) < 0.5,
        }
    )


@pytest.mark.parametrize("output", ["columns", "row", "both"])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("masked", [False, True])
def test_parts_with_coordinates_are_those_of_a_loop_over_the_names(frame, output, order, masked):
    frame = frame[frame.columns[::order]]
    encoder = TableEncoder(columns={"tags": CategoricalList(), "words": CategoricalList()}).fit(frame)
    network = table_network(encoder.schema_, masked=masked, n_outputs=1, hidden_layer_sizes=(5, 3))
    names = network.column_names() if output != "row" else []
    width = vectors(network.eval(), encoder.transform(frame), output).shape[1]
    names = [*names, *(f"row {i}" for i in range(width - len(names)))]
    expected = {}
    for place, name in enumerate(names):
        owner = name.partition(" ")[0] if name.startswith("row ") else name.partition("_e")[0]
        if owner not in ("km", "when", "age"):
            expected.setdefault(owner, []).append(place)
    found = sorted(list(range(width))[part] for part in aligned_parts(network, output))
    assert found == sorted(expected.values())
    assert len(found) == {"columns": 4, "row": 1, "both": 5}[output]


@pytest.mark.parametrize(("output", "parts"), [("columns", []), ("row", [(0, 3)]), ("both", [(2, 5)])])
def test_numbers_alone_have_no_coordinates_of_their_own(frame, output, parts):
    encoder = TableEncoder().fit(frame[["km", "age"]])
    network = table_network(encoder.schema_, n_outputs=1, hidden_layer_sizes=(5, 3))
    assert [(part.start, part.stop) for part in aligned_parts(network, output)] == parts
