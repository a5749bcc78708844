from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from made_sequences import LENGTHS, made, owned, same


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_every_sequence(lengths):
    batch = made(lengths)
    nested = batch.nested()
    assert list(nested) == ["rows", "times", "elapsed", "gap", "row"]
    assert list(nested["rows"]) == ["ids", "values", "missing", "times", "lists"]
    assert nested["rows"]["lists"] == batch.rows.lists
    flat = {name: (nested[name], getattr(batch, name)) for name in list(nested)[1:]}
    flat |= {n: (nested["rows"][n], getattr(batch.rows, n)) for n in ("ids", "values", "missing")}
    for jagged, column in flat.values():
        assert jagged.layout == torch.jagged
        parts = jagged.unbind() if len(batch) else ()
        assert len(parts) == len(batch)
        for part, places in zip(parts, owned(batch), strict=True):
            same(part, column[places])


def test_parts_can_be_combined_and_computed_with():
    batch = made(LENGTHS["odd"])
    nested = batch.nested()
    both = nested["rows"]["values"] * nested["elapsed"].unsqueeze(-1).float()
    same(both.values(), batch.rows.values * batch.elapsed[:, None].float())
    padded = torch.nested.to_padded_tensor(nested["elapsed"], 0.0)
    same(padded, batch.padded().elapsed)


def test_without_lists():
    batch = made((3, 1))
    assert "lists" not in replace(batch, rows=replace(batch.rows, lists={})).nested()["rows"]
