"""Tables that somebody hostile wrote: each is read, or is one line that names the file."""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet
from special_files import listen
from typer.testing import CliRunner

from tabembed.cli import app, files
from tabembed.cli.frames import read_frame

N_ROWS = 60


def make_table() -> pa.Table:
    """Sixty rows of every kind of column."""
    days = np.arange(N_ROWS).astype("M8[D]")
    return pa.table(
        {
            "city": pa.array([("Oslo", "Rome", None)[i % 3] for i in range(N_ROWS)]),
            "size": pa.array(["s", "m"] * (N_ROWS // 2)).dictionary_encode(),
            "n": np.arange(N_ROWS) % 9,
            "x": pa.array([None if i % 7 == 0 else i / 3 for i in range(N_ROWS)]),
            "when": pa.array(days.astype("M8[ns]")),
            "there": pa.array(days.astype("M8[us]")).cast(pa.timestamp("us", "Europe/Oslo")),
            "flag": pa.array([True, False] * (N_ROWS // 2)),
            "tags": pa.array([["a", "b"][: i % 3] for i in range(N_ROWS)]),
            "long": pa.array(["a" * i for i in range(N_ROWS)], pa.large_string()),
        }
    )


def in_csv(table: pa.Table, file: io.BytesIO) -> None:
    csv.write_csv(table.drop(["size", "tags"]), file)


def in_groups(table: pa.Table, file: io.BytesIO) -> None:
    parquet.write_table(table, file, row_group_size=25)


def in_plain_pages(table: pa.Table, file: io.BytesIO) -> None:
    parquet.write_table(table, file, compression="none", use_dictionary=False, data_page_version="2.0")


def in_a_stream(table: pa.Table, file: io.BytesIO) -> None:
    with ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def uncompressed(table: pa.Table, file: io.BytesIO) -> None:
    feather.write_feather(table, file, compression="uncompressed")


def compressed(table: pa.Table, file: io.BytesIO) -> None:
    feather.write_feather(table, file, compression="lz4")


FORMS = {
    "rows.csv": in_csv,
    "groups.parquet": in_groups,
    "plain.parquet": in_plain_pages,
    "stream.arrow": in_a_stream,
    "file.arrow": uncompressed,
    "file.feather": compressed,
}


def written(name: str) -> bytes:
    file = io.BytesIO()
    FORMS[name](make_table(), file)
    return file.getvalue()


def mutated(whole: bytes, rng: random.Random) -> bytes:
    blob, i = bytearray(whole), rng.randrange(len(whole))
    what = rng.choice(["flip", "flip", "cut", "hole", "twice", "same", "number", "end", "longer"])
    some = rng.choice([1, 4, 8, 100])
    if what == "flip":
        for _ in range(rng.choice([1, 1, 2, 5, 40])):
            blob[rng.randrange(len(blob))] = rng.randrange(256)
    elif what == "cut":
        del blob[i:]
    elif what == "hole":
        del blob[i : i + some]
    elif what == "twice":
        blob[i:i] = blob[i : i + some]
    elif what == "same":
        blob[i : i + some] = rng.choice([b"\0", b"\xff"]) * some
    elif what == "number":
        number = rng.choice([0, 1, -1, 2**31 - 1, 2**20, -(2**31)])
        blob[i - i % 4 : i - i % 4 + 4] = number.to_bytes(4, "little", signed=True)
    elif what == "end":
        blob[-1 - rng.randrange(min(len(blob), 2000))] = rng.randrange(256)
    else:
        blob += rng.randbytes(some)
    return bytes(blob)


def described(path: Path) -> str:
    """What ``tabembed describe`` says in one line about a file that it cannot read."""
    result = CliRunner().invoke(app, ["describe", str(path)])
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert path.name in result.stderr
    return result.stderr


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_mutations(name: str, count: int, tmp_path: Path) -> None:
    whole, path, words = written(name), tmp_path / name, []
    path.write_bytes(whole)
    assert len(read_frame(path)) == N_ROWS
    for number in range(count):
        path.write_bytes(mutated(whole, random.Random(number)))
        with contextlib.suppress(ValueError):
            read_frame(path)
            continue
        with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
            read_frame(path)
        words.append(str(caught.value))
    assert len(words) > 0.3 * count
    assert max(map(len, words)) < 1500


@pytest.mark.parametrize("name", ["plain.parquet", "groups.parquet", "file.arrow", "rows.csv"])
def test_every_beginning_of_a_file(name: str, tmp_path: Path) -> None:
    whole, path = written(name), tmp_path / name
    for end in range(0, len(whole) - 1, len(whole) // 20):
        path.write_bytes(whole[:end])
        if name == "rows.csv" and end:  # a shorter CSV may be one, too
            continue
        with pytest.raises(ValueError, match=name):
            read_frame(path)


@pytest.mark.parametrize("name", ["file.arrow", "stream.arrow"])
def test_offsets_that_lead_outside_of_a_file(name: str, tmp_path: Path) -> None:
    table = pa.table({"city": ["Oslo", "Rome", "Bern"]})
    file = io.BytesIO()
    FORMS[name](table, file)
    offsets = np.array([0, 4, 8, 12], "int32").tobytes()
    assert file.getvalue().count(offsets) == 1
    far = np.array([0, 2**30, 2**30 + 4, 2**30 + 8], "int32").tobytes()
    (tmp_path / name).write_bytes(file.getvalue().replace(offsets, far))
    assert "offset" in described(tmp_path / name).lower()


def test_a_code_without_its_category(tmp_path: Path) -> None:
    codes = pa.array([0, 1, 7], pa.int32())
    forged = pa.DictionaryArray.from_arrays(codes, ["s", "m"], safe=False)
    feather.write_feather(pa.table({"size": forged}), str(tmp_path / "t.arrow"), compression="uncompressed")
    assert "out of bounds" in described(tmp_path / "t.arrow")


def test_more_rows_than_memory_has_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"n": np.zeros(100_000, "int8")}), path)
    assert path.stat().st_size < 2000
    assert len(read_frame(path)) == 100_000
    monkeypatch.setattr(files, "_bytes_of_memory", lambda: 99_999)
    assert "at least 100,000 bytes, more than the 99,999 of memory" in described(path)


def test_memory_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(written("groups.parquet"))

    def full(path: Path) -> None:
        raise MemoryError

    monkeypatch.setitem(files._READERS, ".parquet", full)
    assert "cannot be read as parquet: MemoryError" in described(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "must hold a table, got an empty file"),
        ("a.parquet", b"", "must hold a table, got an empty file"),
        ("a.csv", b"\n\n", "cannot infer number of columns"),
        ("a.csv", b"a\xff,b\n1,2\n", "can't decode byte 0xff"),
        ("a.csv", b"a,b\nx\xff,2\n", "column 'a' is not UTF-8 text"),
        ("a.csv", b"a,b,a\n1,2,3\n", "column 'a': given twice"),
        ("a.csv", b"a,b\n1\n", "Expected 2 columns, got 1"),
        ("a.parquet", b"a,b\n1,2\n", "cannot be read as parquet"),
        ("a.arrow", b"a,b\n1,2\n", "cannot be read as arrow"),
        ("a.arrow", b"PAR1" * 99, "cannot be read as arrow"),
        ("a.csv", b"a\x1b[31m,b,a\x1b[31m\n1,2,3\n", "column 'a\\x1b[31m': given twice"),
        ("a.txt", b"a,b\n1,2\n", "must end in one of .csv"),
    ],
)
def test_what_is_no_table(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert words in described(tmp_path / name)


def test_escapes_of_a_terminal_are_spelled_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n\x1b]0;title\x07\n")
    said = described(tmp_path / "a.csv")
    assert "\x1b" not in said
    assert "\\x1b]0;title" in said


