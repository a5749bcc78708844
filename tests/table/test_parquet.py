"""Parquet files opened as one table: which types they get together, and what is refused."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tabembed.table.parquet import open_dataset, record_batches


def write(folder, **tables):
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


def rows(dataset, columns=None, batch_size=3):
    return [row for batch in record_batches(dataset, columns, batch_size) for row in batch.to_pylist()]


def test_files_are_read_in_the_order_of_their_names_and_rows(tmp_path):
    write(tmp_path, b=pa.table({"n": range(10, 17)}), a=pa.table({"n": range(10)}))
    dataset = open_dataset(tmp_path)
    assert [row["n"] for row in rows(dataset)] == list(range(17))
    assert max(batch.num_rows for batch in record_batches(dataset, batch_size=3)) == 3
    listed = open_dataset([str(tmp_path / "b.parquet"), tmp_path / "a.parquet"])
    assert [row["n"] for row in rows(listed)] == [*range(10, 17), *range(10)]
    assert rows(open_dataset(tmp_path / "a.parquet"), batch_size=100) == [{"n": n} for n in range(10)]


STAMP = pa.timestamp("us", "UTC")
TOGETHER = {
    "int and float": ([1, 2], pa.int32(), [0.5], pa.float32(), pa.float64()),
    "small and large ints": ([1, 2], pa.int8(), [2**40], pa.int64(), pa.int64()),
    "text and large text": (["a"], pa.string(), ["b"], pa.large_string(), pa.large_string()),
    "nothing and text": ([None], pa.null(), ["b"], pa.string(), pa.string()),
    "text and nothing": (["b"], pa.string(), [None], pa.null(), pa.string()),
    "dictionary and text": (["a"], pa.dictionary(pa.int8(), pa.string()), ["b"], pa.string(), pa.string()),
    "zones": ([1], STAMP, [1000], pa.timestamp("ns", "Asia/Tokyo"), pa.timestamp("ns", "UTC")),
    "days and seconds": ([1], pa.date32(), [86400], pa.timestamp("s"), pa.timestamp("ns")),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_types_that_differ_between_files_become_one(tmp_path, case):
    a, of_a, b, of_b, kind = TOGETHER[case]
    parts = [pa.table({"x": pa.array(v, k), "y": [0] * len(v)}) for v, k in ((a, of_a), (b, of_b))]
    write(tmp_path, a=parts[0], b=parts[1].select(["y", "x"]))
    dataset = open_dataset(tmp_path)
    assert dataset.schema.field("x").type == kind
    assert dataset.schema.names == ["x", "y"]
    got = [row["x"] for row in rows(dataset)]
    assert got == [value for part in parts for value in part["x"].cast(kind).to_pylist()]


def test_dictionaries_of_files_may_hold_other_values(tmp_path):
    write(
        tmp_path,
        a=pa.table({"x": pa.array(["u", "v"]).dictionary_encode()}),
        b=pa.table({"x": pa.array(["w", "u", None]).dictionary_encode()}),
    )
    assert [row["x"] for row in rows(open_dataset(tmp_path))] == ["u", "v", "w", "u", None]


def test_names_of_folders_are_a_column(tmp_path):
    for year in (2012, 2013):
        (tmp_path / f"year={year}").mkdir()
        write(tmp_path / f"year={year}", a=pa.table({"n": [1.5]}))
    assert rows(open_dataset(tmp_path)) == [{"n": 1.5, "year": 2012}, {"n": 1.5, "year": 2013}]


def test_only_the_columns_that_are_needed_have_to_agree(tmp_path):
    write(tmp_path, a=pa.table({"n": [1], "x": ["a"]}), b=pa.table({"n": [2]}))
    assert rows(open_dataset(tmp_path, ["n"]), ["n"]) == [{"n": 1}, {"n": 2}]
    with pytest.raises(ValueError, match=r"column 'x': must be there once, got it 0 times in '.*b.parquet'"):
        open_dataset(tmp_path)
    with pytest.raises(ValueError, match=r"column 'z': must be in the table, which has \['n', 'x'\]"):
        open_dataset(tmp_path, ["n", "z"])
    write(tmp_path, a=pa.table({"n": [1]}), b=pa.table({"n": [1], "x": ["a"]}))
    with pytest.raises(ValueError, match=r"column 'x': must be in every file, got it in '.*b.parquet' alone"):
        open_dataset(tmp_path)


def test_a_dataset_is_taken_as_it_is():
    dataset = ds.dataset(pa.table({"n": [1, 2, 3]})).filter(ds.field("n") > 1)
    assert open_dataset(dataset, ["n"]) is dataset
    assert rows(dataset) == [{"n": 2}, {"n": 3}]
    with pytest.raises(ValueError, match="column 'z': must be in the table"):
        open_dataset(dataset, ["z"])


def test_types_that_do_not_go_together_are_named(tmp_path):
    write(tmp_path, a=pa.table({"x": [1]}), b=pa.table({"x": ["a"]}))
    message = "column 'x': must be of one type in every file, got int64 and string in '.*b.parquet'"
    with pytest.raises(TypeError, match=message):
        open_dataset(tmp_path)


def test_whole_numbers_that_float64_cannot_hold_are_no_float(tmp_path):
    write(tmp_path, a=pa.table({"x": [2**60 + 1]}), b=pa.table({"x": [0.5]}))
    with pytest.raises(ValueError, match="column 'x': must fit double, its type over all files, got int64"):
        rows(open_dataset(tmp_path))


@pytest.mark.parametrize("first", ["decimal", "int"])
def test_decimals_beside_whole_numbers_stay_exact(tmp_path, first):
    decimal = pa.table({"x": pa.array([Decimal("1.50")])})
    whole = pa.table({"x": pa.array([2**53 + 1, -(2**63)])})
    a, b = (decimal, whole) if first == "decimal" else (whole, decimal)
    found = {row["x"] for row in rows(open_dataset(write(tmp_path, a=a, b=b)))}
    assert found == {Decimal("1.50"), Decimal(2**53 + 1), Decimal(-(2**63))}


def test_columns_name_some_and_each_once(tmp_path):
    write(tmp_path, a=pa.table({"x": [1], "y": [2]}))
    with pytest.raises(ValueError, match=r"column 'x': must be named once in columns, got \['x', 'x'\]"):
        open_dataset(tmp_path, ["x", "x"])
    with pytest.raises(ValueError, match=r"columns must name a column, got \[\]"):
        open_dataset(tmp_path, [])
    with pytest.raises(TypeError, match="columns must be a list of names, got 'x'"):
        open_dataset(tmp_path, "x")


def test_a_name_that_a_file_has_twice_is_said(tmp_path):
    write(tmp_path, a=pa.table([[1], [2], [3]], names=["y", "x", "x"]))
    for source in (tmp_path, tmp_path / "a.parquet", [tmp_path / "a.parquet"]):
        with pytest.raises(ValueError, match="column 'x': must be there once, got it 2 times in '.*a.p"):
            open_dataset(source)


def test_what_is_no_source_is_said(tmp_path):
    write(tmp_path, a=pa.table({"x": [1]}))
    (tmp_path / "empty").mkdir()
    (tmp_path / "b.parquet").write_bytes(b"not parquet")
    with pytest.raises(FileNotFoundError, match="source must be there, got '.*nowhere', which is not"):
        open_dataset(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="source must hold parquet files, got '.*empty' without one"):
        open_dataset(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"source must hold parquet files, got \[\] without one"):
        open_dataset([])
    with pytest.raises(
        ValueError, match="source must be a folder or a list of files, got the folder '.*empty' in one"
    ):
        open_dataset([tmp_path / "a.parquet", tmp_path / "empty"])
    for source in (tmp_path, tmp_path / "b.parquet"):
        with pytest.raises(ValueError, match=r"source must be parquet files, got '.*b.parquet' \("):
            open_dataset(source)
    for source in (3, [3], None):
        with pytest.raises(TypeError, match="source must be a path, a list of paths or a dataset, got"):
            open_dataset(source)


def test_a_file_damaged_behind_its_footer_is_said(tmp_path):
    write(tmp_path, a=pa.table({"x": [float(n) for n in range(1000)]}))
    file = tmp_path / "a.parquet"
    content = bytearray(file.read_bytes())
    content[4:60] = bytes(56)
    file.write_bytes(content)
    with pytest.raises(ValueError, match="source must be parquet that can be read, got"):
        rows(open_dataset(tmp_path))
