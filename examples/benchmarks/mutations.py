"""Model folders as somebody hostile would write them: every one follows from a seed and a number.

Half of them are well formed: hashes, sizes and headers are made anew after the change, so that a reader has
nothing but the content to refuse them by.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

CONFIG, MODEL = "config.json", "model.safetensors"
CODES = {"bool": "BOOL", "float16": "F16", "float32": "F32", "float64": "F64", "int8": "I8", "int16": "I16"}
CODES |= {"int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64"}

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**20, 2**31 - 1, 2**31, 2**40, 2**53 + 1, 2**62, 2**63 - 1,
    2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, 10**400, 0.0, 0.5, -0.5, 1.5, 1e-300, 5e-324, 1e300, -1e308,
    "", "a", "0", "\x00", "\u202e", "é" * 300, "x" * 100_000, "../../etc/passwd", "/dev/zero", "__class__",
    "__init__", "os.system", "cuda", "cuda:99", "nan", "drop", "auto", "none", "int64", "null",
    "large_string",
    "TableEncoder", "SequenceEncoder", "TableEmbedder", "Categorical", "NumberEncoder", "PeriodicEmbedding",
    "Europe/Oslo", "Mars/Base", [], [[]], [0], [1, 2], ["a"], ["a", "a"], [None], [-1, 2**40], [0.5, "a"],
    {}, {"a": 1}, {"spec": "Categorical"}, {"spec": "os"}, {"numeric": "PeriodicEmbedding", "keywords": {}},
    {"numeric": "TableEmbedding", "keywords": {"schema": 1}}, {"__class__": "x"}, [1] * 5000, ["h"] * 3000,
]  # fmt: skip
"""What stands in the place of another value."""
WORDS = ["a", "", "self", "cls", "args", "kwargs", "__class__", "__dict__", "seed", "device", "dtype", "name"]
WORDS += ["encoder", "max_iter", "n_frequencies", "d_embedding", "num_layers", "num_heads", "embed_dims"]
Files = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """A model folder in parts: what its config says, and its arrays."""

    name: str
    content: dict[str, Any]
    arrays: dict[str, np.ndarray]
    raw: dict[str, bytes]

    @classmethod
    def of(cls, name: str, folder: Path) -> Model:
        """Read a folder that has just been saved."""
        from safetensors.numpy import load

        raw = {file: (folder / file).read_bytes() for file in (CONFIG, MODEL)}
        return cls(name, json.loads(raw[CONFIG]), load(raw[MODEL]), raw)

    def files(self) -> Files:
        """The folder again, its hashes and descriptions made for what it holds now."""
        body = arrays_file(self.arrays)
        self.content["arrays"] = {
            n: {"dtype": a.dtype.name, "shape": list(a.shape)} for n, a in self.arrays.items()
        }
        return {CONFIG: signed(self.content, body), MODEL: body}


def arrays_file(arrays: dict[str, np.ndarray], change: Callable[[dict], Any] = lambda header: None) -> bytes:
    """A file of arrays, its header changed before it is written."""
    header, end, parts = {}, 0, []
    for name, array in arrays.items():
        parts.append(np.ascontiguousarray(array).tobytes())
        place = [end, end + len(parts[-1])]
        header[name] = {"dtype": CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": place}
        end = place[1]
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def signed(content: dict[str, Any], body: bytes) -> bytes:
    """A config with the hash of the arrays' file and its own."""
    content["sha256"] = hashlib.sha256(body).hexdigest()
    said = {key: value for key, value in content.items() if key != "config_sha256"}
    content["config_sha256"] = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    return json.dumps(content).encode()


def mutation(models: list[Model], seed: int, number: int) -> tuple[Model, str, Files]:
    """One mutation: the model it comes from, what was done, and the files of its folder."""
    rng = random.Random(f"{seed}:{number}")
    model = rng.choice(models)
    ways = list(WAYS)
    way = rng.choices(ways, [WAYS[one] for one in ways])[0]
    copied = Model(model.name, copy.deepcopy(model.content), dict(model.arrays), model.raw)
    what, files = way(copied, rng)
    return model, f"{way.__name__}: {what}", files


