from __future__ import annotations

import pytest
import torch
import torchembed
from torch.testing import assert_close

from tabembed.kernels import use_backend
from tabembed.nn import EntityEmbedding, MultiCategoricalEmbedding

CARDINALITIES = [5, 3, 40, 5, 12]


def some_ids(*leading, cardinalities=CARDINALITIES):
    generator = torch.Generator().manual_seed(0)
    return torch.stack([torch.randint(n, leading, generator=generator) for n in cardinalities], dim=-1)


@pytest.mark.parametrize("padding_idx", [None, 1])
@pytest.mark.parametrize("embed_dims", [None, [4, 2, 4, 1, 7]])
def test_equals_torchembed(padding_idx, embed_dims):
    theirs = torchembed.MultiCategoricalEmbedding(CARDINALITIES, embed_dims, padding_idx=padding_idx)
    with torch.no_grad():
        for embedding in theirs.embeddings:
            embedding.embedding.weight.normal_(generator=torch.Generator().manual_seed(1))
            if padding_idx is not None:
                embedding.embedding.weight[padding_idx] = 0
    ours = MultiCategoricalEmbedding(CARDINALITIES, embed_dims, padding_idx=padding_idx)
    ours.load_state_dict({f"weights.{j}": e.embedding.weight for j, e in enumerate(theirs.embeddings)})
    ids = some_ids(64)
    assert ours.output_dim == theirs.output_dim
    assert ours.embedding_dims() == theirs.embedding_dims()
    assert_close(ours(ids), theirs(ids), rtol=0, atol=0)
    ours(ids).sin().sum().backward()
    theirs(ids).sin().sum().backward()
    for weight, embedding in zip(ours.weights, theirs.embeddings, strict=True):
        assert_close(weight.grad, embedding.embedding.weight.grad)


def test_columns_are_the_parts_of_the_output():
    embedding = MultiCategoricalEmbedding(CARDINALITIES, init_std=1.0)
    ids = some_ids(2, 7)
    columns = embedding.columns(ids)
    assert [column.shape[-1] for column in columns] == [d for _, d in embedding.embedding_dims()]
    assert_close(torch.cat(columns, -1), embedding(ids), rtol=0, atol=0)
    assert_close(columns[2], embedding.weight(2)[ids[..., 2]], rtol=0, atol=0)


def test_weight_is_the_table_and_takes_gradient():
    embedding = MultiCategoricalEmbedding([4, 6], [2, 3])
    assert [tuple(embedding.weight(j).shape) for j in (0, 1)] == [(4, 2), (6, 3)]
    embedding.weight(1).sum().backward()
    assert embedding.weights[0].grad is None
    assert embedding.weights[1].grad.all()


def test_one_column_starts_as_an_entity_embedding_of_the_same_seed():
    one = EntityEmbedding(9, seed=4).weight
    assert_close(MultiCategoricalEmbedding([9, 9], seed=4).weight(0), one, rtol=0, atol=0)
    assert not torch.equal(MultiCategoricalEmbedding([9, 9], seed=4).weight(1), one)


@pytest.mark.parametrize("names", [None, ["city", "plane"]])
def test_id_out_of_range_names_its_column(names):
    embedding = MultiCategoricalEmbedding([5, 3], names=names)
    column = "1" if names is None else "'plane'"
    with pytest.raises(ValueError, match=f"column {column}: ids must be from 0 to 2, got 3"):
        embedding(torch.tensor([[[4, 2]], [[0, 3]]]))
    with pytest.raises(ValueError, match=f"column {column}: ids must be from 0 to 2, got -1"):
        embedding(torch.tensor([4, -1]))


@pytest.mark.parametrize("way", ["compile", "export", "vmap"])
def test_id_out_of_range_gives_zeros_where_it_cannot_be_seen(way):
    embedding = MultiCategoricalEmbedding([5, 3], [2, 2], init_std=1.0)
    bad = torch.tensor([[5, 0], [-1, 3], [4, 2]])
    if way == "compile":
        torch.compiler.reset()
        function = torch.compile(embedding, fullgraph=True, backend="aot_eager")
    elif way == "export":
        function = torch.export.export(embedding, (torch.zeros_like(bad),)).module()
    else:
        function = torch.func.vmap(embedding)
    first, second = embedding.weights
    zeros = torch.zeros(2)
    rows = [(zeros, second[0]), (zeros, zeros), (first[4], second[2])]
    assert_close(function(bad), torch.stack([torch.cat(row) for row in rows]), rtol=0, atol=0)


