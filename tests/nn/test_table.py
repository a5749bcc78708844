from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import reference
import rtdl_num_embeddings
import torch
from contracts.case import SCHEMA, TAGS, some_cells, some_ids, some_numbers, some_times
from torch import nn
from torch.testing import assert_close

from tabembed.batch import TableBatch
from tabembed.nn import (
    CyclicEmbedding,
    GaussianFourierProjection,
    LearnedFourierFeatures,
    LinearEmbedding,
    PeriodicEmbedding,
    PiecewiseLinearEmbedding,
    RandomFourierFeatures,
    TableEmbedding,
    TimeEmbedding,
    TimestampEmbedding,
    UnknownDropout,
)
from tabembed.schema import MISSING, UNKNOWN, CategoricalColumn, TableSchema
from tabembed.table import TableEncoder


def batch_of(schema, rows=9):
    leading = (rows,)
    ids = [some_ids(leading, column.n_ids) for column in schema.categorical]
    values, missing = some_numbers(leading, len(schema.continuous))
    return TableBatch(
        torch.cat(ids, -1) if ids else torch.zeros(rows, 0, dtype=torch.int64),
        values.nan_to_num(),
        missing,
        some_times(leading, len(schema.datetime)),
        {column.name: some_cells(rows) for column in schema.lists},
    )


def schema_of(*known):
    columns = [CategoricalColumn(f"c{n}", (0, 0, 0, *[1] * n)) for n in known]
    return TableSchema(9, tuple(columns))


@pytest.mark.parametrize("schema", [SCHEMA, TAGS], ids=["flat", "lists"])
def test_takes_the_tensors_of_a_batch_and_keeps_the_order_of_the_schema(schema):
    net = TableEmbedding(schema)
    tensors = batch_of(schema).tensors()
    vectors = net.by_column(**tensors)
    assert list(vectors) == list(net.embedding_dims()) == [column.name for column in schema.columns]
    assert {name: vector.shape[-1] for name, vector in vectors.items()} == net.embedding_dims()
    output = net(**tensors)
    assert output.shape == (9, net.output_dim)
    assert_close(output, torch.cat(list(vectors.values()), -1), rtol=0, atol=0)


def test_automatic_widths_count_known_values():
    known = (1, 2, 3, 5, 100, 3000)
    dims = TableEmbedding(schema_of(*known)).embedding_dims()
    assert dims == {f"c{n}": reference.known_size(n) for n in known}
    assert dims["c5"] == 4


def test_widths_by_number_and_by_name():
    assert TableEmbedding(TAGS, embed_dims=5).embedding_dims() == {
        "delay": 8,
        "city": 5,
        "tags": 5,
        "departure": 8,
    }
    named = TableEmbedding(TAGS, embed_dims={"tags": 7}).embedding_dims()
    assert (named["tags"], named["city"]) == (7, 3)


@pytest.mark.parametrize("kind", ["categorical", "continuous", "datetime", "lists"])
@pytest.mark.parametrize("alone", [True, False])
def test_kinds_alone_and_absent(kind, alone):
    names = {column.name for column in getattr(TAGS, kind)}
    columns = tuple(column for column in TAGS.columns if (column.name in names) == alone)
    schema = TableSchema(9, columns)
    net, batch = TableEmbedding(schema), batch_of(schema)
    assert net(**batch.tensors()).shape == (9, net.output_dim)
    assert list(net.by_column(**batch.tensors())) == [column.name for column in columns]


def test_weight_is_the_table_of_a_column():
    net = TableEmbedding(TAGS)
    assert net.weight("city").shape == (7, 3)
    assert net.weight("tags").shape == (6, 2)
    assert net.weight("city") is net.categorical.weights[0]
    with pytest.raises(
        ValueError, match="column 'delay': must be categorical or a list, got ContinuousColumn"
    ):
        net.weight("delay")
    with pytest.raises(ValueError, match="column 'nowhere': not in the schema"):
        net.weight("nowhere")


