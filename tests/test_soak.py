"""Fitting, saving, loading and encoding over and over leaves no memory and no open file behind."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
import torch
from event_tables import events

from tabembed import SequenceEmbedding, SequenceEncoder, TableEncoder, load

WARM, ROUNDS, MAY_GROW = 200, 1000, 8 * 2**20
NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc, which Linux has")
TABLE = events(40)


def open_files():
    """What the process holds open, a mapped file included."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return len(os.listdir("/proc/self/fd")), maps.count("model.safetensors")


def resident():
    """Bytes of the process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def a_round(i, folder):
    """Everything that a model goes through, on rows that differ a little from round to round."""
    rows = TABLE.assign(place=TABLE["place"].where(TABLE.index % 7 != i % 7, f"place {i % 7}"))
    kinds = [TableEncoder()] if i % 4 else [TableEncoder(), SequenceEncoder("who", "when", observed=["paid"])]
    for encoder in kinds:
        path = folder / type(encoder).__name__
        encoder.fit(rows).save(path)
        again = load(path)
        batch, found = encoder.transform(rows), again.transform(rows)
        one, other = (getattr(b, "rows", b) for b in (batch, found))
        assert one.ids.equal(other.ids)
        assert one.values.equal(other.values)
    if i % 4 == 0:
        with torch.no_grad():
            SequenceEmbedding(again.schema_, d_model=8, num_layers=1, seed=0)(**found.tensors())


@NEEDS_PROC
def test_no_file_stays_open(tmp_path):
    a_round(0, tmp_path)
    gc.collect()
    before = open_files()
    for i in range(30):
        a_round(i, tmp_path)
    gc.collect()
    assert open_files() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["SequenceEncoder", "TableEncoder"]


@pytest.mark.slow
@NEEDS_PROC
def test_a_thousand_rounds_take_no_more_memory_than_two_hundred(tmp_path):
    size = []
    for i in range(ROUNDS):
        a_round(i, tmp_path)
        if i % 100 == 99:
            gc.collect()
            size.append((resident(), *open_files()))
    warm = size[WARM // 100 - 1]
    assert max(memory for memory, *_ in size[WARM // 100 :]) - warm[0] < MAY_GROW, size
    assert {tuple(files) for _, *files in size[1:]} == {warm[1:]}
