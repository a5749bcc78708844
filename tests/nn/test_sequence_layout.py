"""Where rows stand, against loops over the places of every line."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tabembed.nn.sequence_layout import layout_of

PACKED, STARTS = [0, 3, 3, 4, 9, 9], [0, 3, 4]


def drawn(n_lines, n_places, seed=0):
    generator = torch.Generator().manual_seed(seed)
    times = torch.randint(0, 5, (n_lines, n_places), generator=generator).sort(-1).values + 2**61
    mask = torch.rand(n_lines, n_places, generator=generator) < 0.6
    mask[0] = False
    return times, mask


def loops(times, mask, starts, strict):
    """Number (of the instant, where they are kept apart), first time and place of the row before."""
    wanted = {"number": [], "origin": [], "before": []}
    for line, real in zip(times.tolist(), mask.tolist(), strict=True):
        own, rows = {name: [] for name in wanted}, []
        for j, t in enumerate(line):
            rows = [] if j in starts else rows
            if real[j]:
                earlier = [i for i in rows if line[i] < t] if strict else rows
                rows = [*rows, j]
            own["before"].append(earlier[-1] if real[j] and earlier else -1)
            own["number"].append(max(len({line[i] for i in rows} if strict else rows) - 1, 0))
            own["origin"].append(line[rows[0]] if rows else None)
        for name, numbers in own.items():
            wanted[name].append(numbers)
    return wanted


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("form", ["whole", "padded", "packed"])
def test_places_by_loops(form, strict):
    times, mask = drawn(7, 9)
    starts, ends = ([], None) if form != "packed" else (STARTS, PACKED)
    if form == "packed":
        times = torch.cat([times[0, a:b].sort().values for a, b in ((0, 3), (0, 1), (4, 9))])[None]
    given = mask if form == "padded" else None
    real = mask if form == "padded" else torch.ones_like(times, dtype=torch.bool)
    layout = layout_of(times.masked_fill(~real, -(2**63)), given, ends, strict=strict)
    wanted = loops(times, real, starts, strict)
    assert layout.number.tolist() == wanted["number"]
    assert layout.before.tolist() == wanted["before"]
    known = torch.tensor([[t is not None for t in line] for line in wanted["origin"]])
    assert layout.origin[known].tolist() == [t for line in wanted["origin"] for t in line if t is not None]
    held = layout.times[known].tolist()
    assert torch.equal(layout.times[real], times[real])
    assert held == sorted(held) or form != "padded" or len(times) > 1
    assert (layout.times.diff() >= 0).all() or form == "packed"


def test_sequences_and_their_last_rows():
    times, mask = drawn(5, 6, seed=2)
    layout = layout_of(times, mask)
    assert layout.sequence.tolist() == [[i] * 6 for i in range(5)]
    ends = [max((j for j in range(6) if line[j]), default=None) for line in mask.tolist()]
    assert layout.last.tolist() == [-1 if j is None else i * 6 + j for i, j in enumerate(ends)]
    packed = layout_of(torch.arange(9)[None], None, PACKED)
    assert packed.sequence.tolist() == [[0, 0, 0, 2, 3, 3, 3, 3, 3]]
    assert packed.last.tolist() == [2, -1, 3, 8, -1]


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_carried_by_loops(strict):
    times, mask = drawn(6, 11, seed=1)
    layout = layout_of(times, mask, strict=strict)
    vectors = torch.randn(6, 11, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    vectors[~mask] = torch.nan
    first = torch.tensor([7.0, 8.0, 9.0], dtype=torch.float64)
    out, gap = layout.carried(vectors, first), layout.gap()
    for i in range(6):
        for j in torch.where(mask[i])[0].tolist():
            before = [k for k in range(j) if mask[i, k] and (not strict or times[i, k] < times[i, j])]
            if not before:
                assert_close(out[i, j], first)
                assert gap[i, j] == 0
                continue
            told = [k for k in before if times[i, k] == times[i, before[-1]]] if strict else before[-1:]
            assert_close(out[i, j], vectors[i, told].mean(0))
            assert gap[i, j] == times[i, j] - times[i, before[-1]]


def test_gaps_are_exact_and_never_wrap():
    layout = layout_of(torch.tensor([[-(2**62), 2**62 + 2**60, 2**62 + 2**60 + 1]]))
    assert layout.gap().tolist() == [[0.0, float(2**63 + 2**60), 1.0]]


def test_what_began_before_and_the_last_places():
    layout = layout_of(torch.tensor([[5, 6, 9], [5, 6, 9]]))
    later = layout.later(torch.tensor([0, 4]), torch.tensor([1, 2]))
    assert later.number.tolist() == [[0, 1, 2], [4, 5, 6]]
    assert later.origin.tolist() == [[5] * 3, [2] * 3]
    assert later.tail(2).number.tolist() == [[1, 2], [5, 6]]
    assert later.tail(2).times.tolist() == [[6, 9], [6, 9]]
    assert layout.tail(3) is layout