def test_padding_is_zero_and_missing_is_trained():
    """Case H07 for a whole table."""
    net = TableEmbedding(schema_of(4))
    nn.init.normal_(net.weight("c4"), 0, 0.1)
    ids = torch.tensor([[1], [3], [4], [5], [1], [0]])
    nothing = (torch.zeros(6, 0), torch.zeros(6, 0, dtype=torch.bool))
    assert net.weight("c4").shape[0] == 7
    optimizer = torch.optim.AdamW(net.param_groups(0.1, 0.1, table_weight_decay=0.5))
    net(ids, *nothing).sum().backward()
    assert net.weight("c4").grad[MISSING].all()
    optimizer.step()
    other = TableEmbedding(schema_of(4))
    other.load_state_dict(net.state_dict(), strict=True)
    for module in (net, other):
        output = module(ids, *nothing)
        assert not output[5].any()
        assert output[:5].all()


def test_a_fit_with_gaps_has_a_row_for_every_id():
    """Case H07 from the frame on: a table counted without the gap would be one row short."""
    values = [None, "a", "b", "c", None]
    encoder = TableEncoder().fit({"x": values})
    batch = encoder.transform({"x": [*values, "never seen"]})
    net = TableEmbedding(encoder.schema_)
    assert batch.ids[:, 0].tolist() == [MISSING, 3, 4, 5, MISSING, UNKNOWN]
    assert net.weight("x").shape[0] == 6 == encoder.schema_["x"].n_ids
    nn.init.normal_(net.weight("x"), 0, 0.1)
    assert_close(net(**batch.tensors()), net.weight("x")[batch.ids[:, 0]], rtol=0, atol=0)


def test_unknown_dropout_trains_the_unknown_row_and_rests_outside_training():
    net = TableEmbedding(TAGS, unknown_dropout=0.5)
    batch = batch_of(TAGS, 200)
    known = replace(batch, ids=batch.ids.clamp(min=3)).tensors()
    known["lists"]["tags"] = known["lists"]["tags"]._replace(ids=known["lists"]["tags"].ids.clamp(min=3))
    net.eval()(**known).sum().backward()
    assert not net.weight("city").grad[UNKNOWN].any()
    assert not net.weight("tags").grad[UNKNOWN].any()
    net.train()(**known).sum().backward()
    assert net.weight("city").grad[UNKNOWN].all()
    assert net.weight("tags").grad[UNKNOWN].all()


def test_unknown_dropout_can_draw_from_its_own_generator():
    net = TableEmbedding(SCHEMA, unknown_dropout=0.5)
    for module in net.modules():
        if isinstance(module, UnknownDropout):
            module.generator = torch.Generator().manual_seed(0)
    state, tensors = torch.get_rng_state(), batch_of(SCHEMA, 50).tensors()
    assert not torch.equal(net(**tensors), net(**tensors))
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_reaches_categories_and_lists_alone():
    net = TableEmbedding(TAGS, embed_dims=400, dropout=0.5, seed=0)
    tensors = batch_of(TAGS).tensors()
    trained, rested = net.by_column(**tensors), net.eval().by_column(**tensors)
    for name, vector in rested.items():
        lost = ((trained[name] == 0) & (vector != 0)).sum() / (vector != 0).sum()
        expected = 0.5 if name in ("city", "tags") else 0.0
        assert lost.item() == pytest.approx(expected, abs=0.1)


def test_numeric_modules_plug_in():
    seen = []

    def numeric(columns):
        seen.append(columns)
        return LinearEmbedding.from_columns(columns, 3, seed=7)

    net = TableEmbedding(SCHEMA, numeric=numeric)
    assert seen == [SCHEMA.continuous]
    assert net.embedding_dims()["delay"] == 3
    assert_close(net.numeric.weight, LinearEmbedding(2, 3, seed=7).weight, rtol=0, atol=0)
    assert net(**batch_of(SCHEMA).tensors()).shape == (9, net.output_dim)


NUMERIC = [
    LinearEmbedding,
    PeriodicEmbedding,
    PiecewiseLinearEmbedding,
    GaussianFourierProjection,
    LearnedFourierFeatures,
    RandomFourierFeatures,
]
TIME = [TimeEmbedding, CyclicEmbedding, TimestampEmbedding]


def same_weights(one, two):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