def test_zero_bytes_are_signs_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\nx\0y,1\nx,2\n")
    assert list(read_frame(tmp_path / "a.csv")["a"]) == ["x\0y", "x"]


def test_only_a_header_is_a_table_without_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n")
    frame = read_frame(tmp_path / "a.csv")
    assert (list(frame), len(frame)) == (["a", "b"], 0)


def test_many_columns_of_one_name_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"," * 5_000 + b"\n" + b"," * 5_000)
    assert "column '': given twice" in described(tmp_path / "a.csv")


def test_many_columns_are_not_all_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"c{i}" for i in range(2000)) + "\n")
    with pytest.raises(ValueError, match=r"column 'city': not in .*a\.csv, which has .*\.\.\.") as caught:
        read_frame(tmp_path / "a.csv", needs=["city"])
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize("suffix", files.SUFFIXES)
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "got a pipe"),
        (listen, "got a device or a socket"),
        (lambda path: path.symlink_to("/dev/zero"), "got a device or a socket"),
        (lambda path: path.symlink_to(path), "no such file"),
        (lambda path: path.symlink_to("absent"), "no such file"),
        (lambda path: path.symlink_to("."), "got a folder"),
        (lambda path: path.symlink_to("/proc/self/maps"), "got an empty file"),
        (Path.mkdir, "got a folder"),
    ],
)
def test_what_is_no_file(tmp_path: Path, suffix: str, make, words: str) -> None:
    path = tmp_path / f"table{suffix}"
    make(path)
    with pytest.raises(ValueError, match=words) as caught:
        read_frame(path)
    assert str(path) in str(caught.value)
