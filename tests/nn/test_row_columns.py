"""Rows cleaned of padding, and split by the names of their columns."""

from __future__ import annotations

import pytest
import torch
from slow_sequence import COLUMNS, drawn, padded, schema_of, some
from torch.testing import assert_close

from tabembed.nn.row_columns import columns_of, real_rows
from tabembed.schema import TableSchema

SCHEMA = TableSchema(9, COLUMNS)


def test_padding_holds_padding_and_real_rows_what_they_held():
    batch, parts = padded(some(), "middle"), some()
    flat = real_rows(batch["rows"], batch["mask"], SCHEMA, padded=True)
    real = batch["mask"].flatten()
    for name, fill in (("ids", 0), ("values", 0), ("missing", False), ("times", -(2**63))):
        assert flat[name][~real].eq(fill).all()
        assert_close(flat[name][real], torch.cat([rows[name] for rows, _ in parts]))
    cells = flat["lists"]["tags"]
    assert cells.take(torch.where(~real)[0]).ids.eq(0).all()
    wanted = torch.cat([rows["lists"]["tags"].ids for rows, _ in parts])
    assert cells.take(torch.where(real)[0]).ids.tolist() == wanted.tolist()


def test_a_list_of_padding_is_not_missing():
    rows, _ = drawn(3)
    cells = rows["lists"]["tags"]._replace(missing=torch.tensor([True, True, False]))
    real = torch.tensor([[True, False, True]])
    flat = real_rows({**rows, "lists": {"tags": cells}}, real, SCHEMA, padded=True)
    assert flat["lists"]["tags"].missing.tolist() == [True, False, False]


@pytest.mark.parametrize("names", [("late", "tags"), ("city", "due"), ("outcome", "distance", "city"), ()])
def test_columns_by_name(names):
    rows, _ = drawn(5)
    part = SCHEMA.select(names)
    chosen = columns_of(rows, SCHEMA, part)
    columns = {"late": ("values", 0), "distance": ("values", 1), "city": ("ids", 0), "outcome": ("ids", 1)}
    columns["due"] = ("times", 0)
    for kind, own in (("values", part.continuous), ("ids", part.categorical), ("times", part.datetime)):
        wanted = [rows[columns[c.name][0]][:, columns[c.name][1]] for c in own]
        assert chosen[kind].shape == (5, len(wanted))
        for got, one in zip(chosen[kind].unbind(1), wanted, strict=True):
            assert_close(got, one)
    assert set(chosen["lists"]) == {"tags"} & set(names)


def test_the_halves_hold_every_column_once():
    schema = schema_of()
    names = [c.name for half in (schema.known, schema.after) for c in half.columns]
    assert sorted(names) == sorted(c.name for c in COLUMNS)