@pytest.mark.parametrize(
    ("argument", "kind"), [*(("numeric", k) for k in NUMERIC), *(("time", k) for k in TIME)]
)
def test_a_class_its_maker_and_a_partial_are_the_same_and_follow_the_seed(argument, kind):
    name = "departure" if argument == "time" else "delay"
    nets = {}
    for how, maker in (
        ("class", kind),
        ("maker", kind.from_columns),
        ("partial", partial(kind.from_columns)),
    ):
        net = nets[how] = TableEmbedding(SCHEMA, **{argument: maker}, seed=5)
        assert net(**batch_of(SCHEMA).tensors()).shape == (9, net.output_dim)
        assert same_weights(net, nets["class"])
        other = TableEmbedding(SCHEMA, **{argument: maker}, seed=6)
        assert not same_weights(getattr(net, argument), getattr(other, argument))
    columns = SCHEMA.datetime if argument == "time" else SCHEMA.continuous
    own = TableEmbedding(SCHEMA, **{argument: partial(kind.from_columns, seed=7)}, seed=5)
    assert same_weights(getattr(own, argument), kind.from_columns(columns, seed=7))
    assert own.embedding_dims()[name] == kind.from_columns(columns).d_embedding


@pytest.mark.parametrize("kind", NUMERIC)
def test_a_module_of_numbers_refuses_times(kind):
    with pytest.raises(TypeError, match="columns must be ContinuousColumn, got DatetimeColumn"):
        TableEmbedding(SCHEMA, time=kind)


@pytest.mark.parametrize("kind", TIME)
def test_a_module_of_times_refuses_numbers(kind):
    with pytest.raises(TypeError, match="columns must be DatetimeColumn, got ContinuousColumn"):
        TableEmbedding(SCHEMA, numeric=kind)


@pytest.mark.parametrize("argument", ["numeric", "time"])
@pytest.mark.parametrize(
    ("maker", "got"),
    [(nn.Linear, "Linear"), ("linear", "'linear'"), (nn.Identity(), r"Identity\(\)"), (0, "0")],
)
def test_what_cannot_make_a_module(argument, maker, got):
    text = f"{argument} must be a function of columns, or a class with from_columns, got {got}"
    with pytest.raises(TypeError, match=text):
        TableEmbedding(SCHEMA, **{argument: maker})


def test_a_partial_of_a_class_is_one_of_its_from_columns():
    net = TableEmbedding(SCHEMA, numeric=partial(PeriodicEmbedding, variant="pbld"), seed=0)
    same = TableEmbedding(SCHEMA, numeric=partial(PeriodicEmbedding.from_columns, variant="pbld"), seed=0)
    assert net.numeric.variant == "pbld"
    assert same_weights(net, same)


@pytest.mark.parametrize("kind", [PeriodicEmbedding, PeriodicEmbedding.from_columns])
def test_a_keyword_that_a_maker_does_not_take(kind):
    text = (
        "numeric must be made with arguments of PeriodicEmbedding.from_columns, d_embedding, variant, "
        "n_frequencies, frequency_scale, seed; got varaint"
    )
    with pytest.raises(TypeError, match=text):
        TableEmbedding(SCHEMA, numeric=partial(kind, varaint="plr"))


def test_an_encoder_is_no_schema():
    with pytest.raises(TypeError, match="schema must be the schema_ of a fitted TableEncoder, got str"):
        TableEmbedding("encoder")


def test_numeric_is_not_asked_without_continuous_columns():
    TableEmbedding(schema_of(3), numeric=lambda columns: pytest.fail("asked for no columns"))


def test_parts_draw_from_different_seeds():
    net = TableEmbedding(TAGS, embed_dims=3, seed=0)
    weights = [net.weight("city")[1:6], net.weight("tags")[1:6]]
    assert not torch.equal(*weights)
    assert not torch.equal(net.numeric.weight, net.time.linear.weight)


def test_param_groups_decay_matrices_of_numbers_alone():
    net = TableEmbedding(TAGS)
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    groups = net.param_groups(1e-2, 1e-3)
    assert {g["lr"] for g in groups} == {1e-2}
    decay = {names[id(p)]: g["weight_decay"] for g in groups for p in g["params"]}
    assert decay == {
        name: 1e-3 if name in ("numeric.weight", "time.linear.weight") else 0.0 for name in names.values()
    }
    assert sum(len(g["params"]) for g in groups) == len(names)