def lay_out(files: Files, folder: Path) -> None:
    """Write the files of a mutation; a function in the place of bytes makes the file itself."""
    folder.mkdir()
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            content(folder / name)


def nodes(value: Any, path: tuple = ()) -> list[tuple]:
    """Paths of all values inside of a value."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [one for key, child in children for one in [(*path, key), *nodes(child, (*path, key))]]


def at(value: Any, path: tuple) -> Any:
    """The value at a path."""
    for key in path:
        value = value[key]
    return value


def set_at(value: Any, path: tuple, new: Any) -> None:
    """Put another value at a path."""
    at(value, path[:-1])[path[-1]] = new


def values_forged(model: Model, rng: random.Random) -> tuple[str, Files]:
    """One to three values of the config are others, the hashes are right."""
    said = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        path = rng.choice(nodes(model.content["config"]))
        new = copy.deepcopy(rng.choice(VALUES))
        set_at(model.content["config"], path, new)
        said.append(f"{'.'.join(map(str, path))} = {str(new)[:40]}")
    return "; ".join(said), model.files()


def numbers_forged(model: Model, rng: random.Random) -> tuple[str, Files]:
    """A number of the config is one that memory or time may follow from."""
    config = model.content["config"]
    paths = [p for p in nodes(config) if type(at(config, p)) in (int, float)]
    path = rng.choice(paths)
    old = at(config, path)
    new = rng.choice(
        [2**20, 2**31, 2**40, 2**62, 2**63, 10**30, -1, 0, old + 1, -old, old * 2, old + 0.5, 1e300]
    )
    set_at(config, path, new)
    return f"{'.'.join(map(str, path))} = {new}", model.files()


def tree_forged(model: Model, rng: random.Random) -> tuple[str, Files]:
    """Keys are gone, new, renamed or exchanged; lists are longer, shorter or in another order."""
    config = model.content["config"]
    paths = nodes(config)
    path = rng.choice(paths)
    parent, key, value = at(config, path[:-1]), path[-1], at(config, path)
    what = rng.choice(["gone", "new", "renamed", "exchanged", "wrapped", "again", "turned", "deep", "copied"])
    if what == "gone":
        del parent[key]
    elif what == "new" and isinstance(parent, dict):
        parent[rng.choice(WORDS)] = copy.deepcopy(rng.choice(VALUES))
    elif what == "renamed" and isinstance(parent, dict):
        parent[rng.choice(WORDS)] = parent.pop(key)
    elif what == "wrapped":
        parent[key] = rng.choice([[value], {"a": value}])
    elif what == "again" and isinstance(value, list):
        parent[key] = value * rng.choice([2, 50, 2000])
    elif what == "turned" and isinstance(value, list):
        parent[key] = value[::-1]
    elif what == "deep":
        for _ in range(rng.choice([10, 40, 900])):
            value = [value]
        parent[key] = value
    else:
        other = rng.choice(paths)
        first, second = copy.deepcopy(value), copy.deepcopy(at(config, other))
        parent[key] = second
        if what == "exchanged" and path != other[: len(path)] and other != path[: len(other)]:
            set_at(config, other, first)
    return f"{what} {'.'.join(map(str, path))}", model.files()


def arrays_forged(model: Model, rng: random.Random) -> tuple[str, Files]:
    """One or two arrays hold other things, are of another dtype or shape, gone, new or exchanged."""
    arrays, said = model.arrays, []
    for _ in range(rng.choice([1, 1, 2])):
        if not arrays:
            break
        name = rng.choice(sorted(arrays))
        what = rng.choice(
            ["values", "values", "values", "dtype", "shape", "gone", "renamed", "exchanged", "new", "rows"]
        )
        said.append(f"{what} {name}")
        if what == "values":
            arrays[name] = _other_values(arrays[name], rng)
        elif what == "dtype":
            with np.errstate(all="ignore"):
                arrays[name] = arrays[name].astype(rng.choice(list(CODES)))
        elif what == "shape":
            array = arrays[name]
            shapes = [array.reshape(-1), array.reshape(1, *array.shape), array.T, array[None, ..., None]]
            shapes += [array.reshape((*array.shape, *[1] * 20)), np.zeros((0, 2**40), array.dtype)]
            shapes += [
                array.reshape(-1)[:1].reshape(()) if array.size else array,
                array[..., :0] if array.ndim else array,
            ]
            arrays[name] = rng.choice(shapes)
        elif what == "rows":
            array = np.atleast_1d(arrays[name])
            few = [
                array[:-1],
                array[1:],
                array[:0],
                np.concatenate([array, array]),
                np.repeat(array, 500, axis=0),
            ]
            arrays[name] = rng.choice(few)
        elif what == "gone":
            del arrays[name]
        elif what == "renamed":
            arrays[rng.choice([name + "x", "0." + name, "network.x", "é", "../x", *WORDS])] = arrays.pop(name)
        elif what == "exchanged":
            other = rng.choice(sorted(arrays))
            arrays[name], arrays[other] = arrays[other], arrays[name]
        else:
            arrays[rng.choice([*WORDS, "encoder.9.values", "table.0.x", "network.hidden.9.w"])] = arrays[name]
    return "; ".join(said), model.files()


def _other_values(array: np.ndarray, rng: random.Random) -> np.ndarray:
    array = array.copy()
    flat = array.reshape(-1)
    if not flat.size:
        return np.ones(rng.choice([1, 3]), array.dtype)
    what = rng.choice(["one", "one", "turned", "mixed", "equal", "all"])
    odd = [0, 1, -1, 2, 3, 127, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63)]
    if array.dtype.kind == "f":
        odd += [np.nan, np.inf, -np.inf, 1e-300, 1e38, 0.5]
    with np.errstate(all="ignore"):
        value = np.array(rng.choice(odd), "float64" if array.dtype.kind == "f" else "int64").astype(
            array.dtype
        )
    if what == "one":
        flat[rng.randrange(flat.size)] = value
    elif what == "turned":
        array = array[::-1].copy() if array.ndim else array
    elif what == "mixed":
        flat[:] = flat[rng.sample(range(flat.size), flat.size)]
    elif what == "equal":
        flat[:] = flat[0]
    else:
        flat[:] = value
    return array


def header_forged(model: Model, rng: random.Random) -> tuple[str, Files]:
    """The header of the arrays' file lies of sizes, shapes and places; the config may say the same."""
    files = model.files()
    name, what = rng.choice(sorted(model.arrays)) if model.arrays else "", "nothing there"
    shape = rng.choice(
        [[2**40], [2**31, 2**31], [2**63], [-1], [0, 2**62], [1] * 40, [0], [2.0], "x", None, [10**30]]
    )
    place = rng.choice(
        [[0, 2**40], [8, 8], [-8, 0], [0], [0, 0, 0], ["a", "b"], None, [0, 1], [2**64, 2**64]]
    )

    def change(header: dict) -> None:
        nonlocal what
        if not header:
            return
        what = rng.choice(
            ["shape", "both shapes", "place", "gone", "new", "metadata", "dtype", "order", "again"]
        )
        if what in ("shape", "both shapes"):
            header[name]["shape"] = shape
        elif what == "place":
            header[name]["data_offsets"] = place
        elif what == "gone":
            header.pop(name)
        elif what == "new":
            header["more"] = {"dtype": "F32", "shape": shape, "data_offsets": place}
        elif what == "metadata":
            header["__metadata__"] = rng.choice([{}, {"a": "b"}, 3, [1] * 1000, {"x": "y" * 10**5}])
        elif what == "dtype":
            header[name]["dtype"] = rng.choice(["F64", "BF16", "F8_E4M3", "x", None, 3, ["F32"]])
        elif what == "again":
            header[name]["data_offsets"] = header[rng.choice(sorted(header))]["data_offsets"]

    body = arrays_file(model.arrays, change)
    if what == "both shapes":
        model.content["arrays"][name]["shape"] = shape
    if what == "order" and len(model.arrays) > 1:
        body = arrays_file(
            dict(rng.sample(sorted(model.arrays.items(), key=lambda p: p[0]), len(model.arrays)))
        )
    if rng.random() < 0.2:
        length = rng.choice([0, 1, 7, 2**31, 2**62, 2**64 - 1, len(body), len(body) - 8, len(body) - 7])
        what, body = f"{what}, length {length}", struct.pack("<Q", length) + body[8:]
    if rng.random() < 0.1:
        what, body = f"{what}, longer", body + b"\0" * rng.choice([1, 8, 2**16])
    return f"{what} {name}", {**files, CONFIG: signed(model.content, body), MODEL: body}


