from __future__ import annotations

import hashlib
import json
import os
import re
import struct

import numpy as np
import pytest

from tabembed.artifact import ArtifactError, read, read_config, replacing, write

CONFIG = {"width": 2, "names": ["a", "é"], "rate": 0.1, "nothing": None}
ARRAYS = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "counts": np.array([3, 1], dtype=np.int64),
    "empty": np.zeros((0, 4), dtype=np.float64),
    "scalar": np.array(2.5, dtype=np.float16),
    "mask": np.array([True, False]),
    "bytes": np.array([255], dtype=np.uint8),
}


@pytest.fixture
def model(tmp_path):
    write(tmp_path / "model", "Thing", CONFIG, ARRAYS)
    return tmp_path / "model"


def edit(model, change, rehash=False):
    file = model / "config.json"
    content = json.loads(file.read_text())
    change(content)
    if rehash:
        content["sha256"] = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    file.write_text(json.dumps(content))


def edit_header(model, change):
    """Change the header of the arrays' file and give the config the new hash, as a forger would."""
    file = model / "model.safetensors"
    blob = file.read_bytes()
    length = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + blob[8 + length :])
    edit(model, lambda content: None, rehash=True)


def test_what_is_written_is_read_bit_equal(model):
    config, arrays = read(model, classes=["Other", "Thing"])
    assert config == CONFIG
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
        assert arrays[name].flags.writeable
    assert sorted(os.listdir(model)) == ["config.json", "model.safetensors"]
    assert read_config(model, classes=["Thing"])["class"] == "Thing"


def test_strided_and_big_endian_arrays(tmp_path):
    wanted = np.arange(12, dtype=np.int32).reshape(3, 4)
    given = {"strided": wanted[::2, ::-1], "turned": wanted.T, "big": wanted.astype(">i4")}
    write(tmp_path / "m", "Thing", {}, given)
    arrays = read(tmp_path / "m", ["Thing"])[1]
    for name, array in given.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == np.dtype("int32")


def test_the_same_model_has_the_same_bytes(model, tmp_path):
    write(tmp_path / "again", "Thing", CONFIG, ARRAYS)
    for name in os.listdir(model):
        assert (model / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_others_may_read_what_the_umask_lets_them(model):
    modes = {(model / name).stat().st_mode & 0o777 for name in os.listdir(model)}
    umask = os.umask(0)
    os.umask(umask)
    assert modes == {0o666 & ~umask}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda c: c.pop("format"), "must describe a tabembed model"),
        (lambda c: c.update(format="other"), "must describe a tabembed model"),
        (lambda c: c.update(format_version=2), "format_version must be 1, got 2"),
        (lambda c: c.update(format_version=True), "format_version must be 1, got True"),
        (lambda c: c.pop("format_version"), "format_version must be 1, got None"),
        (lambda c: c.update({"class": "Evil"}), r"class must be one of \['Thing'\], got 'Evil'"),
        (lambda c: c.update({"class": ["Thing"]}), r"class in config.json must be a str, got \['Thing'\]"),
        (lambda c: c.pop("tabembed_version"), "tabembed_version in config.json must be a str, got None"),
        (lambda c: c.update(config=[]), r"config in config.json must be a dict, got \[\]"),
        (lambda c: c.update(arrays=3), "arrays in config.json must be a dict, got 3"),
        (lambda c: c.pop("sha256"), "sha256 in config.json must be a str, got None"),
        (lambda c: c.update(sha256="0" * 64), f"sha256 of model.safetensors must be {'0' * 64}, got "),
        (lambda c: c["arrays"].pop("mask"), r"must hold the arrays \[.*\], got \[.*'mask'.*\]"),
        (lambda c: c["arrays"].update(more=c["arrays"]["mask"]), r"must hold the arrays \[.*'more'"),
        (
            lambda c: c["arrays"]["weight"].update(shape=[3, 2]),
            r"'weight' must be float32 \[3, 2\], got F32 \[2, 3\]",
        ),
        (lambda c: c["arrays"]["weight"].update(dtype="int32"), r"'weight' must be int32 \[2, 3\], got F32"),
        (
            lambda c: c["arrays"]["weight"].update(dtype="object"),
            "'weight' must be described by a dtype and a shape",
        ),
        (
            lambda c: c["arrays"]["weight"].update(shape=[-1]),
            "'weight' must be described by a dtype and a shape",
        ),
        (
            lambda c: c["arrays"]["weight"].update(shape=[2.0, 3]),
            "'weight' must be described by a dtype and a shape",
        ),
        (lambda c: c["arrays"].update(weight=None), "'weight' must be described by a dtype and a shape"),
    ],
)
def test_a_changed_config_is_refused(model, change, text):
    edit(model, change)
    with pytest.raises(ArtifactError, match=text) as caught:
        read(model, classes=["Thing"])
    assert str(model) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[1, 2]", b'{"rate": NaN}', b"[" * 100_000, b'"tabembed"']
)
def test_a_config_that_is_no_json_object_is_refused(model, content):
    (model / "config.json").write_bytes(content)
    with pytest.raises(ArtifactError, match="config.json must") as caught:
        read_config(model, classes=["Thing"])
    assert str(model) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda h: h["weight"].update(shape=[6]), r"'weight' must be float32 \[2, 3\], got F32 \[6\]"),
        (lambda h: h["weight"].update(dtype="I32"), r"'weight' must be float32 \[2, 3\], got I32"),
        (lambda h: h["weight"].pop("dtype"), "must have a readable header"),
        (lambda h: h.update(weight=3), "must have a readable header"),
        (lambda h: h.pop("weight"), "must hold the arrays"),
        (lambda h: h["weight"].update(data_offsets=[0, 2**40]), "must be readable"),
        (lambda h: h["weight"].update(data_offsets=h["counts"]["data_offsets"]), "must be readable"),
    ],
)
def test_a_forged_header_is_refused(model, change, text):
    edit_header(model, change)
    with pytest.raises(ArtifactError, match=text) as caught:
        read(model, classes=["Thing"])
    assert str(model) in str(caught.value)


