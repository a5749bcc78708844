"""A saved encoder gives the same batch in a fresh process."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tabembed
from tabembed import ArtifactError, Categorical, CategoricalList, Continuous, TableEncoder

FRAME = pd.DataFrame(
    {
        "city": ["Rome", "Oslo", None, "Rome", ""],
        "big": pd.array([2**53, 2**53 + 1, None, -(2**63), 2**63 - 1], dtype="Int64"),
        "unsigned": np.array([0, 1, 2**64 - 1, 1, 1], dtype=np.uint64),
        "half": [0.5, 1.5, np.nan, 0.5, 2.5],
        "day": pd.Series(
            [dt.date(2024, 1, 1), None, dt.date(1969, 1, 1)] + [dt.date(2024, 1, 1)] * 2, dtype=object
        ),
        "member": pd.array([True, None, False, True, True], dtype="boolean"),
        "size": pd.Categorical(["hi", "lo", "lo", None, "mid"], categories=["lo", "mid", "hi"], ordered=True),
        "squashed": [1.0, 2.0, np.nan, 50.0, np.inf],
        "standard": [1.0, 2.0, np.nan, 50.0, 3.0],
        "quantile": [1.0, 2.0, np.nan, 50.0, 3.0],
        "plain": [1.0, 2.0, np.nan, 50.0, 3.0],
        "when": pd.date_range("2024-01-01", periods=5, tz="Europe/Oslo"),
        "tags": pd.Series([["a", None], [], None, ["b", "é"], ["a"]], dtype=object),
        "words": ["a|b", None, "b", "c|a", "a"],
        "note": ["x"] * 5,
    }
)
COLUMNS = {
    "big": Categorical(),
    "unsigned": Categorical(),
    "half": Categorical(min_frequency=2),
    "day": Categorical(),
    "words": CategoricalList(separator="|", max_categories=2),
    "standard": Continuous(scaler="standard"),
    "quantile": Continuous(scaler="quantile"),
    "plain": Continuous(scaler=None),
    "note": "drop",
}


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder(COLUMNS, max_categories=100).fit(FRAME)


@pytest.fixture
def saved(encoder, tmp_path):
    encoder.save(tmp_path / "model")
    return tmp_path / "model"


def plain(batch):
    """A batch as nested lists of exact numbers."""
    lists = {name: [t.tolist() for t in ragged] for name, ragged in batch.lists.items()}
    bits = batch.values.numpy().view("int32").tolist()
    return [batch.ids.tolist(), bits, batch.missing.tolist(), batch.times.tolist(), lists]


def test_loading_gives_the_same_encoder(encoder, saved):
    for again in (TableEncoder.load(saved), TableEncoder.load(str(saved)), tabembed.load(saved)):
        assert type(again) is TableEncoder
        assert again.schema_ == encoder.schema_
        assert again.kinds_ == encoder.kinds_
        assert again.get_params() == encoder.get_params()
        assert list(again.feature_names_in_) == list(encoder.feature_names_in_)
        assert again.n_features_in_ == encoder.n_features_in_
        assert {n: v.tolist() for n, v in again.categories_.items()} == {
            n: v.tolist() for n, v in encoder.categories_.items()
        }
        assert plain(again.transform(FRAME)) == plain(encoder.transform(FRAME))
        back = again.inverse_transform(again.transform(FRAME))
        pd.testing.assert_frame_equal(back, encoder.inverse_transform(encoder.transform(FRAME)))


FRESH = """
import pickle, sys, json
import tabembed
frame = pickle.load(open(sys.argv[2], "rb"))
batch = tabembed.load(sys.argv[1]).transform(frame)
lists = {name: [t.tolist() for t in ragged] for name, ragged in batch.lists.items()}
print(json.dumps([batch.ids.tolist(), batch.values.numpy().view("int32").tolist(), batch.missing.tolist(),
                  batch.times.tolist(), lists]))
