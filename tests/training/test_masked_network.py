from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from tabembed import TableEncoder
from tabembed.training.cell_codes import CellCodes
from tabembed.training.masked_network import LEARNED, MaskedNetwork, table_network
from tabembed.training.network import TableNetwork
from tests.training.test_masked_columns import frame


@pytest.fixture(scope="module")
def problem():
    table = frame()
    table.loc[[0, 1], "city"] = "Bergen"  # too rare for a place of its own
    table["fixed"] = 3.0
    encoder = TableEncoder().fit(table)
    return table, encoder.schema_, encoder.transform(table)


def test_codes_are_those_of_a_loop(problem):
    table, schema, batch = problem
    module = CellCodes(schema)
    codes = module(**batch.tensors())
    assert codes.dtype == torch.float64
    assert codes.shape[1] == sum(module.widths)
    city, km, rooms, fixed, *numbers, when = codes.split(module.widths, 1)
    assert torch.equal(torch.cat(numbers, 1), batch.values.double())
    names = [None, None, None, *table["city"].value_counts().index[:3]]
    for row in range(len(table)):
        value = table["city"][row]
        place = 1 if pd.isna(value) else 2 if value == "Bergen" else names.index(value)
        assert city[row].nonzero().flatten().tolist() == [place]
        for name, part, j in (("km", km, 0), ("rooms", rooms, 1)):
            gone = pd.isna(table[name][row])
            assert part[row, -1] == gone
            edges = module.edges[j].unique()
            x = batch.values[row, j]
            shares = [min(max((x - a) / (b - a), 0), 1) for a, b in zip(edges, edges[1:], strict=False)]
            torch.testing.assert_close(
                part[row, : len(shares)], torch.tensor(shares).double(), atol=1e-6, rtol=0
            )
    assert fixed.unique(dim=0).shape[0] == 1
    hours = (table["when"] - table["when"].min()) / (table["when"].max() - table["when"].min())
    np.testing.assert_allclose(when[:, 0], 2 * hours - 1, atol=1e-6)


def settled(schema, batch, **own):
    network = table_network(schema, masked=True, n_outputs=4, **own).eval().requires_grad_(False)
    network.settle(batch)
    return network


def test_rows_are_principal_components_of_both_sources(problem):
    _, schema, batch = problem
    network = settled(schema, batch, hidden_layer_sizes=(9, 5), seed=1)
    codes = CellCodes(schema)
    cells = codes(**batch.tensors()).numpy()
    cells -= cells.mean(0)
    blocks = np.split(cells, np.cumsum(codes.widths)[:-1], axis=1)
    for i in range(len(codes.n_ids), len(blocks)):
        spread = blocks[i].var(0).sum()
        blocks[i] = blocks[i] / np.sqrt(spread) if spread > 1e-12 else blocks[i]
    cells = np.concatenate(blocks, 1)
    learned = TableNetwork.row(network, **batch.tensors()).double().numpy()
    learned -= learned.mean(0)
    learned *= LEARNED * np.sqrt(cells.var(0).sum() / learned.var(0).sum())
    u, s, _ = np.linalg.svd(np.concatenate([cells, learned], 1), full_matrices=False)
    rows = network.row(**batch.tensors()).numpy()
    assert rows.shape == (len(batch), 64)
    expected, found = u[:, :20] * s[:20], rows[:, :20]
    signs = np.sign((expected * found).sum(0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-4)


def test_what_a_network_without_rows_and_with_few_columns_gives():
    table = pd.DataFrame({"a": ["x", "y"] * 20, "b": [0.0, 1.0] * 20})
    encoder = TableEncoder().fit(table)
    batch = encoder.transform(table)
    network = settled(encoder.schema_, batch, hidden_layer_sizes=(64,))
    assert network.row(**batch[:0].tensors()).shape == (0, 64)
    rows = network.row(**batch.tensors())
    assert rows.isfinite().all()
    assert not torch.equal(rows[0], rows[1])
    assert rows[:, :1].ne(0).all()
    assert rows[:, 2:].eq(0).all()  # two kinds of rows lie on a line, and no rounding is made a column
    alone = network.row(**batch[:1].tensors())
    assert torch.equal(rows[:1], alone)


def test_a_table_with_a_target_has_the_plain_network(problem):
    _, schema, _ = problem
    assert type(table_network(schema, n_outputs=1)) is TableNetwork
    assert type(table_network(schema, n_outputs=1, masked=True)) is MaskedNetwork
