"""Model folders that somebody hostile wrote: each loads and can be used, or raises the one error."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from special_files import listen

import tabembed
from tabembed import ArtifactError
from tabembed.artifact.plain_json import Allowance, parse

BENCHMARKS = str(Path(__file__).parents[2] / "examples" / "benchmarks")
sys.path.insert(0, BENCHMARKS)

import hostile  # noqa: E402
import mutations  # noqa: E402
from mutations import CONFIG, MODEL, Model, arrays_file, lay_out, set_at, signed  # noqa: E402

sys.path.remove(BENCHMARKS)  # a script there is called as a folder of tests


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hostile.save_models(folder)
    return hostile.read_models(folder)


@pytest.fixture(scope="module")
def by_name(models):
    return {model.name: model for model in models}


def copied(model):
    content = json.loads(json.dumps(model.content))
    return Model(model.name, content, dict(model.arrays), model.raw)


@pytest.fixture
def refused(by_name, tmp_path):
    """Change a model as a forger would, hashes and all, and give the words that refuse it."""

    def words(name, change, files=None):
        model = copied(by_name[name])
        change(model)
        lay_out((files or Model.files)(model), tmp_path / "forged")
        start = time.process_time()
        with pytest.raises(ArtifactError) as caught:
            tabembed.load(tmp_path / "forged")
        assert time.process_time() - start < 1
        assert str(tmp_path / "forged") in str(caught.value)
        return str(caught.value)

    return words


def config(*path, to):
    return lambda model: set_at(model.content["config"], path, to)


def run(models, seed, count, folder):
    frame, loaded = hostile.table(), 0
    for number in range(count):
        model, what, files = mutations.mutation(models, seed, number)
        place = folder / str(number)
        lay_out(files, place)
        outcome, found = hostile.load(place)
        assert outcome in ("loaded", "refused"), (number, model.name, what, found)
        if outcome == "loaded":
            loaded += 1
            assert hostile.use(found, frame) == "", (number, model.name, what)
    return loaded


@pytest.mark.filterwarnings("ignore")
def test_a_few_hundred_mutations(models, tmp_path):
    assert 0 < run(models, 11, 80, tmp_path) < 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_few_thousand_mutations(models, tmp_path):
    assert 0 < run(models, 12, 2500, tmp_path) < 1500


def test_what_is_forged_without_a_change_loads(models, tmp_path):
    for model in models:
        lay_out(copied(model).files(), tmp_path / model.name)
        assert hostile.load(tmp_path / model.name)[0] == "loaded", model.name


def test_a_mutation_follows_from_its_number(models):
    for number in range(24):
        one, other = (mutations.mutation(models, 3, number) for _ in range(2))
        assert one[:2] == other[:2]
        assert {n: c for n, c in one[2].items() if isinstance(c, bytes)} == {
            n: c for n, c in other[2].items() if isinstance(c, bytes)
        }


# What the mutations have found, one test each.


def test_a_width_of_the_config_allocates_nothing(refused):
    assert "size mismatch" in refused(
        "embedder", config("built", "embedding", "embed_dims", "tags", to=2**40)
    )


@pytest.mark.parametrize("size", [2**20, 2**31, 2**40])
def test_a_hidden_layer_of_the_config_allocates_nothing(refused, size):
    assert "TableEmbedder" in refused("embedder", config("built", "hidden_layer_sizes", 0, to=size))


def test_many_layers_of_the_config_are_not_built(refused):
    assert "num_layers" in refused("rotary", config("built", "sequence", "num_layers", to=10**6))


def test_many_hidden_layers_of_the_config_are_not_built(refused):
    assert "num_layers" in refused("embedder", config("built", "hidden_layer_sizes", to=[1] * 100_000))


@pytest.mark.parametrize(
    "gaps", ["Categorical", [0.0, "a"], [[0.5, "a"]] * 100, [2.0, 1.0], [-1.0], [10**400]]
)
def test_gaps_are_rising_numbers(refused, gaps):
    assert "gaps must" in refused("rotary", config("encoder", "gaps", to=gaps))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("n_values", "a", "n_values must be a whole number"),
        ("n_missing", -1, "n_missing must be a whole number"),
        ("n_missing", True, "n_missing must be a whole number"),
        ("mean", {}, "mean must be finite numbers"),
        ("centre", 10**400, "centre must be finite numbers"),
        ("std", -1.0, "its std must be at least 0"),
        ("scale", 0.0, "scale"),
        ("minimum", 1e9, "its range must rise"),
    ],
)
def test_statistics_of_numbers(refused, by_name, name, value, text):
    columns = by_name["table"].content["config"]["columns"]
    place = next(i for i, column in enumerate(columns) if column["name"] == "km")
    words = refused("table", config("columns", place, "config", name, to=value))
    assert text in words or "counts must be of its points" in words


@pytest.mark.parametrize("zone", ["../../etc/passwd", "/etc/passwd", "a" * 100, 3, "Europe/\x00"])
def test_zones_are_names(refused, by_name, zone):
    columns = by_name["table"].content["config"]["columns"]
    place = next(i for i, column in enumerate(columns) if column["name"] == "when")
    assert "its timezone must" in refused("table", config("columns", place, "config", "timezone", to=zone))


@pytest.mark.parametrize("order", [[3, 3], [2], [99], ["a"], [True], "34"])
def test_an_order_is_one_of_known_ids(refused, order):
    assert "its order must" in refused("table", config("columns", 2, "config", "ordered", to=order))


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        (("n_rows",), -1, "n_rows must be a whole number"),
        (("names", 0), 3, "names must be names"),
        (("names",), ["city", "city"], "names must be named once"),
        (("columns", 0, "name"), {"a": 1}, "columns must be names"),
        (("columns", 1, "name"), "when", "columns must be named once"),
        (("names",), [], "columns must be of its names, got 'age'"),
        (("columns", 1, "name"), "town", "columns must be of its names, got 'town'"),
    ],
)
def test_names_and_rows_of_a_table(refused, place, value, text):
    assert text in refused("table", config(*place, to=value))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda a: a.update({"1.offsets": a["1.offsets"][::-1].copy()}), "damaged"),
        (lambda a: a.update({"1.offsets": a["1.offsets"].astype("int8")}), "offsets must be int64"),
        (lambda a: a.update({"1.bytes": np.full_like(a["1.bytes"], 255)}), "damaged"),
        (lambda a: a.update({"3.values": a["3.values"] * 0}), "twice"),
        (lambda a: a.update({"3.values": a["3.values"].astype("int16")}), "must be int64"),
        (lambda a: a.update({"1.counts": -a["1.counts"]}), "its counts must be a whole number"),
        (lambda a: a.update({"1.counts": a["1.counts"] / 1.0}), "its counts must be a whole number"),
        (lambda a: a.update({"4.values": np.array([0, 7], "uint8")}), "'4.values' must hold"),
        (lambda a: a.update({"more": a["1.counts"]}), "'more' must be one of its columns' own"),
        (lambda a: a.update({"1.more": a["1.counts"]}), "'1.more' must be one of its columns' own"),
    ],
)  # fmt: skip
def test_arrays_of_columns(refused, change, text):
    assert text in refused("table", lambda model: change(model.arrays))


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_weights_are_of_the_dtype_of_the_network(refused, dtype):
    def change(model):
        name = "network.head.bias"
        model.arrays[name] = model.arrays[name].astype(dtype)

    assert "'head.bias' must be float32" in refused("embedder", change)


def test_arrays_of_nobody_are_refused(refused):
    assert "'more' must be the encoder's or the network's" in refused(
        "embedder", lambda model: model.arrays.update(more=np.zeros(3))
    )


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("classes",), {"a": 1}),
        (("classes", 0), 3),
        (("fitted", "n_iter_"), "a"),
        (("fitted", "target_type_"), None),
        (("fitted", "validation_losses_"), ["a"]),
        (("fitted", "_fingerprint"), [1]),
    ],
)
def test_what_a_fit_leaves_is_of_the_right_kind(refused, place, value):
    words = refused("embedder", config(*place, to=value))
    assert f"{place[1] if place[0] == 'fitted' else place[0]} must be as a fit leaves it" in words


def test_a_byte_that_is_no_bool(refused):
    def changed(model):
        model.arrays["4.x"] = np.array([True])

    def whole(model):
        body = Model.files(model)[MODEL][:-1] + b"\7"
        return {MODEL: body, CONFIG: signed(model.content, body)}

    assert "'4.x' must hold only 0 and 1, got 7" in refused("table", changed, whole)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a": 1, "a": 1}', "the key 'a' twice"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": NaN}', "the number NaN"),
        (b"[" * 40 + b"]" * 40, "more than 32 levels"),
        (b"[" * 10**5 + b"]" * 10**5, "bytes, where|more than 32 levels"),
        (b'{"a": "\\ud800"}', "surrogates not allowed"),
        (b'{"a": "\xff"}', "codec can't decode"),
        (b"[" + b"[]," * 10**6 + b"1]", "objects of up to"),
        (b'"' + "\U0001f600".encode() * 10**6 + b'"', "objects of up to"),
        (b"9" * 5000, "4300"),
    ],
)
def test_json_to_the_letter(text, words):
    with pytest.raises(ValueError, match=words):
        parse(text, Allowance(10**7))


def test_a_number_too_large_in_a_signed_config(refused):
    def files(model):
        found = Model.files(model)
        text = found[CONFIG].decode().replace('"n_rows": 40', '"n_rows": 1e999')
        return {**found, CONFIG: text.encode()}

    assert "the number 1e999" in refused("table", lambda model: None, files)


def hole(path):
    path.write_bytes(b"")
    os.truncate(path, 2**40)


@pytest.mark.parametrize("name", [CONFIG, MODEL])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.symlink_to("/dev/zero"), "a link"),
        (lambda path: path.symlink_to(path.parent / "real"), "a link"),
        (os.mkfifo, "a pipe"),
        (listen, "a device or a socket"),
        (Path.mkdir, "a folder"),
        (hole, "more than|must hold its header|damaged"),
    ],
)
def test_files_that_are_none(by_name, tmp_path, name, make, words):
    raw = by_name["table"].raw
    lay_out({**raw, "real": raw[name], name: make}, tmp_path / "model")
    with pytest.raises(ArtifactError, match=words):
        tabembed.load(tmp_path / "model")


def test_a_folder_may_be_a_link(by_name, tmp_path):
    lay_out(dict(by_name["table"].raw), tmp_path / "model")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    assert tabembed.load(tmp_path / "link").schema_.n_rows == 40


def test_arrays_may_stand_in_another_order(by_name, tmp_path):
    model = copied(by_name["table"])
    files = model.files()
    body = arrays_file(dict(sorted(model.arrays.items(), reverse=True)))
    lay_out({CONFIG: signed(model.content, body), MODEL: body}, tmp_path / "model")
    frame = hostile.table()
    loaded = tabembed.load(tmp_path / "model")
    lay_out(files, tmp_path / "same")
    other = tabembed.load(tmp_path / "same")
    assert loaded.schema_ == other.schema_
    assert loaded.transform(frame).ids.equal(other.transform(frame).ids)


def test_a_wide_table_is_not_refused(tmp_path):
    frame = pd.DataFrame({f"column {i}": ["a", "b"] for i in range(200)})
    tabembed.TableEncoder().fit(frame).save(tmp_path / "model")
    assert len(tabembed.load(tmp_path / "model").columns_) == 200