"""


def test_a_fresh_process_gives_the_same_bits(encoder, saved, tmp_path):
    (tmp_path / "frame.pickle").write_bytes(pickle.dumps(FRAME))
    root = str(Path(tabembed.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "5"}
    command = [sys.executable, "-c", FRESH, str(saved), str(tmp_path / "frame.pickle")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == plain(encoder.transform(FRAME))


def test_a_folder_without_pickle(saved):
    assert sorted(p.name for p in saved.iterdir()) == ["config.json", "model.safetensors"]
    assert json.loads((saved / "config.json").read_text())["class"] == "TableEncoder"


def test_config_and_arrays(encoder):
    config, arrays = encoder.to_artifact()
    assert json.loads(json.dumps(config)) == config
    assert all(isinstance(a, np.ndarray) and a.dtype != object for a in arrays.values())
    again = TableEncoder.from_artifact(
        json.loads(json.dumps(config)), {n: a.copy() for n, a in arrays.items()}
    )
    assert plain(again.transform(FRAME)) == plain(encoder.transform(FRAME))


def test_saving_a_loaded_encoder_writes_the_same_files(saved, tmp_path):
    TableEncoder.load(saved).save(tmp_path / "twice")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "twice" / name).read_bytes() == (saved / name).read_bytes()


def test_an_encoder_fitted_on_an_array_stays_positional(tmp_path):
    array = np.array([[1.0, 2.0], [3.0, np.nan]])
    encoder = TableEncoder().fit(array)
    encoder.save(tmp_path / "m")
    assert plain(TableEncoder.load(tmp_path / "m").transform(array)) == plain(encoder.transform(array))


def test_a_vocabulary_without_a_known_value(tmp_path):
    encoder = TableEncoder(min_frequency=5).fit({"a": ["x", None], "t": [["a"], []]})
    encoder.save(tmp_path / "m")
    again = TableEncoder.load(tmp_path / "m")
    assert again.schema_ == encoder.schema_
    assert again.transform({"a": ["x", None], "t": [["a"], None]}).ids.tolist() == [[2], [1]]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_truncated_file_is_one_clear_error(name, saved):
    content = (saved / name).read_bytes()
    for keep in (0, 10, len(content) // 2, len(content) - 1):
        (saved / name).write_bytes(content[:keep])
        with pytest.raises(ArtifactError):
            TableEncoder.load(saved)


@pytest.mark.parametrize("position", [0.3, 0.6, 0.99])
def test_a_changed_byte_is_one_clear_error(position, saved):
    content = bytearray((saved / "model.safetensors").read_bytes())
    content[int(position * len(content))] ^= 0x55
    (saved / "model.safetensors").write_bytes(bytes(content))
    with pytest.raises(ArtifactError):
        TableEncoder.load(saved)


def test_a_folder_that_is_no_model(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ArtifactError, match=path.name):
            TableEncoder.load(path)
        with pytest.raises(ArtifactError, match=path.name):
            tabembed.load(path)


def test_a_model_of_another_class(saved):
    config = json.loads((saved / "config.json").read_text())
    for name in ("TableEmbedder", "os.system"):
        (saved / "config.json").write_text(json.dumps({**config, "class": name}))
        with pytest.raises(ArtifactError, match=name):
            TableEncoder.load(saved)


def test_an_interrupted_save_leaves_nothing(encoder, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "rename", fail)
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        encoder.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_column_without_a_value_is_saved(tmp_path):
    with pytest.warns(UserWarning, match="column 'empty'"):
        encoder = TableEncoder().fit({"empty": [None, None], "x": [1.0, 2.0]})
    encoder.save(tmp_path / "model")
    again = TableEncoder.load(tmp_path / "model")
    assert again.transform({"empty": [None, "a"], "x": [1.0, 2.0]}).ids.tolist() == [[1], [2]]


def test_a_changed_config_is_refused(tmp_path):
    TableEncoder().fit({"x": [1.0, 2.0]}).save(tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"mean": 1.5', '"mean": 2.5'))
    with pytest.raises(ArtifactError, match="must be as it was written"):
        TableEncoder.load(tmp_path / "model")