def test_param_groups_of_tables_when_asked():
    net = TableEmbedding(TAGS)
    decay = {
        id(p): g["weight_decay"]
        for g in net.param_groups(1e-2, 1e-3, table_weight_decay=1e-4)
        for p in g["params"]
    }
    assert decay[id(net.weight("city"))] == decay[id(net.weight("tags"))] == 1e-4
    assert decay[id(net.numeric.weight)] == 1e-3
    assert decay[id(net.numeric.bias)] == 0
    for text, arguments in {
        "learning_rate must be finite and at least 0, got -1": (-1, 0),
        "weight_decay must be finite and at least 0, got inf": (1, float("inf")),
    }.items():
        with pytest.raises(ValueError, match=text):
            net.param_groups(*arguments)
    with pytest.raises(ValueError, match="table_weight_decay must be finite and at least 0, got -1"):
        net.param_groups(1, 1, table_weight_decay=-1)


def test_numbers_are_those_of_rtdl():
    net = TableEmbedding(SCHEMA)
    theirs = rtdl_num_embeddings.LinearEmbeddings(2, 8)
    net.numeric.load_state_dict({**theirs.state_dict(), "missing": torch.zeros(2, 8)})
    tensors = batch_of(SCHEMA).tensors()
    tensors["missing"] = torch.zeros_like(tensors["missing"])
    columns = net.by_column(**tensors)
    assert_close(torch.stack((columns["delay"], columns["distance"]), -2), theirs(tensors["values"]))


def test_learns():
    """Two columns whose sum is the target: a linear head on the vectors finds it."""
    schema = schema_of(5, 6)
    net, head = TableEmbedding(schema, seed=0), nn.LazyLinear(1)
    ids = some_ids((500,), 5, 6) + 3
    target = (ids.double().sum(-1, keepdim=True) - 10).float()
    nothing = (torch.zeros(500, 0), torch.zeros(500, 0, dtype=torch.bool))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        head(net(ids, *nothing))
    optimizer = torch.optim.AdamW([*net.param_groups(0.05, 0.01), {"params": head.parameters(), "lr": 0.05}])
    for _ in range(150):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(head(net(ids, *nothing)), target)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01 * target.var().item()


def test_id_out_of_range_names_the_column():
    batch = batch_of(TAGS)
    with pytest.raises(ValueError, match="column 'city': ids must be from 0 to 6, got 7"):
        TableEmbedding(TAGS)(**replace(batch, ids=batch.ids + 7 - batch.ids.max()).tensors())
    tensors = batch.tensors()
    tensors["lists"]["tags"] = tensors["lists"]["tags"]._replace(ids=tensors["lists"]["tags"].ids - 9)
    with pytest.raises(ValueError, match="column 'tags': ids must be from 0 to 5, got -"):
        TableEmbedding(TAGS)(**tensors)


@pytest.mark.parametrize(("argument", "column"), [("times", "departure"), ("lists", "tags")])
def test_tensors_that_a_column_needs(argument, column):
    tensors = batch_of(TAGS).tensors()
    del tensors[argument]
    with pytest.raises(ValueError, match=f"column '{column}': {argument} must be given, got None"):
        TableEmbedding(TAGS)(**tensors)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"schema": TableSchema(0, ())}, ValueError, "n_columns must be at least 1, got 0"),
        ({"embed_dims": 0}, ValueError, r"embed_dims\['city'\] must be at least 1, got 0"),
        ({"embed_dims": {"city": 2.5}}, TypeError, r"embed_dims\['city'\] must be an integer, got 2.5"),
        (
            {"embed_dims": {"delay": 3}},
            ValueError,
            r"must name categorical or list columns \['city', 'tags'\], got 'delay'",
        ),
        (
            {"embed_dims": "wide"},
            ValueError,
            "embed_dims must be 'auto', a number or widths by name, got 'wide'",
        ),
        ({"dropout": 1}, ValueError, "dropout must be at least 0 and below 1, got 1"),
        ({"unknown_dropout": -0.5}, ValueError, "unknown_dropout must be at least 0 and below 1, got -0.5"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        TableEmbedding(**{"schema": TAGS, **arguments})
