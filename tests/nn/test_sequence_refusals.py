"""What ``SequenceEmbedding`` refuses, by the name of the argument."""

from __future__ import annotations

import pytest
import torch
from slow_sequence import HALF_HOUR, START, drawn, net_of, packed, padded, schema_of, sliced, some

from tabembed.nn import SequenceEmbedding


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "position must be one of rotary, .*, gru, got 'rotray'", {"position": "rotray"}),
        (ValueError, "clock must be one of time, index, got 'row'", {"clock": "row"}),
        (ValueError, "pooling must be one of None, last, mean, decay, got 'max'", {"pooling": "max"}),
        (ValueError, "d_model must be a multiple of 16, or even and below 32, got 33", {"d_model": 33}),
        (ValueError, "d_model must be a multiple of 16, or even and below 32, got 7", {"d_model": 7}),
        (ValueError, "d_model must be a multiple of 16, or even and below 32, got 40", {"d_model": 40}),
        (ValueError, "num_layers must be at least 1, got 0", {"num_layers": 0}),
        (ValueError, "dropout must be at least 0 and below 1, got 1", {"dropout": 1}),
        (TypeError, "causal must be True or False, got 'no'", {"causal": "no"}),
        (ValueError, "seed must be at least 0, got -1", {"seed": -1}),
        (TypeError, "embedding must be a dict of arguments, got list", {"embedding": []}),
        (ValueError, "embedding must name arguments embed_dims, .*, got 'seed'", {"embedding": {"seed": 1}}),
        (
            ValueError,
            r"embed_dims must name categorical or list columns \['city', .*\], got 'town'",
            {"embedding": {"embed_dims": {"town": 3}}},
        ),
        (
            ValueError,
            "causal must be True where columns are observed, got 'late', 'outcome': rows would see them",
            {"causal": False},
        ),
    ],
)
def test_arguments(error, message, arguments):
    with pytest.raises(error, match=message):
        SequenceEmbedding(schema_of(), **arguments)


def test_schemas():
    with pytest.raises(TypeError, match="schema must be the schema_ of a fitted SequenceEncoder, got TableS"):
        SequenceEmbedding(schema_of().rows)
    text = r"position='gru' must not be used where rows of one instant are kept apart \(ties='strict'\)"
    with pytest.raises(ValueError, match=text):
        SequenceEmbedding(schema_of(strict=True), "gru")
    for position in ("gru", "decay"):
        with pytest.raises(ValueError, match=f"causal must be True with position='{position}', which looks"):
            SequenceEmbedding(schema_of(observed=()), position, causal=False)


@pytest.mark.parametrize("position", ["rotary", "gru", None])
def test_times_that_fall_or_are_missing(position):
    net, (rows, _) = net_of(position), drawn(4)
    falling = torch.tensor([0, 5, 4, 9])
    with pytest.raises(ValueError, match="times must not fall within a sequence, got 4 after 5"):
        net(rows, falling)
    net(rows, falling, cu_seqlens=torch.tensor([0, 2, 4]))
    with pytest.raises(ValueError, match="times must not be missing, got -2"):
        net(rows, torch.tensor([0, 1, -(2**63), 4]))
    net_of(position, clock="index")(rows, falling)
    if position != "gru":
        with pytest.raises(ValueError, match="times must not fall"):
            net_of(position, clock="index", schema=schema_of(strict=True))(rows, falling)


def test_steps():
    net, batch = net_of(), padded(some(), "right")
    rows, times = batch["rows"], batch["times"]
    _, state = net.step(None, rows, times, mask=batch["mask"])
    early = sliced(batch, 0, 1)
    with pytest.raises(ValueError, match=f"times must not fall within a sequence, got {START}"):
        net.step(state, early["rows"], torch.full((4, 1), START), mask=early["mask"])
    with pytest.raises(ValueError, match="times must have 3 sequences, as the state has, got 4"):
        net.step(state.take(torch.tensor([0, 1, 2])), rows, times, mask=batch["mask"])
    with pytest.raises(TypeError, match="state must be what step gave, or None, got dict"):
        net.step({}, rows, times, mask=batch["mask"])
    with pytest.raises(ValueError, match=r"times must have shape \(n_batch, n_new\), got \(3,\)"):
        net.step(None, *drawn(3))


@pytest.mark.parametrize(
    ("error", "message", "change"),
    [
        (TypeError, "times must be integers, got torch.float32", {"times": torch.zeros(15)}),
        (
            ValueError,
            r"times must have shape \(n_rows,\), got \(1, 15\)",
            {"times": torch.zeros(1, 15).long()},
        ),
        (ValueError, "mask must be None with cu_seqlens", {"mask": torch.ones(15, dtype=torch.bool)}),
        (
            ValueError,
            r"mask must have the shape of times, \(15,\)",
            {"mask": torch.ones(3, dtype=torch.bool)},
        ),
        (TypeError, "mask must be bool, got torch.float32", {"mask": torch.ones(15)}),
        (TypeError, "cu_seqlens must be a tensor, got list", {"cu_seqlens": [0, 15]}),
        (TypeError, "cu_seqlens must be integers", {"cu_seqlens": torch.tensor([0.0, 15.0])}),
        (ValueError, r"cu_seqlens must have shape \(n_seq", {"cu_seqlens": torch.tensor([[0, 15]])}),
        (ValueError, "cu_seqlens must go from 0 to 15, got 0 to 9", {"cu_seqlens": torch.tensor([0, 9])}),
        (ValueError, "cu_seqlens must not fall, got 3 after 7", {"cu_seqlens": torch.tensor([0, 7, 3, 15])}),
        (TypeError, "rows must be a dict of tensors, as TableBatch.tensors", {"rows": torch.zeros(15, 2)}),
        (ValueError, "rows must have ids, got values", {"rows": {"values": torch.zeros(15, 2)}}),
    ],
)
def test_tensors(error, message, change):
    with pytest.raises(error, match=message):
        net_of()(**{**packed(some()), **change})


def test_tensors_of_rows():
    net, batch = net_of(), packed(some())
    rows = batch.pop("rows")
    with pytest.raises(ValueError, match=r"rows\['ids'\] must have shape \(15, 2\), got \(14, 2\)"):
        net({**rows, "ids": rows["ids"][1:]}, **batch)
    with pytest.raises(TypeError, match=r"rows\['values'\] must be a tensor, got list"):
        net({**rows, "values": []}, **batch)
    with pytest.raises(ValueError, match=r"rows\['lists'\]\['tags'\] must have 15 cells, got 2"):
        net({**rows, "lists": {"tags": rows["lists"]["tags"].take(torch.tensor([0, 1]))}}, **batch)
    with pytest.raises(ValueError, match="column 'tags': lists must be given, got None"):
        net({name: x for name, x in rows.items() if name != "lists"}, **batch)
    with pytest.raises(ValueError, match="rows must have times, got"):
        net({name: x for name, x in rows.items() if name != "times"}, **batch)
    bad = rows["ids"].clone()
    bad[3, 0] = 99
    with pytest.raises(ValueError, match="column 'city': ids must be from 0 to 6, got 99"):
        net({**rows, "ids": bad}, **batch)
    both = padded(some(), "left")
    with pytest.raises(ValueError, match=r"rows\['ids'\] must have shape \(4, 11, 2\), got \(15, 2\)"):
        net({**both["rows"], "ids": rows["ids"]}, both["times"] * 0 + HALF_HOUR, mask=both["mask"])
