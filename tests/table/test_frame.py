"""What a table may be, how its memory may lie, and what is no table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from table.test_encoder import same

from tabembed import Categorical, TableEncoder, load

X = np.random.default_rng(0).normal(size=(50, 4))


def in_a_file(folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def locked(_):
    rows = X.copy()
    rows.setflags(write=False)
    return rows


FORMS = {
    "locked": locked,
    "in a file": in_a_file,
    "columns first": lambda _: np.asfortranarray(X),
    "every second place": lambda _: np.repeat(X, 2, 1)[:, ::2],
    "backwards": lambda _: np.ascontiguousarray(X[::-1])[::-1],
    "bytes swapped": lambda _: X.astype(X.dtype.newbyteorder()),
    "objects": lambda _: X.astype(object),
    "no alignment": lambda _: np.frombuffer(b"\0" + X.tobytes(), X.dtype, X.size, 1).reshape(X.shape),
    "lists": lambda _: X.tolist(),
}


@pytest.mark.parametrize("form", FORMS)
def test_memory_of_any_kind(form, tmp_path):
    given = FORMS[form](tmp_path)
    encoder = TableEncoder().fit(X)
    assert TableEncoder().fit(given).schema_ == encoder.schema_
    assert same(encoder.transform(given), encoder.transform(X))


MASKED = {
    "numbers": np.array([1.0, 2.0, 3.0]),
    "whole": np.array([1, 2, 3]),
    "text": np.array(["a", "b", "c"]),
    "objects": np.array(["a", "b", "c"], dtype=object),
    "times": np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[ns]"),
    "booleans": np.array([True, False, True]),
}


@pytest.mark.parametrize("values", MASKED)
def test_what_lies_under_a_mask_is_missing(values):
    plain = MASKED[values]
    masked = np.ma.masked_array(plain, [False, True, False])
    gap = pd.Series(plain).astype(object).where([True, False, True], None).tolist()
    encoder = TableEncoder().fit({"x": masked})
    assert encoder.schema_ == TableEncoder().fit({"x": gap}).schema_
    assert same(encoder.transform({"x": masked}), encoder.transform({"x": gap}))
    assert same(encoder.transform({"x": np.ma.masked_array(plain)}), encoder.transform({"x": plain}))


def test_a_mask_over_a_table():
    masked = np.ma.masked_array(X, X > 1)
    encoder = TableEncoder().fit(masked)
    assert encoder.schema_ == TableEncoder().fit(np.where(X > 1, np.nan, X)).schema_
    assert encoder.transform(masked).missing.numpy().tolist() == (X > 1).tolist()


@pytest.mark.parametrize(
    "values",
    ["ab", b"ab", {1, 2}, {0: 1}, 3, None, np.array(3), (i for i in "ab")],
    ids=lambda v: type(v).__name__,
)
def test_a_column_of_a_dict_is_a_list_of_values(values):
    got = type(values).__name__
    with pytest.raises(TypeError, match=rf"^column 'x': must be a list or an array of values, got {got}$"):
        TableEncoder().fit({"ok": [1, 2], "x": values})


NAMES = ["", "a\nb", "😀", "a.b", "0.values", "\x00", "/../x", "params", "columns", " a", "é", "e\u0301"]


def test_names_of_any_letters_are_names(tmp_path):
    frame = pd.DataFrame({name: ["x", "y"] if i % 2 else [1.0, 2.0] for i, name in enumerate(NAMES)})
    encoder = TableEncoder().fit(frame)
    encoder.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert list(again.kinds_) == NAMES
    assert again.schema_ == encoder.schema_
    assert same(again.transform(frame[NAMES[::-1]]), encoder.transform(frame))


def test_a_name_that_no_file_can_hold_is_an_error():
    with pytest.raises(ValueError, match=r"column '\\ud800': must have a name that UTF-8 can hold, got"):
        TableEncoder().fit({"\ud800": ["a"]})


def test_labels_that_are_no_text_are_taken_as_text():
    frame = pd.DataFrame([[1.0, "a"]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    assert TableEncoder().fit(frame).kinds_ == {"('a', 1)": "continuous", "('b', 2)": "categorical"}
    indexed = frame.set_index(pd.MultiIndex.from_tuples([("p", np.nan)]))
    assert same(TableEncoder().fit(indexed).transform(indexed), TableEncoder().fit(frame).transform(frame))


@pytest.mark.slow
def test_five_thousand_columns():
    frame = pd.DataFrame({f"c{i}": ["a", "b", "a"] if i % 2 else [1.0, 2.0, 4.0] for i in range(5000)})
    batch = TableEncoder().fit(frame).transform(frame)
    assert (batch.ids.shape, batch.values.shape) == ((3, 2500), (3, 2500))
    assert (batch.ids == batch.ids[:, :1]).all()
    assert (batch.values == batch.values[:, :1]).all()


def test_a_dictionary_with_a_value_that_is_null_counts_as_missing():
    import pyarrow as pa

    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None]))
    encoder = TableEncoder({"x": Categorical()}).fit({"x": column})
    assert encoder.schema_["x"].counts == (0, 2, 0, 2)
    assert encoder.transform({"x": column}).ids[:, 0].tolist() == [3, 1, 1, 3]