def test_padding_rows_through_custom_init_and_decaying_step():
    embedding = MultiCategoricalEmbedding([4, 6], [2, 3], padding_idx=0)
    assert not any(weight[0].any() for weight in embedding.weights)
    for weight in embedding.weights:
        torch.nn.init.normal_(weight, 0, 0.1)
    ids = torch.tensor([[0, 1], [3, 0]])
    optimizer = torch.optim.AdamW(embedding.parameters(), lr=0.1, weight_decay=0.5)
    embedding(ids).sum().backward()
    assert not any(weight.grad[0].any() for weight in embedding.weights)
    optimizer.step()
    assert not embedding(ids)[0, :2].any()
    assert not embedding(ids)[1, 2:].any()
    assert embedding(ids)[0, 2:].all()
    assert embedding(ids)[1, :2].all()


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("rows", [[[0, 1], [3, 2]], [[0, 0], [0, 0]], [[1, 1], [3, 5]]])
def test_padding_is_zero_where_it_stands_and_whatever_its_row_holds(rows, backend):
    embedding = MultiCategoricalEmbedding([4, 6], [2, 3], padding_idx=0, init_std=1.0)
    with torch.no_grad():
        for weight in embedding.weights:
            weight[0] = torch.nan
    ids = torch.tensor(rows)
    with use_backend(backend):
        output, columns = embedding(ids), embedding.columns(ids)
    for j, column in enumerate(columns):
        known = ids[:, j] != 0
        assert_close(column[known], embedding.weight(j)[ids[:, j]][known], rtol=0, atol=0)
        assert not column[~known].any()
    assert_close(output, torch.cat(columns, -1), rtol=0, atol=0)
    output.sum().backward()
    for j, weight in enumerate(embedding.weights):
        assert torch.equal(weight.grad[1:, 0], torch.bincount(ids[:, j], minlength=len(weight))[1:].float())
        assert not weight.grad[0].any()


def test_dropout_is_for_training_alone():
    embedding = MultiCategoricalEmbedding([4, 4], [500, 500], dropout=0.25, init_std=1.0)
    ids = torch.tensor([[1, 2]])
    assert (embedding(ids) == 0).double().mean().item() == pytest.approx(0.25, abs=0.06)
    assert embedding.eval()(ids).all()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"cardinalities": []}, ValueError, "n_columns must be at least 1, got 0"),
        ({"cardinalities": [5, 0]}, ValueError, r"cardinalities\[1\] must be at least 1, got 0"),
        ({"cardinalities": [5, "a"]}, TypeError, r"cardinalities\[1\] must be an integer, got 'a'"),
        ({"embed_dims": [2, 0]}, ValueError, r"embed_dims\[1\] must be at least 1, got 0"),
        ({"embed_dims": [2]}, ValueError, "embed_dims must have 2 entries, one for each column, got 1"),
        ({"names": ["a"]}, ValueError, "names must have 2 entries, one for each column, got 1"),
        ({"padding_idx": 3}, ValueError, "padding_idx must be below 3, got 3"),
        ({"init_std": -1}, ValueError, "init_std must be finite and at least 0, got -1"),
        ({"dropout": -0.1}, ValueError, "dropout must be at least 0 and below 1, got -0.1"),
        ({"seed": 1.5}, TypeError, "seed must be an integer, got 1.5"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        MultiCategoricalEmbedding(**{"cardinalities": [5, 3], **arguments})


def test_bad_ids():
    embedding = MultiCategoricalEmbedding([5, 3])
    with pytest.raises(ValueError, match=r"ids must have 2 as its last dimension, got shape \(4, 3\)"):
        embedding(torch.zeros(4, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"ids must have 2 as its last dimension, got shape \(\)"):
        embedding(torch.tensor(1))
    with pytest.raises(TypeError, match="ids must be integers, got torch.float32"):
        embedding(torch.zeros(4, 2))
