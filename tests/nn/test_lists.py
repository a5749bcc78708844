from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tabembed.batch import Ragged
from tabembed.nn import ListEmbedding


def cells_of(*lists):
    """None is a missing cell."""
    length = [len(values or []) for values in lists]
    return Ragged(
        torch.tensor([i for values in lists for i in values or []], dtype=torch.int64),
        torch.tensor([0, *length]).cumsum(0),
        torch.tensor([values is None for values in lists], dtype=torch.bool),
    )


def test_missing_empty_gap_and_padding_are_four_things():
    embedding = ListEmbedding(6, 3, init_std=1.0)
    w = embedding.values.weight
    output = embedding(cells_of([3, 4], None, [], [1, 3], [0, 5, 0], [0]))
    zeros = torch.zeros(3)
    expected = [(w[3] + w[4]) / 2, w[1], zeros, (w[1] + w[3]) / 2, w[5], zeros]
    assert_close(output, torch.stack(expected))


def test_gradients():
    embedding = ListEmbedding(6, 2)
    embedding(cells_of([3, 4, 0], None, [], [5, 5, 3])).sum().backward()
    expected = torch.tensor([0, 1, 0, 1 / 2 + 1 / 3, 1 / 2, 2 / 3])
    assert_close(embedding.values.weight.grad, expected.unsqueeze(-1).expand(6, 2))


def test_equals_embedding_bag():
    embedding = ListEmbedding(50, 7, init_std=1.0)
    generator = torch.Generator().manual_seed(0)
    length = torch.randint(5, (200,), generator=generator)
    offsets = torch.cat((torch.zeros(1, dtype=torch.int64), length.cumsum(0)))
    ids = torch.randint(50, (int(offsets[-1]),), generator=generator)
    output = embedding(Ragged(ids, offsets, torch.zeros(200, dtype=torch.bool)))
    weight = embedding.values.weight
    bag = nn.functional.embedding_bag(
        ids, weight, offsets, mode="mean", include_last_offset=True, padding_idx=0
    )
    assert_close(output, bag)


def test_long_lists_are_summed_wide():
    embedding = ListEmbedding(4, 2).bfloat16()
    with torch.no_grad():
        embedding.values.weight[3] = 1.0
    assert_close(embedding(cells_of([3] * 1000)), torch.ones(1, 2, dtype=torch.bfloat16), rtol=0, atol=0)


def test_padding_row_never_leaks():
    embedding = ListEmbedding(5, 2)
    with torch.no_grad():
        embedding.values.weight[0] = float("nan")
    output = embedding(cells_of([3, 0], [], None))
    output.sum().backward()
    assert output.isfinite().all()
    assert embedding.values.weight.grad.isfinite().all()


def test_dropout_is_for_training_alone():
    embedding = ListEmbedding(5, 1000, dropout=0.25, init_std=1.0)
    assert (embedding(cells_of([3])) == 0).double().mean().item() == pytest.approx(0.25, abs=0.08)
    assert embedding.eval()(cells_of([3])).all()


@pytest.mark.parametrize(("name", "column"), [(None, "0"), ("tags", "'tags'")])
def test_id_out_of_range_names_its_column(name, column):
    with pytest.raises(ValueError, match=f"column {column}: ids must be from 0 to 4, got 5"):
        ListEmbedding(5, name=name)(cells_of([3], [4, 5]))


def test_id_out_of_range_counts_as_absent_when_compiled():
    embedding = ListEmbedding(5, 2, init_std=1.0)
    torch.compiler.reset()
    compiled = torch.compile(embedding, fullgraph=True, backend="aot_eager")
    assert_close(compiled(cells_of([3, 5], [-1])), torch.stack((embedding.values.weight[3], torch.zeros(2))))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"num_categories": 2}, "num_categories must be at least 3, got 2"),
        ({"embed_dim": 0}, "embed_dim must be at least 1, got 0"),
        ({"dropout": 2}, "dropout must be at least 0 and below 1, got 2"),
        ({"init_std": -1}, "init_std must be finite and at least 0, got -1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        ListEmbedding(**{"num_categories": 5, **arguments})
