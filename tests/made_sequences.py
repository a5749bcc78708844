"""Drawn sequences of given lengths, and a slow look at what is padded, for tests."""

from __future__ import annotations

import numpy as np
import torch

from tabembed.batch import Ragged, TableBatch
from tabembed.schema import MISSING_TIME
from tabembed.sequence import SequenceBatch

LENGTHS = {
    "odd": (3, 7, 1, 5, 3, 1, 11),
    "equal": (4, 4, 4),
    "one row each": (1, 1, 1),
    "one sequence": (5,),
    "some without rows": (0, 2, 0, 3),
    "no rows": (0, 0),
    "none": (),
}


def made(lengths, seed=0, absent=2):
    """Sequences with two categories, three numbers, a datetime and a list; two more rows were merged."""
    draw = torch.Generator().manual_seed(seed)
    n = sum(lengths)
    cells = torch.randint(0, 4, (n,), generator=draw)
    offsets = torch.cat((torch.zeros(1, dtype=torch.int64), cells.cumsum(0)))
    tags = Ragged(
        torch.randint(1, 50, (int(cells.sum()),), generator=draw),
        offsets,
        (cells == 0) & (torch.arange(n) % 2 > 0),
    )
    rows = TableBatch(
        ids=torch.randint(1, 90, (n, 2), generator=draw),
        values=torch.randn(n, 3, generator=draw),
        missing=torch.rand(n, 3, generator=draw) < 0.3,
        times=torch.randint(1, 10**15, (n, 1), generator=draw),
        lists={"tags": tags},
    )
    cu_seqlens = torch.tensor([0, *lengths]).cumsum(0)
    times, gap = torch.zeros(n, dtype=torch.int64), torch.full((n,), torch.nan, dtype=torch.float64)
    elapsed = torch.zeros(n, dtype=torch.float64)
    for start, stop in zip(cu_seqlens[:-1].tolist(), cu_seqlens[1:].tolist(), strict=True):
        steps = torch.randint(1, 10**6, (stop - start,), generator=draw)
        times[start:stop] = 10**18 + steps.cumsum(0) * 10**9
        elapsed[start:stop] = (times[start:stop] - times[start : start + 1]) / 1e9
        gap[start + 1 : stop] = steps[1:].double()
    n_input = n + 2 + absent
    places = torch.randperm(n_input, generator=draw)
    row, merged = places[:n], places[n : n + 2]
    merged = torch.stack((merged, row[[0, n - 1]]), dim=1) if n else torch.zeros(0, 2, dtype=torch.int64)
    entities = np.array([f"card {i}" for i in range(len(lengths))], dtype=object)
    return SequenceBatch(rows, cu_seqlens.int(), entities, times, elapsed, gap, row, n_input, merged)


def owned(batch):
    """The places of every sequence, as lists."""
    bounds = batch.cu_seqlens.tolist()
    return [list(range(a, b)) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def cells(column):
    """The cells of a column of lists, and which are missing."""
    bounds = column.offsets.tolist()
    ids = [column.ids[a:b].tolist() for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    return list(zip(ids, column.missing.tolist(), strict=True))


def same(found, wanted):
    """Equal numbers, NaN equal to NaN, and one dtype."""
    wanted = torch.stack(wanted) if isinstance(wanted, list) else wanted
    assert found.dtype == wanted.dtype
    assert torch.equal(torch.nan_to_num(found, nan=-1.5), torch.nan_to_num(wanted, nan=-1.5))


def assert_holds(batch, wanted):
    """A batch has rows of another: ``wanted`` is that one and, for every sequence, their places in it."""
    whole, places = wanted
    assert [len(p) for p in places] == batch.lengths.tolist()
    flat = torch.tensor([place for sequence in places for place in sequence], dtype=torch.int64)
    for name in ("times", "elapsed", "gap", "row"):
        same(getattr(batch, name), getattr(whole, name)[flat])
    for name in ("ids", "values", "missing", "times"):
        same(getattr(batch.rows, name), getattr(whole.rows, name)[flat])
    tags = cells(whole.rows.lists["tags"])
    assert cells(batch.rows.lists["tags"]) == [tags[place] for place in flat.tolist()]
    assert batch.cu_seqlens.dtype == torch.int32


def assert_laid_out(padded, batch, layout):
    """Cell by cell: ``layout`` has a list for every sequence, of places in the batch, or None for padding."""
    assert padded.shape == (len(layout), len(layout[0]) if layout else padded.shape[1])
    assert {t.dtype for t in (padded.times, padded.positions, padded.row)} == {torch.int64}
    assert {t.dtype for t in (padded.elapsed, padded.gap)} == {torch.float64}
    assert padded.mask.dtype == torch.bool
    tags, table = cells(padded.rows["lists"]["tags"]), cells(batch.rows.lists["tags"])
    blank = {"ids": 0, "values": 0.0, "missing": False, "times": MISSING_TIME}
    assert list(padded.rows) == [*blank, "lists"]
    assert len(tags) == padded.mask.numel()
    for b, sequence in enumerate(layout):
        real = [place for place in sequence if place is not None]
        for s, place in enumerate(sequence):
            assert padded.mask[b, s] == (place is not None)
            cell = tags[b * len(sequence) + s]
            if place is None:
                for name, fill in blank.items():
                    assert set(padded.rows[name][b, s].tolist()) == {fill}
                assert cell == ([], False)
                assert (padded.positions[b, s], padded.row[b, s]) == (0, -1)
                assert (padded.elapsed[b, s], padded.gap[b, s]) == (0, 0)
                if real:
                    nearest = real[0] if sequence.index(real[0]) > s else real[-1]
                    assert padded.times[b, s] == batch.times[nearest]
                continue
            for name in blank:
                same(padded.rows[name][b, s], getattr(batch.rows, name)[place])
            assert cell == table[place]
            assert padded.positions[b, s] == real.index(place)
            for name in ("times", "elapsed", "gap", "row"):
                same(getattr(padded, name)[b, s], getattr(batch, name)[place])