def test_a_huge_shape_is_refused_before_anything_is_allocated(model, monkeypatch):
    def grow(content):
        content["arrays"]["weight"]["shape"] = [2**20, 2**30]

    edit_header(model, lambda header: header["weight"].update(shape=[2**20, 2**30]))
    edit(model, grow)
    monkeypatch.setattr("numpy.empty", None)  # not reached
    with pytest.raises(ArtifactError, match=r"model.safetensors must have \d{16} bytes, got \d+"):
        read(model, classes=["Thing"])


def test_every_truncation_and_every_flipped_byte_is_refused(model):
    file = model / "model.safetensors"
    whole = file.read_bytes()
    damaged = [whole[:n] for n in range(0, len(whole), 7)] + [whole + b"\0"]
    damaged += [whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :] for n in range(0, len(whole), 11)]
    for blob in damaged:
        file.write_bytes(blob)
        with pytest.raises(ArtifactError, match=re.escape(str(model))):
            read(model, classes=["Thing"])
    file.write_bytes(whole)
    read(model, classes=["Thing"])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("instead", [None, "folder"])
def test_a_missing_file_is_named(model, name, instead):
    (model / name).unlink()
    if instead:
        (model / name).mkdir()
    with pytest.raises(ArtifactError, match=f"{name} must be") as caught:
        read(model, classes=["Thing"])
    assert str(model) in str(caught.value)


def test_a_path_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(ArtifactError, match="must be a folder, got a file"):
        read(tmp_path / "file", ["Thing"])
    with pytest.raises(ArtifactError, match="must be a folder, got nothing there"):
        read(tmp_path / "absent", ["Thing"])


def test_an_older_model_is_replaced_and_nothing_is_left_beside_it(model):
    write(model, "Thing", {"width": 9}, {})
    assert read(model, ["Thing"]) == ({"width": 9}, {})
    assert os.listdir(model.parent) == ["model"]


def test_a_link_keeps_pointing_at_the_model(model, tmp_path):
    (tmp_path / "link").symlink_to(model)
    write(tmp_path / "link", "Thing", {"width": 9}, {})
    assert (tmp_path / "link").is_symlink()
    assert read(model, ["Thing"])[0] == {"width": 9}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"notes.txt": "mine"},
        {"config.json": "{}", "model.safetensors": ""},
        {"config.json": '{"format": "other"}', "model.safetensors": ""},
        {"config.json": "[]", "model.safetensors": ""},
        {"config.json": '{"format": "tabembed"}', "model.safetensors": "", "notes.txt": "mine"},
        {"config.json": '{"format": "tabembed"}'},
    ],
)
def test_what_is_no_model_is_never_replaced(tmp_path, files):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(ArtifactError, match="path must be new or hold only a tabembed model") as caught:
        write(folder, "Thing", CONFIG, ARRAYS)
    assert str(folder) in str(caught.value)
    assert {name: (folder / name).read_text() for name in os.listdir(folder)} == files
    assert os.listdir(tmp_path) == ["folder"]


def test_a_file_is_never_replaced(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ArtifactError, match="path must be new"):
        write(tmp_path / "file", "Thing", CONFIG, ARRAYS)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), {1}, np.float32(1), "\ud800"])
@pytest.mark.parametrize("older", [False, True])
def test_a_config_that_json_cannot_hold_writes_nothing(tmp_path, rate, older):
    if older:
        write(tmp_path / "model", "Thing", CONFIG, ARRAYS)
    with pytest.raises(ValueError, match="config must be plain JSON with finite numbers, got "):
        write(tmp_path / "model", "Thing", {"rate": rate}, ARRAYS)
    assert os.listdir(tmp_path) == ["model"] * older
    if older:
        assert read(tmp_path / "model", ["Thing"])[0] == CONFIG


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.array([1j]), np.array(["2013"], "M8[ns]")]
)
def test_an_array_of_another_dtype_writes_nothing(tmp_path, array):
    with pytest.raises(TypeError, match="array 'odd' must be one of"):
        write(tmp_path / "model", "Thing", {}, {"odd": array})
    assert os.listdir(tmp_path) == []


def test_the_older_model_comes_back_when_the_rename_fails(model, monkeypatch):
    rename, calls = os.rename, []

    def failing(source, target):
        calls.append((source, target))
        if len(calls) == 2:
            raise OSError("disk on fire")
        rename(source, target)

    monkeypatch.setattr(replacing, "exchange", lambda one, other: False)
    monkeypatch.setattr(replacing.os, "rename", failing)
    with pytest.raises(OSError, match="disk on fire"):
        write(model, "Thing", {"width": 9}, {})
    assert read(model, ["Thing"])[0] == CONFIG
    assert os.listdir(model.parent) == ["model"]