def descriptions_forged(model: Model, rng: random.Random) -> tuple[str, Files]:
    """What stands around the config: format, class, version, descriptions of arrays."""
    content = model.content
    key = rng.choice(["format", "format_version", "class", "tabembed_version", "arrays", "config", "new"])
    new = copy.deepcopy(rng.choice(VALUES))
    if key == "class":
        new = rng.choice(
            ["TableEncoder", "SequenceEncoder", "TableEmbedder", "SequenceEmbedder", "load", new]
        )
    if key == "arrays" and content["arrays"] and rng.random() < 0.7:
        path = rng.choice(nodes(content["arrays"]))
        set_at(content["arrays"], path, new)
    else:
        content[key] = new
    return f"{key} = {str(new)[:40]}", {CONFIG: signed(content, model.raw[MODEL]), MODEL: model.raw[MODEL]}


def bytes_changed(model: Model, rng: random.Random) -> tuple[str, Files]:
    """Bytes are others, gone or more, and no hash is made anew."""
    name = rng.choice([CONFIG, MODEL])
    blob = bytearray(model.raw[name])
    what = rng.choice(["flip", "cut", "longer", "hole", "twice", "zeros", "empty", "other"])
    i = rng.randrange(len(blob))
    if what == "flip":
        for _ in range(rng.choice([1, 1, 3, 50])):
            blob[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
    elif what == "cut":
        del blob[i:]
    elif what == "longer":
        blob += bytes(rng.choices(range(256), k=rng.choice([1, 8, 4096])))
    elif what == "hole":
        del blob[i : i + rng.choice([1, 4, 100])]
    elif what == "twice":
        blob[i:i] = blob[i : i + rng.choice([1, 4, 100])]
    elif what == "zeros":
        blob[i : i + 64] = bytes(64)
    elif what == "empty":
        blob.clear()
    else:
        blob = bytearray(model.raw[CONFIG if name == MODEL else MODEL])
    return f"{what} {name}", {**model.raw, name: bytes(blob)}


def text_changed(model: Model, rng: random.Random) -> tuple[str, Files]:
    """The config is no JSON, or JSON that readers differ about."""
    text = model.raw[CONFIG].decode()
    deep, wide = rng.choice([20, 500, 5000, 200_000]), rng.choice([10, 10_000, 700_000])

    def also(value: str) -> str:
        return text.replace('"config":', f'"more": {value}, "config":', 1)

    changes: dict[str, Any] = {
        "key twice": lambda: text.replace('"class"', '"class": "TableEncoder", "class"', 1),
        "hash twice": lambda: text.replace('"sha256"', '"sha256": "00", "sha256"', 1),
        "deep list": lambda: also("[" * deep + "]" * deep),
        "deep dict": lambda: also('{"a":' * deep + "1" + "}" * deep),
        "not closed": lambda: "[" * deep,
        "many lists": lambda: also("[" + "[]," * wide + "1]"),
        "many dicts": lambda: also("[" + '{"a":1},' * wide + "1]"),
        "many keys": lambda: also("{" + ",".join(f'"{i}":1' for i in range(wide)) + "}"),
        "many numbers": lambda: also("[" + "123456," * wide + "1]"),
        "long text": lambda: also('"' + "x" * (wide * 8) + '"'),
        "wide text": lambda: also('"\U0001f600' + "x" * (wide * 8) + '"'),
        "not a number": lambda: also(rng.choice(["NaN", "Infinity", "-Infinity", "1e999", "-1e400"])),
        "long number": lambda: text.replace(": 1", ": " + "9" * rng.choice([400, 4400, 200_000]), 1),
        "half a pair": lambda: text.replace('"class"', '"\\ud800": 1, "class"', 1),
        "half a pair as value": lambda: text.replace('"config":', '"more": "\\udfff", "config":', 1),
        "mark of order": lambda: "\ufeff" + text,
        "in 16 bits": lambda: text.encode("utf-16"),
        "latin": lambda: text.replace('"class"', '"é": 1, "class"', 1).encode("latin-1", "replace"),
        "comment": lambda: text + "// more",
        "comma": lambda: text.replace("}", ",}", 1),
        "twice": lambda: text + text,
        "zero byte": lambda: text.replace(",", ",\x00", 1),
        "other quotes": lambda: text.replace('"', "'"),
        "other layout": lambda: json.dumps(json.loads(text), indent=4),
        "other order": lambda: json.dumps(json.loads(text), sort_keys=True),
    }  # fmt: skip
    what = rng.choice(sorted(changes))
    changed = changes[what]()
    return what, {**model.raw, CONFIG: changed if isinstance(changed, bytes) else changed.encode("utf-8")}


def place_changed(model: Model, rng: random.Random) -> tuple[str, Files]:
    """The files are links, pipes, sockets or folders, too many or too few."""
    name = rng.choice([CONFIG, MODEL])
    beside = rng.choice(
        ["../outside", "/dev/zero", "/dev/stdin", "/etc/passwd", "/proc/self/mem", MODEL, CONFIG, "."]
    )

    def inside(path: Path) -> None:
        (path.parent / "real").write_bytes(model.raw[name])
        path.symlink_to("real")

    def outside(path: Path) -> None:
        real = path.parent.with_name(path.parent.name + ".real")
        real.write_bytes(model.raw[name])
        path.symlink_to(real)

    def listening(path: Path) -> None:
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(path.name)
        finally:
            os.chdir(here)

    def folder(path: Path) -> None:
        path.mkdir()

    def large(path: Path) -> None:  # a hole: nothing on the disk
        path.write_bytes(model.raw[name])
        os.truncate(path, rng.choice([2**24, 2**33, 2**40]))

    ways: dict[str, Any] = {
        "link inside": inside,
        "link outside": outside,
        "folder": folder,
        "pipe": os.mkfifo,
    }
    ways |= {"link": lambda path: path.symlink_to(beside), "socket": listening, "hole": large}
    ways |= {"absent": None, "more": model.raw[name]}
    what = rng.choice(sorted(ways))
    files: Files = {**model.raw, name: ways[what]}
    if what == "absent":
        del files[name]
    if what == "more":
        files["tabembed.py"] = b"raise SystemExit"
    return f"{what} {name}", files


WAYS: dict[Callable[[Model, random.Random], tuple[str, Files]], float] = {
    values_forged: 10,
    numbers_forged: 5,
    tree_forged: 5,
    arrays_forged: 10,
    header_forged: 3,
    descriptions_forged: 2,
    bytes_changed: 4,
    text_changed: 1,
    place_changed: 1,
}
